//! What the task of a turn tells its session, and asks it.

use std::{sync::Arc, time::Duration};

use crystal_protocol::{
    ids::ItemId,
    item::CallApproval,
    turn::{Tokens, TurnReason},
};
use tokio::sync::{mpsc, oneshot};

use super::verdict::Verdict;
use crate::{
    prompts::SummaryRequest,
    providers::{Finish, Message, ModelEvent, ProviderError, ProviderErrorKind},
    terms::{Effects, Replay},
    tools::ToolOutput,
};

/// What the task of a turn, or of an operator's call, tells its session.
pub(super) enum FromTurn {
    /// A model round begins; the conversation is wanted.
    Conversation(oneshot::Sender<Conversation>),
    /// How many tokens the conversation has.
    Estimate(oneshot::Sender<u64>),
    /// Older turns are to be summarised; those that are newest and fit are kept.
    Fold {
        /// What kept turns may cost.
        keep_tokens: u64,
        /// What is to be summarised, if anything.
        reply: oneshot::Sender<Option<Fold>>,
    },
    /// They are, or they cannot be.
    Folded {
        /// How many of the oldest turns.
        turns: usize,
        /// What the model says of them, or why it does not.
        summary: Result<String, String>,
        /// When it is on record.
        reply: oneshot::Sender<()>,
    },
    /// The model says something.
    Model(ModelEvent),
    /// The model's answer is whole.
    RoundEnded {
        /// Why it stopped.
        finish: Finish,
        /// Tokens, where known.
        usage: Option<Tokens>,
        /// What the provider wants back.
        replay: Option<Replay>,
        /// The calls it made, in order.
        reply: oneshot::Sender<Vec<PendingCall>>,
    },
    /// The request failed and will be tried again.
    Retry {
        /// The attempt that follows.
        attempt: u32,
        /// After so long.
        delay: Duration,
        /// What failed.
        cause: String,
    },
    /// May this call run?
    Judge {
        /// The call's item.
        item: ItemId,
        /// What it would do.
        effects: Box<Effects>,
        /// A lasting rule that covers it.
        standing: Option<String>,
        /// The answer, which may wait for a person.
        reply: oneshot::Sender<Verdict>,
    },
    /// A call's tool begins to run.
    CallStarted {
        /// The call's item.
        item: ItemId,
        /// A short line for people: what it is about.
        title: String,
        /// How it was judged.
        approval: CallApproval,
        /// When it is on record.
        reply: oneshot::Sender<()>,
    },
    /// A running call printed.
    CallOutput {
        /// The call's item.
        item: ItemId,
        /// What.
        text: String,
        /// Bytes left out before it.
        skipped: Option<u64>,
    },
    /// A call is done.
    CallFinished {
        /// The call's item.
        item: ItemId,
        /// What came of it.
        output: ToolOutput,
        /// It was not allowed to run.
        rejected: bool,
        /// How it was judged, if it came that far.
        approval: Option<CallApproval>,
        /// How long it ran.
        duration: Duration,
        /// When it is on record.
        reply: oneshot::Sender<()>,
    },
    /// The tool batch is done; queued prompts may join.
    BatchDone(oneshot::Sender<()>),
    /// The last word.
    Ended(TurnEnd),
}

/// The conversation as a round sends it.
pub(super) struct Conversation {
    /// All messages.
    pub(super) messages: Vec<Arc<Message>>,
    /// Where the running turn begins.
    pub(super) turn_start: usize,
}

/// How a turn ended, as its task sees it.
#[derive(Clone, Debug)]
pub(super) struct TurnEnd {
    /// Why.
    pub(super) reason: TurnReason,
    /// What went wrong.
    pub(super) error: Option<(String, String)>,
}

impl TurnEnd {
    /// An end without an error.
    pub(super) fn of(reason: TurnReason) -> Self {
        Self {
            reason,
            error: None,
        }
    }

    pub(super) fn error(kind: &str, message: impl Into<String>) -> Self {
        Self {
            reason: TurnReason::Error,
            error: Some((kind.to_owned(), message.into())),
        }
    }

    pub(super) fn provider(error: &ProviderError) -> Self {
        let reason = if error.kind == ProviderErrorKind::ContextOverflow {
            TurnReason::ContextOverflow
        } else {
            TurnReason::Error
        };
        Self {
            reason,
            error: Some((error.kind.name().to_owned(), error.message.clone())),
        }
    }
}

/// Sends a question to the session and waits for the answer; `None` when the session is gone.
pub(super) async fn ask<T>(
    to_session: &mpsc::Sender<FromTurn>,
    question: impl FnOnce(oneshot::Sender<T>) -> FromTurn,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    to_session.send(question(reply)).await.ok()?;
    answer.await.ok()
}

/// A call that the model made whole.
#[derive(Clone, Debug)]
pub(super) struct PendingCall {
    /// Its item.
    pub(super) item: ItemId,
    /// The tool.
    pub(super) name: String,
    /// JSON text.
    pub(super) arguments: String,
}

/// Turns that are to be folded, and the request that has a model do it.
pub(super) struct Fold {
    /// How many of the oldest turns.
    pub(super) turns: usize,
    /// The request.
    pub(super) request: SummaryRequest,
}
