//! `pending`: what waits for a person.

use crystal_protocol::{
    client::Client,
    ids::SessionId,
    rpc::{ApprovalList, InquiryListParams, QuestionList, SessionApproval, SessionQuestion},
};
use serde::Serialize;

use crate::{context::Context, output::SUCCESS, session_ref, transcript::inquiry};

/// Everything that waits.
#[derive(Debug, Serialize)]
pub(crate) struct Pending {
    /// Open approvals.
    pub(crate) approvals: Vec<SessionApproval>,
    /// Open questions.
    pub(crate) questions: Vec<SessionQuestion>,
}

/// Asks what waits, in one session or all loaded ones.
pub(crate) async fn list(client: &Client, session: Option<SessionId>) -> anyhow::Result<Pending> {
    let params = InquiryListParams { session };
    Ok(Pending {
        approvals: client.call::<ApprovalList>(params.clone()).await?.approvals,
        questions: client.call::<QuestionList>(params).await?.questions,
    })
}

pub(crate) async fn pending(cx: &Context, session: Option<String>) -> anyhow::Result<u8> {
    let client = cx.client().await?;
    let session = match session {
        Some(word) => Some(session_ref::resolve(&client, Some(&word)).await?),
        None => None,
    };
    let pending = list(&client, session).await?;
    cx.out
        .result(&pending, |pending| human(cx, pending))
        .await?;
    Ok(SUCCESS)
}

fn human(cx: &Context, pending: &Pending) -> String {
    let approvals = pending
        .approvals
        .iter()
        .map(|a| inquiry::approval(&a.approval, &cx.hints(&a.session)));
    let questions = pending
        .questions
        .iter()
        .map(|q| inquiry::question(&q.question, &cx.hints(&q.session)));
    let texts: Vec<String> = approvals.chain(questions).collect();
    if texts.is_empty() {
        return "nothing waits".to_owned();
    }
    texts.join("\n")
}
