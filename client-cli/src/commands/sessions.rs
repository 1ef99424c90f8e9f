//! `sessions`: all sessions, newest first.

use std::path::PathBuf;

use clap::Args;
use crystal_protocol::{
    rpc::{SessionList, SessionListParams, SessionListResult},
    session::SessionInfo,
};

use crate::{
    context::Context,
    output::{SUCCESS, table},
    wire::{absolute, name_of},
};

/// Lists sessions, newest first.
#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    /// Only those of this directory.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// At most so many.
    #[arg(long, default_value_t = 100)]
    limit: u64,
    /// Go on where the last list ended.
    #[arg(long)]
    cursor: Option<String>,
}

pub(crate) async fn sessions(cx: &Context, args: SessionsArgs) -> anyhow::Result<u8> {
    let workspace = args.workspace.map(|dir| absolute(Some(dir))).transpose()?;
    let client = cx.client().await?;
    let params = SessionListParams {
        workspace,
        all: None,
        limit: Some(args.limit),
        cursor: args.cursor,
    };
    let list = client.call::<SessionList>(params).await?;
    cx.out.result(&list, human).await?;
    Ok(SUCCESS)
}

fn human(list: &SessionListResult) -> String {
    if list.sessions.is_empty() {
        return "no sessions".to_owned();
    }
    let mut text = table(&list.sessions.iter().map(row).collect::<Vec<_>>());
    if let Some(next) = &list.next {
        text.push_str(&format!("more with --cursor {next}\n"));
    }
    text
}

/// A session as a row of a table.
pub(crate) fn row(session: &SessionInfo) -> Vec<String> {
    vec![
        session.id.to_string(),
        name_of(&session.status),
        format!("{} turns", session.turns),
        session.updated_at.to_string(),
        session.workspace.clone(),
        session.title.replace('\n', " "),
    ]
}
