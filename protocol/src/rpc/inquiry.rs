//! `approval/*` and `question/*`: what waits for a person.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    approval::{Approval, Decision},
    ids::{ApprovalId, QuestionId, SessionId},
    question::Question,
};

/// Parameters of `approval/list` and `question/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InquiryListParams {
    /// Only those of this session; else of all loaded ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
}

/// Result of `approval/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalListResult {
    /// Open approvals, each with its session.
    pub approvals: Vec<SessionApproval>,
}

/// An open approval and the session it belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionApproval {
    /// The session.
    pub session: SessionId,
    /// The approval.
    #[serde(flatten)]
    pub approval: Approval,
}

/// Parameters of `approval/respond`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRespondParams {
    /// The session.
    pub session: SessionId,
    /// The approval.
    pub id: ApprovalId,
    /// The answer; must be `deny` or among those offered.
    pub decision: Decision,
    /// A word for the model, with `deny`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Result of `question/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionListResult {
    /// Open questions, each with its session.
    pub questions: Vec<SessionQuestion>,
}

/// An open question and the session it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionQuestion {
    /// The session.
    pub session: SessionId,
    /// The question.
    #[serde(flatten)]
    pub question: Question,
}

/// Parameters of `question/respond`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionRespondParams {
    /// The session.
    pub session: SessionId,
    /// The question.
    pub id: QuestionId,
    /// For each question in order the chosen labels; a text of one's own stands among them.
    pub answers: Vec<Vec<String>>,
}

/// Parameters of `question/dismiss`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionDismissParams {
    /// The session.
    pub session: SessionId,
    /// The question.
    pub id: QuestionId,
}
