//! The mailbox loop: one owner of a session's state, one thing after the other.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crystal_protocol::{
    event::Event,
    ids::TurnId,
    item::{Item, ItemBody, NoteLevel},
    rpc::{Environment, ToolCallResult},
    session::{SessionInfo, SessionStatus, Snapshot},
    time::Timestamp,
    turn::{Activity, ActivityKind},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    command::{Caller, Command, Ending, Published, Reply, SessionHandle, WaitTarget, answer},
    event_log::EventLog,
    inquiries::Inquiries,
    journal::Journal,
    messages::FromTurn,
    open_items::OpenItems,
    recover::info_of,
    services::{Registry, Services},
    system::SystemText,
    transcript::SettledTurn,
};
use crate::{
    limits::{PROGRESS_INTERVAL, SESSION_IDLE},
    providers::Message,
    store::{
        head::{StoredItem, item_id, item_number},
        log::SessionLog,
        open_turns,
    },
    tools::FileVersions,
};

/// What a turn's task may have on its way to the actor.
pub(super) const FROM_TURN: usize = 256;

/// How often a refused write is tried again.
const DISK_RETRY: Duration = Duration::from_secs(2);

/// How a session comes to life.
pub enum Start {
    /// It was just made; its files exist.
    Created {
        /// Its head and log.
        head: Box<crate::store::head::Head>,
        /// See `head`.
        log: SessionLog,
        /// The environment of the client that made it.
        environment: Option<Arc<Environment>>,
    },
    /// It is on disk.
    Saved,
}

/// Starts a session's actor. It ends when it is closed, or unloads itself.
pub fn spawn(
    services: Arc<Services>,
    registry: Arc<dyn Registry>,
    handle: SessionHandle,
    commands: mpsc::Receiver<Command>,
    start: Start,
) {
    tokio::spawn(async move {
        let id = handle.id().clone();
        match Actor::open(services, registry.clone(), handle, start).await {
            Ok(actor) => actor.run(commands).await,
            Err(error) => {
                tracing::error!(session = %id, %error, "a session could not be opened");
                registry.session_failed(&id, &error, commands);
            }
        }
    });
}

/// A session, alive.
pub(super) struct Actor {
    pub(super) services: Arc<Services>,
    pub(super) registry: Arc<dyn Registry>,
    pub(super) handle: SessionHandle,
    pub(super) journal: Journal,
    pub(super) events: Arc<EventLog>,
    /// The visible state; changed by events only.
    pub(super) view: Snapshot,
    pub(super) open: OpenItems,
    pub(super) inquiries: Inquiries,
    pub(super) work: Work,
    pub(super) conversation: History,
    pub(super) waiters: Vec<(WaitTarget, Reply<crystal_protocol::turn::TurnCompleted>)>,
    pub(super) files: Arc<FileVersions>,
    pub(super) system: Arc<SystemText>,
    pub(super) environment: Option<Arc<Environment>>,
    pub(super) from_turn: (mpsc::Sender<FromTurn>, mpsc::Receiver<FromTurn>),
    /// Saves a head; true when it is saved.
    pub(super) head_saver: Option<tokio::task::JoinHandle<bool>>,
    pub(super) unattended_since: Instant,
    pub(super) closing: Option<(Ending, String, Vec<Reply<()>>)>,
}

/// What a session is busy with.
pub(super) enum Work {
    /// Nothing.
    Idle,
    /// A turn.
    Turn(Box<RunningTurn>),
    /// A tool that an operator runs.
    Operator(Box<OperatorCall>),
}

/// A running turn, as the actor sees it.
pub(super) struct RunningTurn {
    pub(super) id: TurnId,
    pub(super) started_at: Timestamp,
    pub(super) round: u64,
    pub(super) calls: u64,
    pub(super) cancel: CancellationToken,
    pub(super) task: tokio::task::JoinHandle<()>,
    pub(super) interrupts: Vec<Reply<bool>>,
    pub(super) then_send_queue: bool,
    pub(super) took: Vec<crystal_protocol::ids::QueuedId>,
}

/// A tool that an operator runs.
pub(super) struct OperatorCall {
    pub(super) cancel: CancellationToken,
    pub(super) item: crystal_protocol::ids::ItemId,
    pub(super) reply: Option<Reply<ToolCallResult>>,
    pub(super) interrupts: Vec<Reply<bool>>,
    pub(super) result: Option<ToolCallResult>,
}

/// The conversation as the model sees it, as far as it is in memory.
#[derive(Default)]
pub(super) struct History {
    /// Messages of turns that have ended; loaded when first needed.
    pub(super) settled: Option<Vec<SettledTurn>>,
    /// What a summary says of the turns before these.
    pub(super) summary: Option<String>,
    /// Finished items of the running turn.
    pub(super) turn_items: Vec<StoredItem>,
}

impl History {
    /// The turns that have ended as messages, what was summarised first.
    pub(super) fn settled_messages(&self) -> Vec<Arc<Message>> {
        let summary = self.summary.iter().map(|summary| {
            let text = format!("[Summary of the conversation so far]\n{summary}");
            Arc::new(Message::User { text })
        });
        let turns = self.settled.iter().flatten();
        summary
            .chain(turns.flat_map(|turn| turn.messages.iter().cloned()))
            .collect()
    }

    /// The running turn as messages. Items finish in any order; the model sees them in the order in which they began.
    pub(super) fn turn_messages(&mut self) -> Vec<Arc<Message>> {
        self.turn_items
            .sort_by_key(|stored| item_number(&stored.item.id));
        super::transcript::messages(&self.turn_items)
    }
}

impl Actor {
    /// The loop: takes one thing after the other until the session is closed or unloads itself.
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut last_progress = tokio::time::Instant::now();
        let mut idle_since = Instant::now();
        let mut batch = Vec::with_capacity(FROM_TURN);
        loop {
            self.journal.reserve().await;
            self.settle().await;
            if let Some((ending, reason, replies)) = self.ready_to_close().await {
                return self.close(ending, reason, replies, commands).await;
            }
            if self.is_in_use() || !commands.is_empty() {
                idle_since = Instant::now();
            }
            let progress_at = last_progress + PROGRESS_INTERVAL;
            let unattended = self.unattended_deadline();
            tokio::select! {
                count = self.from_turn.1.recv_many(&mut batch, FROM_TURN) => {
                    debug_assert!(count > 0, "the actor holds a sender itself");
                    for message in batch.drain(..) {
                        self.on_turn(message).await;
                    }
                }
                command = commands.recv() => match command {
                    Some(command) => self.on_command(command).await,
                    // Every door is gone: the daemon dropped the session.
                    None => return self.close(Ending::Suspend, "unloaded".to_owned(), Vec::new(), commands).await,
                },
                () = tokio::time::sleep_until(progress_at), if self.open.has_unsaved() => {
                    last_progress = tokio::time::Instant::now();
                    self.save_progress().await;
                }
                () = sleep_until_instant(unattended), if unattended.is_some() => self.deny_unattended().await,
                result = joined(&mut self.head_saver), if self.head_saver.is_some() => {
                    self.head_saver = None;
                    match result {
                        Ok(true) => self.forget_open_turn().await,
                        Ok(false) => {}
                        Err(error) => tracing::error!(%error, "saving a head was cut short"),
                    }
                }
                () = tokio::time::sleep(DISK_RETRY), if self.journal.has_backlog() => {
                    if self.journal.retry().await {
                        self.note(NoteLevel::Info, "The disk takes writes again; nothing was lost.").await;
                        self.save_head_soon();
                    }
                }
                () = tokio::time::sleep(SESSION_IDLE.saturating_sub(idle_since.elapsed())), if !self.is_in_use() => {
                    if self.registry.may_unload(self.handle.id()) {
                        return self.close(Ending::Suspend, "unloaded".to_owned(), Vec::new(), commands).await;
                    }
                    idle_since = Instant::now();
                }
            }
        }
    }

    async fn on_command(&mut self, command: Command) {
        match command {
            Command::Attach(attach) => self.attach(attach),
            Command::Detach { connection } => self.detach(&connection),
            Command::Info(reply) => answer(reply, Ok(self.view.info.clone())),
            Command::Items {
                before,
                limit,
                reply,
            } => self.page(before, limit, reply).await,
            Command::Item { id, reply } => self.item(id, reply).await,
            Command::Configure(params, caller, reply) => {
                self.adopt_environment(&caller);
                let result = self.configure(*params, &caller).await;
                answer(reply, result);
            }
            Command::Close {
                reason,
                ending,
                reply,
            } => self.begin_close(ending, reason, reply),
            Command::Submit(params, caller, reply) => {
                self.adopt_environment(&caller);
                let result = self.submit(params, &caller).await;
                answer(reply, result);
            }
            Command::Interrupt {
                then_send_queue,
                reply,
            } => self.interrupt(then_send_queue, reply).await,
            Command::Wait { target, reply } => self.wait(target, reply),
            Command::QueueList(reply) => answer(reply, Ok(self.view.queue.clone())),
            Command::QueueSend(id, caller, reply) => {
                self.adopt_environment(&caller);
                let result = self.queue_send(id).await;
                answer(reply, result);
            }
            Command::QueueEdit(params, reply) => {
                let result = self.queue_edit(params).await;
                answer(reply, result);
            }
            Command::QueueRemove(id, reply) => {
                let result = self.queue_remove(id).await;
                answer(reply, result);
            }
            Command::Approvals(reply) => answer(reply, Ok(self.view.approvals.clone())),
            Command::Questions(reply) => answer(reply, Ok(self.view.questions.clone())),
            Command::Respond(params, caller, reply) => {
                self.adopt_environment(&caller);
                let result = self.respond(params, &caller).await;
                answer(reply, result);
            }
            Command::Tools(reply) => answer(reply, Ok(self.tool_infos())),
            Command::CallTool {
                params,
                caller,
                cancel,
                reply,
            } => {
                self.adopt_environment(&caller);
                self.call_tool(params, &caller, cancel, reply).await;
            }
            Command::Todos(reply) => answer(reply, Ok(self.view.todos.clone())),
            Command::Usage(reply) => answer(reply, Ok(self.view.usage.clone())),
        }
    }

    /// Numbers an event, folds it into the visible state, and shows it to the clients.
    pub(super) fn emit(&mut self, event: Event) {
        let seq = self.journal.take_seq();
        let time = Timestamp::now();
        self.view.apply(seq, time, &event);
        self.events.append(seq, time, event);
    }

    /// Says what the session does, if that changed.
    pub(super) fn set_activity(&mut self, kind: ActivityKind, detail: Option<String>) {
        if self.view.activity.kind != kind || self.view.activity.detail != detail {
            self.emit(Event::ActivityChanged {
                activity: Activity {
                    kind,
                    detail,
                    since: Timestamp::now(),
                },
            });
        }
    }

    /// Adds a note to the transcript.
    pub(super) async fn note(&mut self, level: NoteLevel, text: impl Into<String>) {
        let now = Timestamp::now();
        let item = Item {
            id: item_id(self.journal.take_id()),
            turn: self.running_turn().map(|turn| turn.id.clone()),
            created_at: now,
            completed_at: Some(now),
            cut: None,
            body: ItemBody::Note {
                level,
                text: text.into(),
            },
        };
        let record = crate::store::record::Record::ItemFinished {
            item: item.clone(),
            round: 0,
            replay: None,
        };
        self.journal.record(vec![record]).await;
        self.emit(Event::NoteAdded { item });
    }

    /// Brings what follows from the state up to date: info, lists, memory.
    async fn settle(&mut self) {
        if let Some(failure) = self.journal.take_failure() {
            self.note(NoteLevel::Error, failure).await;
        }
        self.send_queue_if_due().await;
        self.refresh_info();
        self.trim_view();
    }

    /// Sends `sessionUpdated` when something of the info changed.
    pub(super) fn refresh_info(&mut self) {
        let info = self.current_info();
        let changed = info != self.view.info;
        if changed {
            self.emit(Event::SessionUpdated {
                info: Box::new(info),
            });
        }
        let shown = self.handle.published();
        let published = Published {
            info: Some(self.view.info.clone()),
            alive: self.is_alive(),
        };
        let new_to_list = changed
            || shown.info.as_ref().map(|info| &info.clients) != Some(&self.view.info.clients);
        self.handle.publish(published);
        if new_to_list && shown.info.is_some() {
            self.registry.session_changed(&self.view.info);
        }
    }

    fn current_info(&self) -> SessionInfo {
        let status = match (
            &self.work,
            self.view.approvals.is_empty() && self.view.questions.is_empty(),
        ) {
            (Work::Idle, _) => SessionStatus::Idle,
            (_, true) => SessionStatus::Running,
            (_, false) => SessionStatus::Waiting,
        };
        SessionInfo {
            status,
            clients: self.view.info.clients.clone(),
            updated_at: self.view.info.updated_at,
            seq: self.view.info.seq,
            ..info_of(&self.services, self.journal.head())
        }
    }

    /// The running turn.
    pub(super) fn running_turn(&self) -> Option<&RunningTurn> {
        match &self.work {
            Work::Turn(turn) => Some(turn),
            Work::Idle | Work::Operator(_) => None,
        }
    }

    /// The running turn, to be changed.
    pub(super) fn running_turn_mut(&mut self) -> Option<&mut RunningTurn> {
        match &mut self.work {
            Work::Turn(turn) => Some(turn),
            Work::Idle | Work::Operator(_) => None,
        }
    }

    fn is_alive(&self) -> bool {
        !matches!(self.work, Work::Idle) || !self.view.approvals.is_empty()
    }

    fn is_in_use(&self) -> bool {
        self.is_alive()
            || !self.view.clients.is_empty()
            || self.journal.has_backlog()
            || !self.waiters.is_empty()
    }

    /// A session that was loaded from disk has no environment until a controller names it.
    fn adopt_environment(&mut self, caller: &Caller) {
        if self.environment.is_none() {
            self.environment.clone_from(&caller.environment);
        }
    }

    /// With the head saved and no turn running, a start after a crash need not look at this session.
    pub(super) async fn forget_open_turn(&self) {
        if matches!(self.work, Work::Idle)
            && let Err(error) = open_turns::clear_open(self.journal.paths(), self.handle.id()).await
        {
            tracing::warn!(session = %self.handle.id(), %error, "the mark of an open turn stays");
        }
    }
}

async fn joined(
    task: &mut Option<tokio::task::JoinHandle<bool>>,
) -> Result<bool, tokio::task::JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

async fn sleep_until_instant(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
