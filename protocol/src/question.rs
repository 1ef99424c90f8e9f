//! Questions: what the model asks a person.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{CallId, QuestionId},
    time::Timestamp,
};

/// Questions of one call that wait for answers. Like an approval, they belong to the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Its id, the same after a restart.
    pub id: QuestionId,
    /// The call that asks.
    pub call_id: CallId,
    /// What is asked, in order.
    pub questions: Vec<QuestionPart>,
    /// When it was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<Timestamp>,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionPart {
    /// A few words.
    pub header: String,
    /// The whole question.
    pub text: String,
    /// The answers on offer.
    pub options: Vec<QuestionOption>,
    /// More than one answer may be chosen.
    pub multiple: bool,
    /// A text of one's own may stand among the answers.
    pub custom: bool,
}

/// One answer on offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionOption {
    /// The answer.
    pub label: String,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum QuestionOutcome {
    /// Somebody answered.
    Answered,
    /// Somebody, or the session's policy, sent it away.
    Dismissed,
    /// The call went away first.
    Cancelled,
}
