//! `call`: any method of the protocol, as it is.

use anyhow::Context as _;
use clap::Args;
use serde_json::Value;

use crate::{
    context::{Context, read_stdin},
    output::{FAILURE, SUCCESS},
};

/// Calls a method of the protocol and prints its result as JSON.
///
/// An error of the daemon's goes to stderr; with --json as the JSON-RPC error object.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The method, such as `session/list`.
    method: String,
    /// Its parameters, a JSON object; `-` reads them from stdin.
    params: Option<String>,
}

pub(crate) async fn call(cx: &Context, args: CallArgs) -> anyhow::Result<u8> {
    let text = match args.params.as_deref() {
        Some("-") => Some(read_stdin().await?),
        other => other.map(str::to_owned),
    };
    let params: Option<Value> = match text {
        Some(text) => Some(serde_json::from_str(&text).context("the parameters are no JSON")?),
        None => None,
    };
    let client = cx.client().await?;
    match client.call_raw(&args.method, params).await {
        Ok(result) if cx.out.json => cx.out.json_line(&result).await?,
        Ok(result) => {
            let text = serde_json::to_string_pretty(&result)?;
            cx.out.json_text(&text).await?;
        }
        Err(error) => {
            let Some(rpc) = error.rpc().filter(|_| cx.out.json) else {
                return Err(error.into());
            };
            cx.out.json_note(&serde_json::to_string(rpc)?).await?;
            return Ok(FAILURE);
        }
    }
    Ok(SUCCESS)
}
