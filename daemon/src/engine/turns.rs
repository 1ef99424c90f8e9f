//! The actor's part in turns: beginning and ending them, interrupting them, waiting for them.

use crystal_protocol::{
    error::{ErrorKind, RpcError},
    event::Event,
    ids::{ItemId, QueuedId, TurnId},
    item::{FinishReason, Item, ItemBody},
    span,
    time::Timestamp,
    turn::{ActivityKind, QueuedPrompt, Turn, TurnCompleted, TurnError, TurnReason},
};
use tokio_util::sync::CancellationToken;

use super::{
    actor::{Actor, RunningTurn, Work},
    command::{Reply, WaitTarget, answer},
    messages::PendingCall,
    messages::TurnEnd,
    queue::Prompt,
    round::new_item,
};
use crate::{
    stdx::truncate,
    store::{
        head::{KeptResult, StoredItem, item_id, item_number},
        head_file::{Numbering, save_head},
        open_turns,
        record::{Record, Settings},
    },
};

/// Length of a title that is made of a prompt, in characters.
const TITLE_CHARS: usize = 60;

impl Actor {
    /// Begins a turn with prompts; those of the queue that are not among them stay. The last prompt's item is returned.
    pub(super) async fn begin_turn(
        &mut self,
        prompts: Vec<Prompt>,
        stay: Vec<QueuedPrompt>,
    ) -> Result<(TurnId, ItemId), RpcError> {
        self.load_conversation().await?;
        let id = TurnId::new(format!("t{}", self.journal.take_id()));
        let items = self.prompt_items(&id, &prompts);
        let first = items
            .first()
            .map(|item| item.id.clone())
            .unwrap_or_else(|| item_id(0));
        let last = items
            .last()
            .map(|item| item.id.clone())
            .unwrap_or_else(|| first.clone());
        let turn = Turn {
            id: id.clone(),
            started_at: Timestamp::now(),
            prompt: first,
        };
        let queue_changes = stay.len() != self.view.queue.len();
        let mut records = vec![Record::TurnStarted { turn: turn.clone() }];
        records.extend(items.iter().map(|item| finished(item.clone())));
        if queue_changes {
            records.push(Record::QueueChanged {
                queue: stay.clone(),
            });
        }
        if let Some(settings) = self.titled_settings(&prompts) {
            records.push(Record::SettingsChanged { settings });
        }
        let paths = self.journal.paths().clone();
        open_turns::mark_open(&paths, self.handle.id())
            .await
            .map_err(|error| RpcError::new(ErrorKind::Storage, error.to_string()))?;
        if let Err(error) = self.journal.commit(records).await {
            self.forget_open_turn().await;
            return Err(error);
        }
        let took = prompts
            .into_iter()
            .filter_map(|prompt| prompt.queued)
            .collect();
        self.start_turn_task(turn.clone(), 0, 0, took, Vec::new());
        self.emit(Event::TurnStarted { turn });
        self.refresh_info();
        self.show_prompts(items);
        if queue_changes {
            self.emit(Event::QueueChanged { queue: stay });
        }
        Ok((id, last))
    }

    pub(super) fn prompt_items(&mut self, turn: &TurnId, prompts: &[Prompt]) -> Vec<Item> {
        let mut items = Vec::with_capacity(prompts.len());
        for prompt in prompts {
            let body = ItemBody::UserMessage {
                spans: prompt.spans.clone(),
                by: Some(prompt.by.clone()),
                queued: prompt.queued.clone(),
            };
            let mut item = new_item(item_id(self.journal.take_id()), Some(turn.clone()), body);
            item.completed_at = Some(item.created_at);
            items.push(item);
        }
        items
    }

    pub(super) fn show_prompts(&mut self, items: Vec<Item>) {
        for item in items {
            self.conversation.turn_items.push(StoredItem {
                item: item.clone(),
                round: 0,
                replay: None,
            });
            self.emit(Event::ItemStarted {
                item: Item {
                    completed_at: None,
                    ..item.clone()
                },
            });
            self.emit(Event::ItemCompleted { item });
        }
    }

    fn titled_settings(&self, prompts: &[Prompt]) -> Option<Settings> {
        let settings = &self.journal.head().settings;
        if !settings.title.is_empty() {
            return None;
        }
        let title = truncate::one_line(&span::plain_text(&prompts.first()?.spans), TITLE_CHARS);
        (!title.is_empty()).then(|| Settings {
            title,
            ..settings.clone()
        })
    }

    /// Starts the task of a turn that is on record.
    pub(super) fn start_turn_task(
        &mut self,
        turn: Turn,
        round: u64,
        calls: u64,
        took: Vec<QueuedId>,
        resume: Vec<PendingCall>,
    ) {
        let cancel = CancellationToken::new();
        let task = self.spawn_turn(&turn, round, calls, resume, cancel.clone());
        self.work = Work::Turn(Box::new(RunningTurn {
            id: turn.id,
            started_at: turn.started_at,
            round,
            calls,
            cancel,
            task,
            interrupts: Vec::new(),
            then_send_queue: false,
            took,
        }));
    }

    /// Interrupts what runs; the answer comes when it has ended.
    pub(super) async fn interrupt(&mut self, then_send_queue: bool, reply: Reply<bool>) {
        match &mut self.work {
            Work::Idle => {
                if then_send_queue && let Err(error) = self.queue_send(None).await {
                    return answer(reply, Err(error));
                }
                answer(reply, Ok(false));
            }
            Work::Turn(turn) => {
                turn.cancel.cancel();
                turn.then_send_queue |= then_send_queue;
                turn.interrupts.push(reply);
                self.cancel_inquiries().await;
            }
            Work::Operator(call) => {
                call.cancel.cancel();
                call.interrupts.push(reply);
                self.cancel_inquiries().await;
            }
        }
    }

    /// Ends the running turn: closes what is open, records the result, shows it.
    pub(super) async fn finish_turn(&mut self, end: TurnEnd) {
        let finish = if end.reason == TurnReason::Interrupted {
            FinishReason::Interrupted
        } else {
            FinishReason::Error
        };
        self.cancel_inquiries().await;
        self.close_open(finish).await;
        let Work::Turn(turn) = std::mem::replace(&mut self.work, Work::Idle) else {
            return;
        };
        let mut items = std::mem::take(&mut self.conversation.turn_items);
        items.sort_by_key(|stored| item_number(&stored.item.id));
        if let Some(settled) = &mut self.conversation.settled {
            settled.extend(super::transcript::settle(&items));
        }
        if end.reason != TurnReason::Completed && !turn.then_send_queue {
            self.hold_queue().await;
        }
        let now = Timestamp::now();
        let duration = now.as_millis() - turn.started_at.as_millis();
        let result = TurnCompleted {
            turn: turn.id.clone(),
            reason: end.reason,
            usage: self.view.usage.clone(),
            model_rounds: turn.round,
            tool_calls: turn.calls,
            duration_ms: u64::try_from(duration).unwrap_or_default(),
            error: end.error.map(|(kind, message)| TurnError { kind, message }),
        };
        let ended = Record::TurnEnded {
            result: result.clone(),
            took: turn.took.clone(),
            at: now,
        };
        self.journal.record(vec![ended]).await;
        self.set_activity(ActivityKind::Idle, None);
        self.refresh_info();
        self.emit(Event::TurnCompleted(result.clone()));
        self.answer_waiters(
            |target| match target {
                WaitTarget::Current => true,
                WaitTarget::Turn(id) => *id == turn.id,
                WaitTarget::Queued(id) => turn.took.contains(id),
            },
            &|| Ok(result.clone()),
        );
        for reply in turn.interrupts {
            answer(reply, Ok(true));
        }
        if turn.then_send_queue && self.closing.is_none() {
            // A prompt that cannot be sent stays in the queue, held, with a note that says why.
            if let Err(error) = self.queue_send(None).await {
                self.note(crystal_protocol::item::NoteLevel::Error, error.message)
                    .await;
            }
        }
        self.save_head_soon();
    }

    /// Waits for a turn's end.
    pub(super) fn wait(&mut self, target: WaitTarget, reply: Reply<TurnCompleted>) {
        let running = self.running_turn();
        let results = &self.journal.head().results;
        let kept = |found: Option<&KeptResult>| found.map(|kept| kept.result.clone());
        let (done, will_come) = match &target {
            WaitTarget::Current if running.is_some() => (None, true),
            WaitTarget::Current => (kept(results.back()), false),
            WaitTarget::Turn(id) => (
                kept(results.iter().rev().find(|kept| kept.result.turn == *id)),
                running.is_some_and(|turn| turn.id == *id),
            ),
            WaitTarget::Queued(id) => (
                kept(results.iter().rev().find(|kept| kept.took.contains(id))),
                running.is_some_and(|turn| turn.took.contains(id))
                    || self.view.queue.iter().any(|prompt| prompt.id == *id),
            ),
        };
        match (done, will_come) {
            (Some(result), _) => answer(reply, Ok(result)),
            (None, true) => {
                self.waiters.retain(|(_, waiter)| !waiter.is_closed());
                self.waiters.push((target, reply));
            }
            (None, false) => {
                let (what, message) = match target {
                    WaitTarget::Current => ("turn", "This session has had no turn yet.".to_owned()),
                    WaitTarget::Turn(id) => (
                        "turn",
                        format!("This session has no turn {id}, or it is too long ago."),
                    ),
                    WaitTarget::Queued(id) => {
                        ("queued", format!("No prompt {id} waits in this session."))
                    }
                };
                answer(reply, Err(RpcError::not_found(what, message)));
            }
        }
    }

    pub(super) fn answer_waiters(
        &mut self,
        fits: impl Fn(&WaitTarget) -> bool,
        result: &dyn Fn() -> Result<TurnCompleted, RpcError>,
    ) {
        for (target, reply) in std::mem::take(&mut self.waiters) {
            if fits(&target) {
                answer(reply, result());
            } else {
                self.waiters.push((target, reply));
            }
        }
    }

    /// Saves the head off the turn's path.
    pub(super) fn save_head_soon(&mut self) {
        if self.journal.has_backlog() {
            // The head would cover records that the log does not have.
            return;
        }
        let mut head = self.journal.head().clone();
        head.updated_at = self.view.info.updated_at;
        let paths = self.journal.paths().clone();
        let registry = self.registry.clone();
        let log = self.journal.log().clone();
        let before = self.head_saver.take();
        self.head_saver = Some(tokio::spawn(async move {
            if let Some(before) = before
                && let Err(error) = before.await
            {
                tracing::error!(%error, "saving a head was cut short");
            }
            let saved = match log.sync().await {
                Ok(()) => save_head(&paths, head.clone(), Numbering::Reserved).await,
                Err(error) => Err(error),
            };
            match saved {
                Ok(()) => {
                    registry.session_saved(&head);
                    true
                }
                Err(error) => {
                    tracing::error!(session = %head.id, %error, "the head was not saved; the log has everything");
                    false
                }
            }
        }));
    }
}

pub(super) fn finished(item: Item) -> Record {
    Record::ItemFinished {
        item,
        round: 0,
        replay: None,
    }
}
