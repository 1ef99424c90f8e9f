//! `approve` and `deny`: the answer to an approval.

use anyhow::bail;
use clap::Args;
use crystal_protocol::{
    approval::Decision,
    client::Client,
    ids::{ApprovalId, SessionId},
    rpc::{ApprovalList, ApprovalRespond, ApprovalRespondParams, InquiryListParams},
};

use crate::{context::Context, output::SUCCESS, session_ref, wire::name_of};

/// Says yes to an approval.
#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// The session.
    #[arg(value_name = "SESSION")]
    of: Option<String>,
    /// The approval; may be left out when exactly one waits.
    id: Option<String>,
    /// Also for calls of the shown rule in this session.
    #[arg(long, conflicts_with = "always")]
    session: bool,
    /// Also for calls of the shown rule in this workspace, for good.
    #[arg(long)]
    always: bool,
}

/// Says no to an approval.
#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// The session.
    #[arg(value_name = "SESSION")]
    of: Option<String>,
    /// The approval; may be left out when exactly one waits.
    id: Option<String>,
    /// A word for the model.
    #[arg(long)]
    message: Option<String>,
}

pub(crate) async fn approve(cx: &Context, args: ApproveArgs) -> anyhow::Result<u8> {
    let decision = match (args.session, args.always) {
        (true, _) => Decision::Session,
        (false, true) => Decision::Always,
        (false, false) => Decision::Once,
    };
    respond(cx, args.of, args.id, decision, None).await
}

pub(crate) async fn deny(cx: &Context, args: DenyArgs) -> anyhow::Result<u8> {
    respond(cx, args.of, args.id, Decision::Deny, args.message).await
}

async fn respond(
    cx: &Context,
    session: Option<String>,
    id: Option<String>,
    decision: Decision,
    message: Option<String>,
) -> anyhow::Result<u8> {
    let client = cx.client().await?;
    let session = session_ref::resolve(&client, session.as_deref()).await?;
    let id = match id {
        Some(id) => ApprovalId::new(id),
        None => the_only_one(&client, &session).await?,
    };
    let params = ApprovalRespondParams {
        session,
        id: id.clone(),
        decision,
        message,
    };
    let done = client.call::<ApprovalRespond>(params).await?;
    cx.out
        .result(&done, |_| format!("approval {id}: {}", name_of(&decision)))
        .await?;
    Ok(SUCCESS)
}

async fn the_only_one(client: &Client, session: &SessionId) -> anyhow::Result<ApprovalId> {
    let params = InquiryListParams {
        session: Some(session.clone()),
    };
    let open = client.call::<ApprovalList>(params).await?.approvals;
    match open.as_slice() {
        [] => bail!("no approval waits in session {session}"),
        [one] => Ok(one.approval.id.clone()),
        many => {
            let ids: Vec<&str> = many.iter().map(|a| a.approval.id.as_str()).collect();
            bail!(
                "{} approvals wait; name one of {}",
                ids.len(),
                ids.join(", ")
            )
        }
    }
}
