//! Turns, their usage and their ends; the queue and the activity line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    client_ref::ClientRef,
    ids::{ItemId, QueuedId, TurnId},
    span::Span,
    time::Timestamp,
};

/// A running turn: one user message and everything up to the model's last answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// When it began.
    pub started_at: Timestamp,
    /// The user message that began it.
    pub prompt: ItemId,
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TurnReason {
    /// The model was done.
    Completed,
    /// Somebody interrupted it, or a crash did.
    Interrupted,
    /// The model reached its output limit.
    Length,
    /// A filter of the provider stopped it.
    ContentFilter,
    /// `limits.modelCalls` was reached.
    ModelCallLimit,
    /// `limits.toolCalls` was reached.
    ToolCallLimit,
    /// `limits.durationMs` was reached.
    DurationLimit,
    /// The conversation does not fit the model's context window.
    ContextOverflow,
    /// The model request failed; `error` says how.
    Error,
}

/// How a turn ended: the payload of `turnCompleted` and the result of `turn/wait`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnCompleted {
    /// The turn.
    pub turn: TurnId,
    /// Why it ended.
    pub reason: TurnReason,
    /// The session's usage at that point.
    pub usage: Usage,
    /// Model rounds of the turn.
    pub model_rounds: u64,
    /// Tool calls of the turn.
    pub tool_calls: u64,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// What went wrong, for `error` and `contextOverflow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TurnError>,
}

/// What ended a turn badly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnError {
    /// `auth`, `quota`, `rateLimit`, `overloaded`, `contextOverflow`, `badRequest`, `server`, `storage` or `internal`.
    pub kind: String,
    /// An English sentence that says what to do.
    pub message: String,
}

/// Tokens of model requests. `cached` is part of `input`, `reasoning` part of `output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// All prompt tokens.
    pub input: u64,
    /// All generated tokens.
    pub output: u64,
    /// Prompt tokens read from the provider's cache.
    pub cached: u64,
    /// Generated tokens spent on reasoning.
    pub reasoning: u64,
}

impl std::ops::AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cached = self.cached.saturating_add(other.cached);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}

/// What a session has used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The last model round.
    pub last: Tokens,
    /// All rounds.
    pub total: Tokens,
    /// Tokens in the model's context now.
    pub context_tokens: u64,
    /// Size of the model's context window, in tokens.
    pub context_window: u64,
    /// Cost so far in the catalog's currency, when prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// A prompt that waits its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuedPrompt {
    /// Its id.
    pub id: QueuedId,
    /// The message.
    pub spans: Vec<Span>,
    /// Who sent it.
    pub by: ClientRef,
    /// When.
    pub at: Timestamp,
    /// It waits until somebody sends it: the turn before it did not end well.
    pub held: bool,
}

/// What a session is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    /// The kind of thing.
    pub kind: ActivityKind,
    /// More of it, for people: the tool, the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Since when.
    pub since: Timestamp,
}

/// What a session may be doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ActivityKind {
    /// Nothing.
    Idle,
    /// A request is under way and nothing has come back.
    WaitingForModel,
    /// The model shows reasoning.
    Thinking,
    /// The model writes.
    Writing,
    /// A tool runs.
    RunningTool,
    /// A call waits for a person.
    AwaitingApproval,
    /// A question waits for a person.
    AwaitingAnswer,
    /// The reviewing model judges a call.
    Reviewing,
    /// The context is being summarised.
    Compacting,
    /// A failed request waits to be tried again.
    Retrying,
}
