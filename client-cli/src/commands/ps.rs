//! `ps`: live sessions with what they wait for.

use crystal_protocol::{
    rpc::{
        ApprovalList, InquiryListParams, QuestionList, SessionApproval, SessionListParams,
        SessionQuestion,
    },
    session::SessionInfo,
};
use serde::Serialize;

use crate::{
    context::Context,
    output::{SUCCESS, table},
    session_ref,
    wire::name_of,
};

#[derive(Serialize)]
struct Live {
    session: SessionInfo,
    approvals: Vec<SessionApproval>,
    questions: Vec<SessionQuestion>,
}

pub(crate) async fn ps(cx: &Context) -> anyhow::Result<u8> {
    let client = cx.client().await?;
    let mut sessions = session_ref::all(&client, SessionListParams::default()).await?;
    sessions.retain(|session| session.live);
    let approvals = client
        .call::<ApprovalList>(InquiryListParams::default())
        .await?
        .approvals;
    let questions = client
        .call::<QuestionList>(InquiryListParams::default())
        .await?
        .questions;
    let live: Vec<Live> = sessions
        .into_iter()
        .map(|session| Live {
            approvals: approvals
                .iter()
                .filter(|a| a.session == session.id)
                .cloned()
                .collect(),
            questions: questions
                .iter()
                .filter(|q| q.session == session.id)
                .cloned()
                .collect(),
            session,
        })
        .collect();
    cx.out.result(&live, |live| human(live)).await?;
    Ok(SUCCESS)
}

fn human(live: &[Live]) -> String {
    if live.is_empty() {
        return "no live sessions".to_owned();
    }
    table(&live.iter().map(row).collect::<Vec<_>>())
}

fn row(live: &Live) -> Vec<String> {
    let mut waits: Vec<String> = Vec::new();
    for approval in &live.approvals {
        waits.push(format!(
            "approval {}: {}",
            approval.approval.id, approval.approval.title
        ));
    }
    for question in &live.questions {
        waits.push(format!("question {}", question.question.id));
    }
    let session = &live.session;
    vec![
        session.id.to_string(),
        name_of(&session.status),
        format!("{} clients", session.clients.len()),
        session.workspace.clone(),
        session.title.replace('\n', " "),
        waits.join("; "),
    ]
}
