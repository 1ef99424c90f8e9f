//! The task of a running turn: model rounds, retries, limits. It owns no session state.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    dispatch::{self, CallHost},
    folding::Folding,
    messages::{FromTurn, PendingCall, TurnEnd, ask},
    transcript,
};
use crate::{
    config::Model,
    limits::{MODEL_ATTEMPTS, TURN_DURATION, TURN_MODEL_CALLS, TURN_TOOL_CALLS},
    providers::{
        Finish, ModelEvent, ModelRequest, Provider, ProviderError, ProviderErrorKind, ToolSpec,
    },
    terms::Replay,
};
use crystal_protocol::{
    rpc::TurnLimits,
    turn::{Tokens, TurnReason},
};
use futures_util::StreamExt;

/// First wait before a failed request is tried again; it doubles with each attempt.
const FIRST_RETRY: Duration = Duration::from_millis(500);

/// Longest wait of our own choosing before a retry.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Longest wait that a provider may ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(600);

/// The model of a turn: fixed from its beginning to its end.
#[derive(Clone)]
pub(super) struct TurnModel {
    /// The wire.
    pub(super) provider: Arc<dyn Provider>,
    /// What the catalog says of the model.
    pub(super) model: Model,
    /// The system text.
    pub(super) system: Arc<str>,
    /// The tools as the model sees them.
    pub(super) tools: Arc<[ToolSpec]>,
    /// How much to think.
    pub(super) thinking: crystal_protocol::session::Thinking,
}

/// A running turn.
pub(super) struct TurnTask {
    /// What calls run with, and the way to the session.
    pub(super) host: CallHost,
    /// The model, or why there is none.
    pub(super) model: Result<TurnModel, ProviderError>,
    /// Bounds.
    pub(super) limits: Bounds,
    /// Model rounds so far.
    pub(super) rounds: u64,
    /// Tool calls so far.
    pub(super) calls: u64,
    /// Calls to take up first: those of a turn that waited for a person when the daemon ended.
    pub(super) resume: Vec<PendingCall>,
}

/// Bounds of one turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    model_calls: u64,
    tool_calls: u64,
    duration: Duration,
}

impl Bounds {
    /// The session's own bounds, else the configured ones, else the built-in ones.
    pub(super) fn new(session: TurnLimits, configured: TurnLimits) -> Self {
        Self {
            model_calls: session
                .model_calls
                .or(configured.model_calls)
                .unwrap_or(TURN_MODEL_CALLS),
            tool_calls: session
                .tool_calls
                .or(configured.tool_calls)
                .unwrap_or(TURN_TOOL_CALLS),
            duration: session
                .duration_ms
                .or(configured.duration_ms)
                .map_or(TURN_DURATION, Duration::from_millis),
        }
    }
}

impl TurnTask {
    /// Runs the turn to its end, and says how it ended.
    pub(super) async fn run(mut self) {
        let started = Instant::now();
        let to_session = self.host.to_session.clone();
        let cancel = self.host.context.cancel.clone();
        let duration = self.limits.duration;
        let mut over_time = false;
        let end = {
            let drive = self.drive();
            tokio::pin!(drive);
            loop {
                tokio::select! {
                    end = &mut drive => break end,
                    () = tokio::time::sleep(duration.saturating_sub(started.elapsed())), if !over_time => {
                        over_time = true;
                        cancel.cancel();
                    }
                }
            }
        };
        let end = if over_time && end.reason == TurnReason::Interrupted {
            TurnEnd::of(TurnReason::DurationLimit)
        } else {
            end
        };
        // The session outlives its turn task, so its end of the channel is open.
        if to_session.send(FromTurn::Ended(end)).await.is_err() {
            tracing::error!("a turn ended after its session");
        }
    }

    async fn drive(&mut self) -> TurnEnd {
        let model = match &self.model {
            Ok(model) => model.clone(),
            Err(error) => return TurnEnd::provider(error),
        };
        let mut calls = std::mem::take(&mut self.resume);
        loop {
            if !calls.is_empty() {
                let over = (self.calls + calls.len() as u64).saturating_sub(self.limits.tool_calls);
                let fitting = calls
                    .len()
                    .saturating_sub(usize::try_from(over).unwrap_or(usize::MAX));
                let excess = calls.split_off(fitting);
                self.calls += calls.len() as u64;
                dispatch::run_batch(&self.host, calls).await;
                if self.host.context.cancel.is_cancelled() {
                    return TurnEnd::of(TurnReason::Interrupted);
                }
                if !excess.is_empty() {
                    return TurnEnd::of(TurnReason::ToolCallLimit);
                }
                if ask(&self.host.to_session, FromTurn::BatchDone)
                    .await
                    .is_none()
                {
                    return TurnEnd::of(TurnReason::Interrupted);
                }
            }
            if self.rounds >= self.limits.model_calls {
                return TurnEnd::of(TurnReason::ModelCallLimit);
            }
            self.rounds += 1;
            match self.round(&model).await {
                Ok(more) if more.is_empty() => return TurnEnd::of(TurnReason::Completed),
                Ok(more) => calls = more,
                Err(end) => return end,
            }
        }
    }

    /// One model round with its retries; the calls that the model made.
    async fn round(&self, model: &TurnModel) -> Result<Vec<PendingCall>, TurnEnd> {
        let interrupted = || TurnEnd::of(TurnReason::Interrupted);
        let mut attempt = 1;
        let mut plain = false;
        let mut folds = Folding::new(&self.host, model);
        loop {
            folds.make_room().await?;
            let conversation = ask(&self.host.to_session, FromTurn::Conversation)
                .await
                .ok_or_else(interrupted)?;
            let request = ModelRequest {
                session: self.host.session.clone(),
                model: model.model.name.clone(),
                system: model.system.clone(),
                tools: model.tools.clone(),
                messages: if plain {
                    transcript::plain(&conversation.messages)
                } else {
                    conversation.messages
                },
                turn_start: conversation.turn_start,
                thinking: model.thinking,
                max_tokens: model.model.max_tokens,
            };
            match self.attempt(model, request).await? {
                Ok((finish, usage, replay)) => {
                    return self.finish_round(finish, usage, replay).await;
                }
                Err(error) if error.kind.is_retryable() && attempt < MODEL_ATTEMPTS => {
                    attempt += 1;
                    let delay = error
                        .retry_after
                        .map_or_else(|| backoff(attempt), |wait| wait.min(LONGEST_RETRY_AFTER));
                    let retry = FromTurn::Retry {
                        attempt,
                        delay,
                        cause: error.message,
                    };
                    self.host
                        .to_session
                        .send(retry)
                        .await
                        .map_err(|_| interrupted())?;
                    tokio::select! {
                        () = self.host.context.cancel.cancelled() => return Err(interrupted()),
                        () = tokio::time::sleep(delay) => {}
                    }
                }
                Err(error)
                    if error.kind == ProviderErrorKind::ContextOverflow && folds.untried() =>
                {
                    attempt += 1;
                    self.retry_at_once(attempt, error.message.clone()).await?;
                    if !folds.fold().await? {
                        return Err(TurnEnd::provider(&error));
                    }
                }
                Err(error) if !plain && is_about_history(&error) => {
                    // Calls and results as plain text: a form that no provider can find unpaired.
                    plain = true;
                    attempt += 1;
                    self.retry_at_once(attempt, error.message).await?;
                }
                Err(error) => return Err(TurnEnd::provider(&error)),
            }
        }
    }

    async fn retry_at_once(&self, attempt: u32, cause: String) -> Result<(), TurnEnd> {
        let retry = FromTurn::Retry {
            attempt,
            delay: Duration::ZERO,
            cause,
        };
        let sent = self.host.to_session.send(retry).await;
        sent.map_err(|_| TurnEnd::of(TurnReason::Interrupted))
    }

    /// One request. The outer error is an interrupt.
    async fn attempt(
        &self,
        model: &TurnModel,
        request: ModelRequest,
    ) -> Result<Result<(Finish, Option<Tokens>, Option<Replay>), ProviderError>, TurnEnd> {
        let mut stream = model.provider.stream(request);
        loop {
            let event = tokio::select! {
                biased;
                () = self.host.context.cancel.cancelled() => return Err(TurnEnd::of(TurnReason::Interrupted)),
                event = stream.next() => event,
            };
            match event {
                Some(Ok(ModelEvent::Finished {
                    finish,
                    usage,
                    replay,
                })) => return Ok(Ok((finish, usage, replay))),
                Some(Ok(event)) => {
                    if self
                        .host
                        .to_session
                        .send(FromTurn::Model(event))
                        .await
                        .is_err()
                    {
                        return Err(TurnEnd::of(TurnReason::Interrupted));
                    }
                }
                Some(Err(error)) => return Ok(Err(error)),
                None => {
                    return Ok(Err(ProviderError::new(
                        ProviderErrorKind::Server,
                        "The model's answer ended before it was whole.",
                    )));
                }
            }
        }
    }

    async fn finish_round(
        &self,
        finish: Finish,
        usage: Option<Tokens>,
        replay: Option<Replay>,
    ) -> Result<Vec<PendingCall>, TurnEnd> {
        let calls = ask(&self.host.to_session, |reply| FromTurn::RoundEnded {
            finish: finish.clone(),
            usage,
            replay,
            reply,
        })
        .await
        .ok_or_else(|| TurnEnd::of(TurnReason::Interrupted))?;
        match finish {
            Finish::Stop | Finish::ToolCalls => Ok(calls),
            Finish::Length => Err(TurnEnd::of(TurnReason::Length)),
            Finish::ContentFilter => Err(TurnEnd::of(TurnReason::ContentFilter)),
            Finish::Other(reason) => Err(TurnEnd::error(
                ProviderErrorKind::Server.name(),
                format!(
                    "The model stopped for a reason that this version does not know: {reason}. Send the message again, or choose another model."
                ),
            )),
        }
    }
}

/// Whether a provider refuses the conversation for the form of its messages.
fn is_about_history(error: &ProviderError) -> bool {
    const WORDS: &[&str] = &[
        "tool_call",
        "tool call",
        "tool_use",
        "tool message",
        "role 'tool'",
        "messages with role",
        "messages.",
        "messages[",
        "roles must alternate",
    ];
    let text = error.message.to_lowercase();
    error.kind == ProviderErrorKind::BadRequest && WORDS.iter().any(|word| text.contains(word))
}

/// The wait before an attempt, from the second on: doubling, with up to a quarter taken off at random so that many
/// sessions do not come back at the same instant.
fn backoff(attempt: u32) -> Duration {
    let doubled = FIRST_RETRY
        .saturating_mul(1 << (attempt.saturating_sub(2)).min(16))
        .min(LONGEST_RETRY);
    doubled.mul_f64(1.0 - fastrand::f64() / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound() {
        for (attempt, most) in [(2, 500), (3, 1_000), (4, 2_000), (20, 30_000)] {
            let wait = backoff(attempt).as_millis();
            assert!(
                wait <= most && wait >= most * 3 / 4,
                "attempt {attempt} waits {wait} ms"
            );
        }
    }
}
