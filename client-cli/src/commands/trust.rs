//! `trust`: whether a workspace is trusted.

use std::path::PathBuf;

use clap::Args;
use crystal_protocol::rpc::{
    WorkspaceParams, WorkspaceTrust, WorkspaceTrustResult, WorkspaceTrustStatus, WorkspaceUntrust,
};

use crate::{context::Context, output::SUCCESS, wire::absolute};

/// Trusts a workspace for good: its files may tell the model what to do, and sessions may be made in it.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The directory; the current one when absent. Trust is about its git root.
    workspace: Option<PathBuf>,
    /// Takes trust back.
    #[arg(long, conflicts_with = "show")]
    revoke: bool,
    /// Changes nothing, only says whether it is trusted.
    #[arg(long)]
    show: bool,
}

pub(crate) async fn trust(cx: &Context, args: TrustArgs) -> anyhow::Result<u8> {
    let params = WorkspaceParams {
        workspace: absolute(args.workspace)?,
    };
    let client = cx.client().await?;
    let result = match (args.revoke, args.show) {
        (true, _) => client.call::<WorkspaceUntrust>(params).await?,
        (false, true) => client.call::<WorkspaceTrustStatus>(params).await?,
        (false, false) => client.call::<WorkspaceTrust>(params).await?,
    };
    cx.out.result(&result, human).await?;
    Ok(SUCCESS)
}

fn human(result: &WorkspaceTrustResult) -> String {
    let is = if result.trusted { "is" } else { "is not" };
    format!("{} {is} trusted", result.root)
}
