//! `tool call`: runs a tool as the operator.

use anyhow::Context as _;
use clap::Subcommand;
use crystal_protocol::{
    item::ToolCallStatus,
    rpc::{ToolCallMethod, ToolCallParams},
};
use serde_json::{Map, Value};

use crate::{
    context::{Context, read_stdin},
    output::{FAILURE, SUCCESS},
    session_ref,
    wire::name_of,
};

/// Runs tools as the operator.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolCommand {
    /// Runs a tool through the session's own approval, and prints its output. The session must be idle. Exits 1
    /// unless the tool succeeds. What has to be asked waits for `crystal-ctl approve` in another terminal.
    Call {
        /// The session.
        session: String,
        /// The tool.
        name: String,
        /// Its arguments, a JSON object; `-` reads it from stdin.
        arguments: Option<String>,
    },
}

pub(crate) async fn tool(cx: &Context, command: ToolCommand) -> anyhow::Result<u8> {
    let ToolCommand::Call {
        session,
        name,
        arguments,
    } = command;
    let text = match arguments.as_deref() {
        None => "{}".to_owned(),
        Some("-") => read_stdin().await?,
        Some(text) => text.to_owned(),
    };
    let arguments: Map<String, Value> =
        serde_json::from_str(&text).context("the arguments are no JSON object")?;
    let client = cx.client().await?;
    let session = session_ref::resolve(&client, Some(&session)).await?;
    let params = ToolCallParams {
        session,
        name,
        arguments,
    };
    let result = client.call::<ToolCallMethod>(params).await?;
    cx.out
        .result(&result, |result| result.output.clone())
        .await?;
    if result.status == ToolCallStatus::Succeeded {
        return Ok(SUCCESS);
    }
    if !cx.out.json {
        cx.out
            .note(&format!(
                "crystal-ctl: the call {}",
                name_of(&result.status)
            ))
            .await?;
    }
    Ok(FAILURE)
}
