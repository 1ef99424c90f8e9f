//! The turn task's part in compaction: when to make room before a round, and having the model summarise.

use std::sync::Arc;

use crystal_protocol::turn::TurnReason;
use futures_util::StreamExt;

use super::{
    compaction::Budget,
    dispatch::CallHost,
    messages::Fold,
    messages::{FromTurn, TurnEnd, ask},
    turn::TurnModel,
};
use crate::{
    limits::COMPACTION_TAIL,
    providers::{Message, ModelEvent, ModelRequest},
};

/// Longest summary that is taken, in bytes.
const SUMMARY_BYTES: usize = 64 * 1024;

/// Making room in one round's context: at most once.
pub(super) struct Folding<'a> {
    host: &'a CallHost,
    model: &'a TurnModel,
    budget: Budget,
    tried: bool,
}

impl<'a> Folding<'a> {
    pub(super) fn new(host: &'a CallHost, model: &'a TurnModel) -> Self {
        let budget = Budget::of(&model.model, host.services.config.compaction_threshold);
        Self {
            host,
            model,
            budget,
            tried: false,
        }
    }

    /// Whether room was not made yet.
    pub(super) fn untried(&self) -> bool {
        !self.tried
    }

    /// Has older turns summarised when the conversation is over the budget.
    ///
    /// # Errors
    /// The turn's end: by an interrupt, or because the conversation does not fit all the same.
    pub(super) async fn make_room(&mut self) -> Result<(), TurnEnd> {
        if self.tokens().await? <= self.budget.soft {
            return Ok(());
        }
        if !self.tried {
            self.fold().await?;
        }
        let tokens = self.tokens().await?;
        if tokens <= self.budget.hard {
            return Ok(());
        }
        let message = format!(
            "The conversation has about {tokens} tokens, more than the {} that fit the model's context window; start a new session, or choose a model with a larger one.",
            self.budget.hard
        );
        Err(TurnEnd {
            reason: TurnReason::ContextOverflow,
            error: Some(("contextOverflow".to_owned(), message)),
        })
    }

    /// Has older turns summarised; false when there are none, or the model did not.
    ///
    /// # Errors
    /// The turn's end, by an interrupt.
    pub(super) async fn fold(&mut self) -> Result<bool, TurnEnd> {
        self.tried = true;
        // Part of a window of tokens: a float holds it exactly enough.
        let keep_tokens = (self.budget.soft as f64 * COMPACTION_TAIL) as u64;
        let fold = ask(&self.host.to_session, |reply| FromTurn::Fold {
            keep_tokens,
            reply,
        });
        let Some(fold) = fold.await.ok_or_else(interrupted)? else {
            return Ok(false);
        };
        let turns = fold.turns;
        let summary = self.summarise(fold).await?;
        let folded = summary.is_ok();
        ask(&self.host.to_session, |reply| FromTurn::Folded {
            turns,
            summary,
            reply,
        })
        .await
        .ok_or_else(interrupted)?;
        Ok(folded)
    }

    async fn tokens(&self) -> Result<u64, TurnEnd> {
        ask(&self.host.to_session, FromTurn::Estimate)
            .await
            .ok_or_else(interrupted)
    }

    /// Asks the model, once; the outer error is an interrupt.
    async fn summarise(&self, fold: Fold) -> Result<Result<String, String>, TurnEnd> {
        let request = ModelRequest {
            session: self.host.session.clone(),
            model: self.model.model.name.clone(),
            system: fold.request.system.into(),
            tools: Arc::new([]),
            messages: vec![Arc::new(Message::User {
                text: fold.request.user,
            })],
            turn_start: 0,
            thinking: self.model.thinking,
            max_tokens: self.model.model.max_tokens,
        };
        let mut stream = self.model.provider.stream(request);
        let mut summary = String::new();
        loop {
            let event = tokio::select! {
                biased;
                () = self.host.context.cancel.cancelled() => return Err(interrupted()),
                event = stream.next() => event,
            };
            match event {
                Some(Ok(ModelEvent::Text(text))) if summary.len() < SUMMARY_BYTES => {
                    summary.push_str(&text)
                }
                Some(Ok(ModelEvent::Finished { .. })) if !summary.trim().is_empty() => {
                    return Ok(Ok(summary));
                }
                Some(Ok(ModelEvent::Finished { .. })) | None => {
                    return Ok(Err("The model gave no summary.".to_owned()));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Ok(Err(error.message)),
            }
        }
    }
}

fn interrupted() -> TurnEnd {
    TurnEnd::of(TurnReason::Interrupted)
}
