//! Items: the entries of a transcript.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    approval::{Authority, Risk},
    client_ref::ClientRef,
    ids::{CallId, ItemId, QueuedId, TurnId},
    span::Span,
    time::Timestamp,
};

/// One entry of the transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// Unique within the session.
    pub id: ItemId,
    /// The turn it belongs to; absent for what an operator did with `tool/call` and for notes outside a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// When it began.
    pub created_at: Timestamp,
    /// When it was finished; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// Fields that were cut in this answer, with their whole size in bytes. Read them with `session/item`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<BTreeMap<ItemField, u64>>,
    /// What kind of entry it is, and that kind's own fields.
    #[serde(flatten)]
    pub body: ItemBody,
}

/// The kinds of items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum ItemBody {
    /// What a user sent.
    UserMessage {
        /// The message in typed pieces.
        spans: Vec<Span>,
        /// Who sent it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<ClientRef>,
        /// Its id in the queue, when it waited there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queued: Option<QueuedId>,
    },
    /// What the model said.
    AssistantMessage {
        /// The text so far, or the whole once completed.
        text: String,
        /// Why the model stopped; absent while it writes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finish: Option<FinishReason>,
    },
    /// What the model thought, where its provider shows it.
    Reasoning {
        /// The text so far, or the whole once completed.
        text: String,
    },
    /// A tool call with its result.
    ToolCall(ToolCall),
    /// A word from the daemon to the people who watch; never sent to the model.
    Note {
        /// How much it matters.
        level: NoteLevel,
        /// An English sentence.
        text: String,
    },
    /// A summary that stands in for older items in the model's context.
    Summary {
        /// The summary.
        text: String,
        /// How many items it stands for.
        items_folded: u64,
    },
}

/// A tool call and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The model's name for this call.
    pub call_id: CallId,
    /// The tool.
    pub name: String,
    /// A short line for people: what the call is about.
    pub title: String,
    /// How the arguments are written.
    pub input_kind: InputKind,
    /// The arguments as the model wrote them (JSON text for `json`).
    pub arguments: String,
    /// How far it is.
    pub status: ToolCallStatus,
    /// What it gave back, or printed so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The output is shorter than what the tool produced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_truncated: Option<bool>,
    /// Numbers of the images it gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Vec<u32>>,
    /// Exit code of the process it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How long it ran, in milliseconds, waiting for approval not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How it was judged before it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<CallApproval>,
}

/// How a call was judged: shown for every call, also those that passed by themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallApproval {
    /// What it may do.
    pub risk: Risk,
    /// How far it reaches.
    pub authority: Authority,
    /// What was decided.
    pub outcome: CallOutcome,
    /// The rule that decided, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why, in an English sentence.
    pub reason: String,
}

/// What was decided about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CallOutcome {
    /// It passed without a question.
    Allowed,
    /// Someone, or a rule that someone stored, said yes.
    Approved,
    /// Someone said no, or the policy did.
    Denied,
    /// It is never allowed, in any mode.
    Forbidden,
    /// Nobody decided: the turn ended first.
    Cancelled,
}

/// How a tool takes its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum InputKind {
    /// A JSON object.
    Json,
    /// Free text.
    Text,
}

/// How far a tool call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ToolCallStatus {
    /// Announced; its arguments may still be streaming.
    Pending,
    /// It waits for someone's approval.
    AwaitingApproval,
    /// It runs.
    Running,
    /// It did what was asked.
    Succeeded,
    /// It did not; the output says why.
    Failed,
    /// It was not allowed to run.
    Rejected,
    /// It was stopped, or never began.
    Cancelled,
}

impl ToolCallStatus {
    /// Whether nothing more will come of the call.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Pending | Self::AwaitingApproval | Self::Running)
    }
}

/// Why the model stopped writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It wants tools to run.
    ToolCalls,
    /// It reached its output limit.
    Length,
    /// A filter of the provider stopped it.
    ContentFilter,
    /// The turn was interrupted.
    Interrupted,
    /// The request failed.
    Error,
}

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NoteLevel {
    /// Good to know.
    Info,
    /// Something was left out or changed.
    Warning,
    /// Something failed.
    Error,
}

/// A word from the daemon in the answer to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// How much it matters.
    pub level: NoteLevel,
    /// An English sentence.
    pub text: String,
}

/// The fields of an item that stream, and that may be cut.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum ItemField {
    /// The text of an assistant message, a reasoning or a summary.
    Text,
    /// The arguments of a tool call.
    Arguments,
    /// The output of a tool call.
    Output,
}

impl Item {
    /// Whether the item is finished.
    pub fn is_completed(&self) -> bool {
        self.completed_at.is_some()
    }

    /// The streamed field of that name, where this kind of item has one.
    pub fn field(&self, field: ItemField) -> Option<&str> {
        match (&self.body, field) {
            (
                ItemBody::AssistantMessage { text, .. }
                | ItemBody::Reasoning { text }
                | ItemBody::Summary { text, .. },
                ItemField::Text,
            )
            | (ItemBody::Note { text, .. }, ItemField::Text) => Some(text),
            (ItemBody::ToolCall(call), ItemField::Arguments) => Some(&call.arguments),
            (ItemBody::ToolCall(call), ItemField::Output) => call.output.as_deref(),
            _ => None,
        }
    }

    /// The streamed field of that name, to append to; an absent output begins empty.
    pub fn field_mut(&mut self, field: ItemField) -> Option<&mut String> {
        match (&mut self.body, field) {
            (
                ItemBody::AssistantMessage { text, .. }
                | ItemBody::Reasoning { text }
                | ItemBody::Summary { text, .. }
                | ItemBody::Note { text, .. },
                ItemField::Text,
            ) => Some(text),
            (ItemBody::ToolCall(call), ItemField::Arguments) => Some(&mut call.arguments),
            (ItemBody::ToolCall(call), ItemField::Output) => {
                Some(call.output.get_or_insert_default())
            }
            _ => None,
        }
    }
}
