//! When a conversation outgrows the model's context window: older turns are folded into a summary that the model writes.
//!
//! Only turns that have ended are folded; the running one stays as it is. The transcript keeps everything, the model's context
//! begins with the summary from then on.

use std::sync::Arc;

use crystal_protocol::{
    event::{CompactionTrigger, Event},
    item::{Item, ItemBody},
    time::Timestamp,
    turn::ActivityKind,
};

use super::{actor::Actor, messages::Fold, round::new_item, transcript};
use crate::{
    config::Model,
    prompts,
    providers::Message,
    store::{
        head::{item_id, item_number},
        record::Record,
    },
};

/// Output that is reserved for a model whose catalog entry names no limit, at most, in tokens.
const RESERVED_TOKENS: u64 = 8_192;

/// What a model's context may hold, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    /// Beyond this, older turns are summarised.
    pub(super) soft: u64,
    /// Beyond this, nothing is sent.
    pub(super) hard: u64,
}

impl Budget {
    /// The budget of a model at a threshold of its window.
    pub(super) fn of(model: &Model, threshold: f64) -> Self {
        let window = model.context_window;
        let reserved = model.max_tokens.unwrap_or(RESERVED_TOKENS).min(window / 4);
        let hard = window - reserved;
        // A window of tokens is far below what a float holds exactly.
        let soft = ((window as f64 * threshold) as u64).min(hard);
        Self { soft, hard }
    }
}

impl Actor {
    /// Tokens in the model's context: what the last round reported, and an estimate of what came since.
    pub(super) fn context_tokens(&mut self) -> u64 {
        let mut messages = self.conversation.settled_messages();
        messages.extend(self.conversation.turn_messages());
        let known = self.view.usage.context_tokens;
        if known == 0 {
            return transcript::tokens(&messages);
        }
        let is_answer = |message: &Arc<Message>| matches!(&**message, Message::Assistant { .. });
        let since = messages.iter().rposition(is_answer).map_or(0, |at| at + 1);
        known + transcript::tokens(messages.iter().skip(since))
    }

    /// The oldest turns that do not fit into `keep_tokens` beside newer ones; `None` when there are none.
    pub(super) fn fold(&mut self, keep_tokens: u64) -> Option<Fold> {
        let settled = self.conversation.settled.as_ref()?;
        let mut room = keep_tokens;
        let kept = settled
            .iter()
            .rev()
            .take_while(|turn| {
                let tokens = transcript::tokens(&turn.messages);
                let fits = tokens <= room;
                room = room.saturating_sub(tokens);
                fits
            })
            .count();
        let turns = settled.len() - kept;
        if turns == 0 {
            return None;
        }
        let folded = settled.iter().take(turns).flat_map(|turn| &turn.messages);
        let text = transcript::as_text(folded);
        let request = prompts::summary_request(&text, self.conversation.summary.as_deref());
        self.emit(Event::CompactionStarted {
            trigger: CompactionTrigger::Automatic,
        });
        self.set_activity(ActivityKind::Compacting, None);
        Some(Fold { turns, request })
    }

    /// Puts a summary in the place of the oldest turns, or tells why there is none.
    pub(super) async fn folded(&mut self, turns: usize, summary: Result<String, String>) {
        let tokens_before = self.context_tokens();
        let items_folded = match summary {
            Ok(text) => self.put_summary(turns, text).await,
            Err(error) => {
                self.emit(Event::CompactionCompleted {
                    tokens_before,
                    tokens_after: tokens_before,
                    items_folded: 0,
                    error: Some(error),
                });
                return;
            }
        };
        let mut messages = self.conversation.settled_messages();
        messages.extend(self.conversation.turn_messages());
        let tokens_after = transcript::tokens(&messages);
        let mut usage = self.view.usage.clone();
        usage.context_tokens = 0;
        self.journal
            .record(vec![Record::UsageChanged {
                usage: usage.clone(),
            }])
            .await;
        self.emit(Event::UsageChanged { usage });
        self.emit(Event::CompactionCompleted {
            tokens_before,
            tokens_after,
            items_folded,
            error: None,
        });
    }

    async fn put_summary(&mut self, turns: usize, text: String) -> u64 {
        let settled = self.conversation.settled.get_or_insert_default();
        let items_folded = settled.iter().take(turns).map(|turn| turn.items).sum();
        settled.drain(..turns.min(settled.len()));
        let kept_from = settled.first().map(|turn| turn.first);
        let running = self.conversation.turn_items.iter();
        let of_turn = running
            .filter_map(|stored| item_number(&stored.item.id))
            .min();
        self.conversation.summary = Some(text.clone());
        let number = self.journal.take_id();
        let kept_from = kept_from.or(of_turn).unwrap_or(number);
        let turn = self.running_turn().map(|turn| turn.id.clone());
        let body = ItemBody::Summary { text, items_folded };
        let started = new_item(item_id(number), turn, body);
        let item = Item {
            completed_at: Some(Timestamp::now()),
            ..started.clone()
        };
        let records = vec![
            Record::ItemFinished {
                item: item.clone(),
                round: 0,
                replay: None,
            },
            Record::Compacted {
                summary: item.id.clone(),
                kept_from,
            },
        ];
        self.journal.record(records).await;
        self.emit(Event::ItemStarted { item: started });
        self.emit(Event::ItemCompleted { item });
        items_folded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_the_lesser_of_the_threshold_and_what_output_leaves() {
        let model = |context_window, max_tokens| Model {
            provider: "p".to_owned(),
            name: "m".to_owned(),
            context_window,
            max_tokens,
            image_input: false,
            thinking: Vec::new(),
        };
        assert_eq!(
            Budget::of(&model(100_000, None), 0.8),
            Budget {
                soft: 80_000,
                hard: 91_808
            }
        );
        assert_eq!(
            Budget::of(&model(100_000, Some(25_000)), 0.8),
            Budget {
                soft: 75_000,
                hard: 75_000
            }
        );
        assert_eq!(
            Budget::of(&model(100_000, Some(90_000)), 0.8),
            Budget {
                soft: 75_000,
                hard: 75_000
            }
        );
    }
}
