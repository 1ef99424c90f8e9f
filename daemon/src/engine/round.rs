//! The actor's part in model rounds: what the turn's task reports becomes items, records and events.

use std::collections::HashMap;

use crystal_protocol::{
    event::{DiscardReason, Event},
    ids::{CallId, ItemId, TurnId},
    item::{FinishReason, Item, ItemBody, ItemField},
    time::Timestamp,
    turn::{ActivityKind, Tokens},
};

use tokio::sync::oneshot;

use super::{
    actor::{Actor, Work},
    calls::{cancel_call, new_call, operator_result},
    messages::PendingCall,
    messages::{Conversation, FromTurn},
    open_items::OpenItem,
};
use crate::{
    providers::{Finish, ModelEvent},
    store::{
        head::{StoredItem, item_id},
        record::Record,
    },
    terms::Replay,
};

impl Actor {
    /// Takes a message of the running turn's task.
    pub(super) async fn on_turn(&mut self, message: FromTurn) {
        match message {
            FromTurn::Conversation(reply) => {
                if let Some(turn) = self.running_turn_mut() {
                    turn.round += 1;
                }
                self.set_activity(ActivityKind::WaitingForModel, None);
                let conversation = self.conversation();
                done(reply, conversation);
            }
            FromTurn::Estimate(reply) => {
                let tokens = self.context_tokens();
                done(reply, tokens);
            }
            FromTurn::Fold { keep_tokens, reply } => {
                let fold = self.fold(keep_tokens);
                done(reply, fold);
            }
            FromTurn::Folded {
                turns,
                summary,
                reply,
            } => {
                self.folded(turns, summary).await;
                done(reply, ());
            }
            FromTurn::Model(event) => self.on_model(event),
            FromTurn::RoundEnded {
                finish,
                usage,
                replay,
                reply,
            } => {
                let calls = self.end_round(&finish, usage, replay).await;
                done(reply, calls);
            }
            FromTurn::Retry {
                attempt,
                delay,
                cause,
            } => {
                if let Some(turn) = self.running_turn_mut() {
                    turn.round = turn.round.saturating_sub(1);
                }
                self.discard_open(DiscardReason::Retry).await;
                let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                self.emit(Event::RetryScheduled {
                    attempt,
                    delay_ms,
                    cause: cause.clone(),
                });
                self.set_activity(ActivityKind::Retrying, Some(cause));
            }
            FromTurn::Judge {
                item,
                effects,
                standing,
                reply,
            } => self.judge(item, *effects, standing, reply).await,
            FromTurn::CallStarted {
                item,
                title,
                approval,
                reply,
            } => {
                self.start_call(&item, title, approval).await;
                done(reply, ());
            }
            FromTurn::CallOutput {
                item,
                text,
                skipped,
            } => {
                if self.open.get_mut(&item).is_some() {
                    self.open.unsaved = true;
                    self.emit(Event::ItemDelta {
                        item,
                        field: ItemField::Output,
                        delta: text,
                        skipped,
                    });
                }
            }
            FromTurn::CallFinished {
                item,
                output,
                rejected,
                approval,
                duration,
                reply,
            } => {
                let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
                self.finish_call(&item, output, rejected, approval, duration_ms)
                    .await;
                done(reply, ());
            }
            FromTurn::BatchDone(reply) => {
                self.take_queue_into_turn().await;
                done(reply, ());
            }
            FromTurn::Ended(end) => match self.work {
                Work::Turn(_) => self.finish_turn(end).await,
                Work::Operator(_) => self.finish_operator_call().await,
                Work::Idle => tracing::error!("a turn ended that was not running"),
            },
        }
    }

    fn conversation(&mut self) -> Conversation {
        let mut messages = self.conversation.settled_messages();
        let turn_start = messages.len();
        messages.extend(self.conversation.turn_messages());
        Conversation {
            messages,
            turn_start,
        }
    }

    fn on_model(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::Text(delta) => {
                self.set_activity(ActivityKind::Writing, None);
                let item = self.streaming_item(false);
                self.stream(item, ItemField::Text, delta);
            }
            ModelEvent::Reasoning(delta) => {
                self.set_activity(ActivityKind::Thinking, None);
                let item = self.streaming_item(true);
                self.stream(item, ItemField::Text, delta);
            }
            ModelEvent::CallStarted { index, id, name } => {
                let call = new_call(CallId::new(id), name, String::new());
                self.start_item(ItemBody::ToolCall(call), Some(index));
            }
            ModelEvent::CallArguments { index, delta } => {
                let item = self
                    .open
                    .items
                    .iter()
                    .rev()
                    .find(|open| open.index == Some(index));
                if let Some(id) = item.map(|open| open.id.clone()) {
                    self.stream(id, ItemField::Arguments, delta);
                }
            }
            ModelEvent::Finished { .. } => {}
        }
    }

    /// The open text or reasoning item of this round; a new one when the model changes from one to the other.
    fn streaming_item(&mut self, reasoning: bool) -> ItemId {
        let last = self.open.items.last().map(|open| &open.id);
        let fits = last
            .and_then(|id| self.view.items.iter().rev().find(|item| item.id == *id))
            .is_some_and(|item| match &item.body {
                ItemBody::Reasoning { .. } => reasoning,
                ItemBody::AssistantMessage { .. } => !reasoning,
                _ => false,
            });
        match (fits, last) {
            (true, Some(id)) => id.clone(),
            _ => {
                let text = String::new();
                let body = if reasoning {
                    ItemBody::Reasoning { text }
                } else {
                    ItemBody::AssistantMessage { text, finish: None }
                };
                self.start_item(body, None)
            }
        }
    }

    fn stream(&mut self, item: ItemId, field: ItemField, delta: String) {
        if !delta.is_empty() {
            self.open.unsaved = true;
            self.emit(Event::ItemDelta {
                item,
                field,
                delta,
                skipped: None,
            });
        }
    }

    /// Opens an item of the running turn, or of an operator's call.
    pub(super) fn start_item(&mut self, body: ItemBody, index: Option<usize>) -> ItemId {
        let id = item_id(self.journal.take_id());
        let (turn, round) = self
            .running_turn()
            .map_or((None, 0), |turn| (Some(turn.id.clone()), turn.round));
        self.open.items.push(OpenItem {
            id: id.clone(),
            round,
            index,
            started_saved: false,
            saved: HashMap::new(),
            replay: None,
            running: false,
        });
        let item = new_item(id.clone(), turn, body);
        self.emit(Event::ItemStarted { item });
        id
    }

    /// Closes the round's texts, opens its calls for good; the calls that are to run.
    async fn end_round(
        &mut self,
        finish: &Finish,
        usage: Option<Tokens>,
        replay: Option<Replay>,
    ) -> Vec<PendingCall> {
        let runs = matches!(finish, Finish::Stop | Finish::ToolCalls);
        let mut records = Vec::new();
        let mut events = Vec::new();
        let mut calls = Vec::new();
        let mut replay = replay;
        let ids: Vec<ItemId> = self.open.items.iter().map(|open| open.id.clone()).collect();
        for id in ids {
            let Some(mut item) = self.view_item(&id) else {
                continue;
            };
            let Some(open) = self.open.get_mut(&id) else {
                continue;
            };
            let round = open.round;
            match &mut item.body {
                ItemBody::ToolCall(call) => {
                    open.replay = replay.take();
                    open.started_saved = true;
                    open.saved
                        .insert(ItemField::Arguments, call.arguments.len());
                    if runs {
                        calls.push(PendingCall {
                            item: id,
                            name: call.name.clone(),
                            arguments: call.arguments.clone(),
                        });
                    }
                    records.push(Record::CallOpened { item, round });
                }
                body => {
                    if let ItemBody::AssistantMessage { finish: why, .. } = body {
                        *why = Some(finish_reason(finish));
                    }
                    item.completed_at = Some(Timestamp::now());
                    let replay = replay.take();
                    self.open.remove(&id);
                    records.push(Record::ItemFinished {
                        item: item.clone(),
                        round,
                        replay: replay.clone(),
                    });
                    self.conversation.turn_items.push(StoredItem {
                        item: item.clone(),
                        round,
                        replay,
                    });
                    events.push(Event::ItemCompleted { item });
                }
            }
        }
        if let Some(usage) = usage {
            let usage = self.add_usage(usage);
            records.push(Record::UsageChanged {
                usage: usage.clone(),
            });
            events.push(Event::UsageChanged { usage });
        }
        if let Some(turn) = self.running_turn_mut() {
            turn.calls += calls.len() as u64;
        }
        self.journal.record(records).await;
        for event in events {
            self.emit(event);
        }
        calls
    }

    fn add_usage(&self, tokens: Tokens) -> crystal_protocol::turn::Usage {
        let settings = &self.journal.head().settings;
        let mut usage = self.view.usage.clone();
        usage.last = tokens;
        usage.total += tokens;
        usage.context_tokens = tokens.input + tokens.output;
        usage.context_window = self
            .services
            .catalog
            .context_window(&settings.provider, &settings.model);
        usage
    }

    /// Records and shows a finished item.
    pub(super) async fn complete(&mut self, item: Item, round: u64, replay: Option<Replay>) {
        let record = Record::ItemFinished {
            item: item.clone(),
            round,
            replay: replay.clone(),
        };
        self.journal.record(vec![record]).await;
        if item.turn.is_some() {
            self.conversation.turn_items.push(StoredItem {
                item: item.clone(),
                round,
                replay,
            });
        }
        if let Work::Operator(call) = &mut self.work
            && call.item == item.id
            && let ItemBody::ToolCall(done) = &item.body
        {
            call.result = Some(operator_result(done));
        }
        self.emit(Event::ItemCompleted { item });
    }

    /// Closes what is open at a turn's end: texts keep what had come, calls become cancelled.
    pub(super) async fn close_open(&mut self, finish: FinishReason) {
        for open in std::mem::take(&mut self.open.items) {
            let Some(mut item) = self.view_item(&open.id) else {
                continue;
            };
            let is_empty = match &mut item.body {
                ItemBody::AssistantMessage { text, finish: why } => {
                    *why = Some(finish);
                    text.is_empty()
                }
                ItemBody::Reasoning { text } => text.is_empty(),
                ItemBody::ToolCall(call) => {
                    cancel_call(call);
                    false
                }
                _ => false,
            };
            if is_empty {
                self.emit(Event::ItemDiscarded {
                    item: open.id,
                    reason: DiscardReason::Empty,
                });
                continue;
            }
            item.completed_at = Some(Timestamp::now());
            self.complete(item, open.round, open.replay).await;
        }
        self.open.unsaved = false;
    }

    async fn discard_open(&mut self, reason: DiscardReason) {
        let open = std::mem::take(&mut self.open.items);
        self.open.unsaved = false;
        let saved = open.iter().filter(|open| open.started_saved);
        let records: Vec<Record> = saved
            .map(|open| Record::ItemDiscarded {
                item: open.id.clone(),
            })
            .collect();
        if !records.is_empty() {
            self.journal.record(records).await;
        }
        for open in open {
            self.emit(Event::ItemDiscarded {
                item: open.id,
                reason,
            });
        }
    }

    /// Writes the streamed text that the log does not have.
    pub(super) async fn save_progress(&mut self) {
        let mut records = Vec::new();
        for open in &mut self.open.items {
            let Some(item) = self.view.items.iter().rev().find(|item| item.id == open.id) else {
                continue;
            };
            for field in [ItemField::Text, ItemField::Arguments, ItemField::Output] {
                let Some(text) = item.field(field) else {
                    continue;
                };
                let saved = open.saved.entry(field).or_default();
                let Some(delta) = text.get(*saved..).filter(|delta| !delta.is_empty()) else {
                    continue;
                };
                let started = (!open.started_saved).then(|| Box::new(without_streams(item)));
                records.push(Record::Progress {
                    started,
                    item: open.id.clone(),
                    round: open.round,
                    field,
                    delta: delta.to_owned(),
                });
                open.started_saved = true;
                *saved = text.len();
            }
        }
        self.open.unsaved = false;
        if !records.is_empty() {
            self.journal.record(records).await;
        }
    }

    /// An item of the visible state; open ones are always there.
    pub(super) fn view_item(&self, id: &ItemId) -> Option<Item> {
        self.view
            .items
            .iter()
            .rev()
            .find(|item| item.id == *id)
            .cloned()
    }
}

/// Answers the turn's task, which is gone when the turn was given up.
pub(super) fn done<T>(reply: oneshot::Sender<T>, value: T) {
    if reply.send(value).is_err() {
        tracing::trace!("a turn's task had gone before its answer");
    }
}

/// An item that has just begun.
pub(super) fn new_item(id: ItemId, turn: Option<TurnId>, body: ItemBody) -> Item {
    Item {
        id,
        turn,
        created_at: Timestamp::now(),
        completed_at: None,
        cut: None,
        body,
    }
}

fn without_streams(item: &Item) -> Item {
    let mut item = item.clone();
    for field in [ItemField::Text, ItemField::Arguments, ItemField::Output] {
        if item.field(field).is_some()
            && let Some(text) = item.field_mut(field)
        {
            text.clear();
        }
    }
    item
}

fn finish_reason(finish: &Finish) -> FinishReason {
    match finish {
        Finish::Stop => FinishReason::Stop,
        Finish::ToolCalls => FinishReason::ToolCalls,
        Finish::Length => FinishReason::Length,
        Finish::ContentFilter => FinishReason::ContentFilter,
        Finish::Other(_) => FinishReason::Error,
    }
}
