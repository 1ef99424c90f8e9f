//! `turn/*` and `queue/*`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{ItemId, QueuedId, SessionId, TurnId},
    span::Span,
    turn::QueuedPrompt,
};

/// Parameters of `turn/submit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnSubmitParams {
    /// The session.
    pub session: SessionId,
    /// The message; not empty.
    pub spans: Vec<Span>,
    /// What to do while a turn runs.
    #[serde(default)]
    pub when_busy: WhenBusy,
}

/// What `turn/submit` does while a turn runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WhenBusy {
    /// The message waits in the queue.
    #[default]
    Queue,
    /// The call fails with `sessionBusy`.
    Reject,
}

/// Result of `turn/submit`; the message is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TurnSubmitResult {
    /// A turn began.
    Started {
        /// The turn.
        turn: TurnId,
        /// The user message.
        item: ItemId,
    },
    /// The message waits.
    Queued {
        /// Where.
        queued: QueuePlace,
    },
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuePlace {
    /// The prompt's id.
    pub id: QueuedId,
    /// Its place, from 0.
    pub position: u64,
}

/// Parameters of `turn/interrupt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnInterruptParams {
    /// The session.
    pub session: SessionId,
    /// Send the queue when the turn has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then_send_queue: Option<bool>,
}

/// Result of `turn/interrupt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnInterruptResult {
    /// Whether a turn was running.
    pub interrupted: bool,
}

/// Parameters of `turn/wait`: with neither id the running turn, else the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnWaitParams {
    /// The session.
    pub session: SessionId,
    /// The turn to wait for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The queued prompt whose turn to wait for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<QueuedId>,
}

/// A result that is the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueResult {
    /// All of it, in order.
    pub queue: Vec<QueuedPrompt>,
}

/// Parameters of `queue/send`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueSendParams {
    /// The session.
    pub session: SessionId,
    /// Only this prompt; else all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<QueuedId>,
}

/// Parameters of `queue/edit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueEditParams {
    /// The session.
    pub session: SessionId,
    /// The prompt.
    pub id: QueuedId,
    /// Its new message.
    pub spans: Vec<Span>,
}

/// Parameters of `queue/remove`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueRemoveParams {
    /// The session.
    pub session: SessionId,
    /// The prompt; absent removes all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<QueuedId>,
}
