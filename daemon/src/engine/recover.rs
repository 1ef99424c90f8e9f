//! Bringing a session to life, after a crash too, and ending it.
//!
//! After a crash a turn that only waited for a person waits again under the same approval; a turn that was in a model round or
//! had a tool running is closed as interrupted. Both happen before anybody is answered.

use std::{collections::HashSet, sync::Arc, time::Instant};

use crystal_protocol::{
    error::{ErrorKind, RpcError},
    event::Event,
    ids::{ItemId, QueuedId, TurnId},
    item::{Item, ItemBody, NoteLevel, ToolCallStatus},
    limits::{SNAPSHOT_ITEMS, SNAPSHOT_ITEMS_BYTES},
    rpc::Environment,
    session::{SessionInfo, SessionStatus, Snapshot},
    time::Timestamp,
    turn::{Activity, ActivityKind, TurnReason},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    actor::{Actor, FROM_TURN, History, RunningTurn, Start, Work},
    command::{Command, Ending, Reply, SessionHandle, answer},
    event_log::{EventLog, Origin},
    inquiries::Inquiries,
    journal::Journal,
    messages::PendingCall,
    messages::TurnEnd,
    open_items::OpenItems,
    services::{Registry, Services},
};
use crate::store::{
    error::{LoadError, StoreError},
    head::{Head, OpenTurn, StoredItem, item_number},
    items::{ItemReader, PageBounds},
    load,
    record::{Options, Record},
    remove,
};

impl Actor {
    /// Opens a session's files and makes its state whole.
    pub(super) async fn open(
        services: Arc<Services>,
        registry: Arc<dyn Registry>,
        handle: SessionHandle,
        start: Start,
    ) -> Result<Self, RpcError> {
        let storage =
            |error: &dyn std::fmt::Display| RpcError::new(ErrorKind::Storage, error.to_string());
        let (head, log, environment, notes, origin) = match start {
            Start::Created {
                head,
                log,
                environment,
            } => {
                // The daemon's own, where its client sent none: another client's must not slip in later.
                let environment =
                    environment.unwrap_or_else(|| Arc::new(Environment::of_this_process()));
                (*head, log, Some(environment), Vec::new(), Origin::New)
            }
            Start::Saved => {
                let loaded = load::load(&services.paths, handle.id())
                    .await
                    .map_err(|error| match error {
                        LoadError::NotFound { .. } => super::command::not_found(handle.id()),
                        error => storage(&error),
                    })?;
                (loaded.head, loaded.log, None, loaded.notes, Origin::Disk)
            }
        };
        let reader = ItemReader::new(&log, &head).await;
        let bounds = PageBounds {
            items: SNAPSHOT_ITEMS,
            bytes: SNAPSHOT_ITEMS_BYTES as u64,
        };
        let page = reader
            .page(None, bounds)
            .await
            .map_err(|error| storage(&error))?;
        let items = page.items.into_iter().map(|stored| stored.item).collect();
        let view = view_of(&services, &head, items, page.has_more);
        let events = Arc::new(EventLog::new(
            handle.id().clone(),
            head.next_seq.saturating_sub(1),
            origin,
        ));
        let mut actor = Self {
            journal: Journal::new(services.paths.clone(), head, log),
            services,
            registry,
            handle,
            events,
            view,
            open: OpenItems::default(),
            inquiries: Inquiries::default(),
            work: Work::Idle,
            conversation: History::default(),
            waiters: Vec::new(),
            files: Arc::default(),
            system: Arc::default(),
            environment,
            from_turn: mpsc::channel(FROM_TURN),
            head_saver: None,
            unattended_since: Instant::now(),
            closing: None,
        };
        actor.journal.reserve().await;
        let damaged = !notes.is_empty();
        for note in notes {
            actor.note(NoteLevel::Warning, note).await;
        }
        actor.note_damage(reader.damaged()).await;
        actor.recover().await?;
        if damaged {
            // A saved head covers the damage, so that it is noted once.
            actor.save_head_soon();
            actor.head_saved().await;
        }
        actor.refresh_info();
        Ok(actor)
    }

    /// Tells of items that could not be read, once: the damage stays in the log, and so does the note.
    async fn note_damage(&mut self, records: u64) {
        let text = format!(
            "{records} damaged records of the log were passed over; the items in them cannot be shown."
        );
        let known =
            self.view.items.iter().any(
                |item| matches!(&item.body, ItemBody::Note { text: known, .. } if *known == text),
            );
        if records > 0 && !known {
            self.note(NoteLevel::Warning, text).await;
        }
    }

    /// Takes up, or closes, what was open when the daemon ended.
    async fn recover(&mut self) -> Result<(), RpcError> {
        let head = self.journal.head().clone();
        for open in &head.approvals {
            self.inquiries.adopt(
                open.approval.id.clone(),
                open.item.clone(),
                open.rule.clone(),
            );
        }
        match &head.open_turn {
            Some(open) if only_waits(open, &head) => self.resume(open, &head).await?,
            Some(open) => self.close_interrupted(open).await,
            None => self.cancel_inquiries().await,
        }
        // Held, so that nothing is sent that nobody sees.
        self.hold_queue().await;
        Ok(())
    }

    async fn resume(&mut self, open: &OpenTurn, head: &Head) -> Result<(), RpcError> {
        self.adopt_open_items(open, head);
        // The conversation before this turn, and what the turn has finished so far.
        let first = item_number(&open.turn.prompt).unwrap_or_default();
        let items = self.context_items().await?;
        let (before, of_turn): (Vec<_>, Vec<_>) = items
            .into_iter()
            .partition(|stored| item_number(&stored.item.id).is_some_and(|number| number < first));
        self.conversation.settled = Some(super::transcript::turns(&before));
        self.conversation.turn_items = of_turn;
        let calls = open
            .open_items
            .iter()
            .filter_map(|open| match &open.item.body {
                ItemBody::ToolCall(call) => Some(PendingCall {
                    item: open.item.id.clone(),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                }),
                _ => None,
            });
        let calls: Vec<PendingCall> = calls.collect();
        // Calls that are run again are counted again by the task.
        let made = open.calls.saturating_sub(calls.len() as u64);
        self.start_turn_task(
            open.turn.clone(),
            open.rounds,
            made,
            took(&self.view.items, &open.turn.id),
            calls,
        );
        if let Some(turn) = self.running_turn_mut() {
            turn.calls = open.calls;
        }
        let title = self
            .view
            .approvals
            .first()
            .map(|approval| approval.title.clone());
        self.set_activity(ActivityKind::AwaitingApproval, title);
        Ok(())
    }

    async fn close_interrupted(&mut self, open: &OpenTurn) {
        let head = self.journal.head().clone();
        self.adopt_open_items(open, &head);
        let task = tokio::spawn(async {});
        self.work = Work::Turn(Box::new(RunningTurn {
            id: open.turn.id.clone(),
            started_at: open.turn.started_at,
            round: open.rounds,
            calls: open.calls,
            cancel: CancellationToken::new(),
            task,
            interrupts: Vec::new(),
            then_send_queue: false,
            took: took(&self.view.items, &open.turn.id),
        }));
        self.finish_turn(TurnEnd::of(TurnReason::Interrupted)).await;
    }

    /// Puts the open items of a turn into the visible state as they were.
    fn adopt_open_items(&mut self, open: &OpenTurn, head: &Head) {
        self.view.turn = Some(open.turn.clone());
        let waiting: HashSet<&ItemId> = head.approvals.iter().map(|open| &open.item).collect();
        for open in &open.open_items {
            let mut item = open.item.clone();
            if let ItemBody::ToolCall(call) = &mut item.body
                && waiting.contains(&item.id)
            {
                call.status = ToolCallStatus::AwaitingApproval;
                if let Some(open) = head.approvals.iter().find(|open| open.item == item.id) {
                    call.title.clone_from(&open.approval.title);
                }
            }
            self.open.adopt(&item, open.round);
            self.view.items.push(item);
        }
        self.view.items.sort_by_key(|item| item_number(&item.id));
    }

    /// Loads the conversation of turns that have ended, once.
    pub(super) async fn load_conversation(&mut self) -> Result<(), RpcError> {
        if self.conversation.settled.is_none() {
            let items = self.context_items().await?;
            self.conversation.settled = Some(super::transcript::turns(&items));
        }
        Ok(())
    }

    /// The finished items that the model knows as they are; a summary of those before becomes the conversation's.
    async fn context_items(&mut self) -> Result<Vec<StoredItem>, RpcError> {
        let storage = |error: StoreError| RpcError::new(ErrorKind::Storage, error.to_string());
        let reader = ItemReader::new(self.journal.log(), self.journal.head()).await;
        let Some(start) = self.journal.head().context.clone() else {
            return reader.since(0).await.map_err(storage);
        };
        if let Some(summary) = reader.get(&start.summary).await.map_err(storage)?
            && let ItemBody::Summary { text, .. } = summary.item.body
        {
            self.conversation.summary = Some(text);
        }
        reader.since(start.kept_from).await.map_err(storage)
    }

    /// Begins to end the session; it is over when what runs has ended.
    pub(super) fn begin_close(&mut self, ending: Ending, reason: String, reply: Reply<()>) {
        match &mut self.closing {
            Some((earlier, _, replies)) => {
                *earlier = ending.max(*earlier);
                replies.push(reply);
            }
            None => self.closing = Some((ending, reason, vec![reply])),
        }
        let waits = ending == Ending::Suspend && self.turn_only_waits();
        match &mut self.work {
            Work::Idle => {}
            Work::Turn(turn) if waits => {
                turn.task.abort();
                self.work = Work::Idle;
            }
            Work::Turn(turn) => turn.cancel.cancel(),
            Work::Operator(call) => call.cancel.cancel(),
        }
    }

    /// Whether nothing of the turn runs: it would be the same after a restart.
    fn turn_only_waits(&self) -> bool {
        matches!(self.work, Work::Turn(_))
            && !self.view.approvals.is_empty()
            && self.open.iter().all(|open| !open.running)
            && self.open.iter().all(|open| {
                self.view_item(&open.id)
                    .is_some_and(|item| matches!(item.body, ItemBody::ToolCall(_)))
            })
    }

    /// What closing waits for has happened. A session whose records wait for the disk is not closed: they would be lost.
    pub(super) async fn ready_to_close(&mut self) -> Option<(Ending, String, Vec<Reply<()>>)> {
        if !matches!(self.work, Work::Idle) {
            return None;
        }
        let (ending, reason, replies) = self.closing.take()?;
        if ending == Ending::Close && self.journal.has_backlog() && !self.journal.retry().await {
            let message = "The disk takes no writes, and closing would lose what waits for it; free some space and close again.";
            for reply in replies {
                answer(reply, Err(RpcError::new(ErrorKind::Storage, message)));
            }
            return None;
        }
        Some((ending, reason, replies))
    }

    /// The end: saves, says goodbye, hands unanswered calls back.
    pub(super) async fn close(
        mut self,
        ending: Ending,
        reason: String,
        replies: Vec<Reply<()>>,
        commands: mpsc::Receiver<Command>,
    ) {
        if ending != Ending::Suspend {
            self.cancel_inquiries().await;
            let options = Box::new(Options::default());
            self.journal
                .record(vec![Record::OptionsChanged { options }])
                .await;
        }
        if ending != Ending::Suspend {
            // A suspended session goes on when the daemon is there again; its clients attach anew.
            self.emit(Event::SessionClosed { reason });
        }
        self.events.finish();
        self.head_saved().await;
        let result = match ending {
            Ending::Delete => remove::remove(self.journal.paths(), self.handle.id()).await,
            Ending::Close | Ending::Suspend => self.save_for_good().await,
        };
        let result = result.map_err(|error| RpcError::new(ErrorKind::Storage, error.to_string()));
        let deleted = ending == Ending::Delete && result.is_ok();
        self.registry
            .session_gone(self.handle.id(), deleted, commands);
        for reply in replies {
            answer(reply, result.clone());
        }
    }

    /// Waits for a head that is being saved.
    async fn head_saved(&mut self) {
        if let Some(saver) = self.head_saver.take()
            && let Err(error) = saver.await
        {
            tracing::error!(%error, "saving a head was cut short");
        }
    }

    async fn save_for_good(&mut self) -> Result<(), StoreError> {
        let head = self.journal.save_final(self.view.info.updated_at).await?;
        if head.open_turn.is_none() {
            self.work = Work::Idle;
            self.forget_open_turn().await;
        }
        self.registry.session_saved(&head);
        Ok(())
    }
}

/// Whether a turn only waited for a person: every call of its last answer is either untouched or decided, none ran.
fn only_waits(open: &OpenTurn, head: &Head) -> bool {
    let asked = |item: &ItemId| {
        head.approvals.iter().any(|approval| approval.item == *item)
            || head.decisions.iter().any(|decided| decided.item == *item)
    };
    !open.open_items.is_empty()
        && open
            .open_items
            .iter()
            .all(|open| matches!(open.item.body, ItemBody::ToolCall(_)) && !open.running)
        && open.open_items.iter().any(|open| asked(&open.item.id))
}

/// Queued prompts that a turn took up before the restart.
fn took(items: &[Item], turn: &TurnId) -> Vec<QueuedId> {
    let of_turn = items.iter().filter(|item| item.turn.as_ref() == Some(turn));
    let queued = of_turn.filter_map(|item| match &item.body {
        ItemBody::UserMessage { queued, .. } => queued.clone(),
        _ => None,
    });
    queued.collect()
}

/// What a head says of its session in a line; nothing runs in it and nobody follows it.
pub(super) fn info_of(services: &Services, head: &Head) -> SessionInfo {
    let settings = &head.settings;
    SessionInfo {
        id: head.id.clone(),
        title: settings.title.clone(),
        workspace: settings.workspace.display().to_string(),
        add_directories: settings
            .add_directories
            .iter()
            .map(|dir| dir.display().to_string())
            .collect(),
        mode: settings.mode,
        approval: settings.approval,
        provider: settings.provider.clone(),
        model: settings.model.clone(),
        image_input: services
            .catalog
            .image_input(&settings.provider, &settings.model),
        thinking: settings.thinking,
        prompt_set: "default".to_owned(),
        status: SessionStatus::Idle,
        live: true,
        clients: Vec::new(),
        created_at: head.created_at,
        updated_at: head.updated_at,
        turns: head.turns,
        seq: head.next_seq.saturating_sub(1),
    }
}

fn view_of(
    services: &Services,
    head: &Head,
    items: Vec<crystal_protocol::item::Item>,
    has_more: bool,
) -> Snapshot {
    let settings = &head.settings;
    let mut usage = head.usage.clone();
    usage.context_window = services
        .catalog
        .context_window(&settings.provider, &settings.model);
    Snapshot {
        info: info_of(services, head),
        items,
        has_more,
        turn: None,
        approvals: head
            .approvals
            .iter()
            .map(|open| open.approval.clone())
            .collect(),
        questions: Vec::new(),
        queue: head.queue.clone(),
        tasks: Vec::new(),
        todos: head.todos.clone(),
        images: Vec::new(),
        usage,
        clients: Vec::new(),
        activity: Activity {
            kind: ActivityKind::Idle,
            detail: None,
            since: Timestamp::now(),
        },
    }
}
