//! What an adapter emits, whatever the wire.

use std::time::Duration;

use crystal_protocol::turn::Tokens;

use crate::terms::Replay;

/// One event of a model's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// More of the answer's text.
    Text(String),
    /// More of the reasoning that the provider shows.
    Reasoning(String),
    /// A tool call begins. `index` is its place in the answer, from 0; the id is unique in the answer.
    CallStarted {
        /// Its place.
        index: usize,
        /// The wire's id, or one that the adapter made up.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments.
    CallArguments {
        /// The call's place.
        index: usize,
        /// JSON text.
        delta: String,
    },
    /// The answer is whole.
    Finished {
        /// Why the model stopped.
        finish: Finish,
        /// Tokens, where the provider says; absent is unknown, not zero.
        usage: Option<Tokens>,
        /// What must be sent back with this answer in later requests.
        replay: Option<Replay>,
    },
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It was done.
    Stop,
    /// It wants tools to run.
    ToolCalls,
    /// It reached its output limit.
    Length,
    /// A filter of the provider stopped it.
    ContentFilter,
    /// A reason that this build does not know; the turn ends with an error that names it.
    Other(String),
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What kind of failure.
    pub kind: ProviderErrorKind,
    /// An English sentence that says what to do, with the provider's own words; no secret.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
}

impl ProviderError {
    /// A failure without a wait.
    pub fn new(kind: ProviderErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
        }
    }
}

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderErrorKind {
    /// The key is missing or refused.
    Auth,
    /// Quota or spend is used up.
    Quota,
    /// Too many requests.
    RateLimit,
    /// The provider is overloaded.
    Overloaded,
    /// The request is longer than the model's context window.
    ContextOverflow,
    /// The provider refuses the request.
    BadRequest,
    /// A fault of the provider's, of the network, or a broken stream.
    Server,
}

impl ProviderErrorKind {
    /// Whether trying the same request again may help.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::RateLimit | Self::Overloaded | Self::Server)
    }

    /// Its name in `turnCompleted.error.kind` and `data.cause`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Quota => "quota",
            Self::RateLimit => "rateLimit",
            Self::Overloaded => "overloaded",
            Self::ContextOverflow => "contextOverflow",
            Self::BadRequest => "badRequest",
            Self::Server => "server",
        }
    }
}
