//! The live sessions by id, the list of all, and the way to each.
//!
//! A call finds its session, or starts it, and puts its command into the mailbox under one lock: so calls that name the same
//! session are begun in the order in which they came, and none is lost between a session's end and its next life.

mod create;
mod list;
mod opening;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use crystal_protocol::{
    error::{ErrorKind, RpcError},
    event::{DAEMON_EVENT, DaemonEvent},
    frame::line_of,
    ids::{ConnectionId, SessionId},
    rpc::ShutdownMode,
    session::SessionInfo,
    time::Timestamp,
};
use serde::Serialize;
use tokio::sync::{Notify, broadcast, mpsc, oneshot};

use crate::{
    engine::{
        self, Start,
        command::{Command, Ending, Reply, SessionHandle, Undelivered},
        services::{Registry, Services},
    },
    store::{
        head::Head,
        index::{IndexEntry, Resolved, SessionIndex},
    },
};

/// Daemon events that a slow subscriber may be behind; beyond it, it misses some and lists again.
const DAEMON_EVENTS: usize = 1024;

/// How long a client that ended the daemon may take to get its answer.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// The daemon's sessions.
pub struct Hub {
    services: Arc<Services>,
    state: Mutex<State>,
    events: broadcast::Sender<Bytes>,
    index_dirty: Notify,
    opening: opening::Opening,
    shutdown: mpsc::Sender<ShutdownMode>,
    connections: AtomicUsize,
    next_connection: AtomicUsize,
    started: Instant,
    started_at: Timestamp,
}

struct State {
    live: HashMap<SessionId, SessionHandle>,
    index: SessionIndex,
    shutting_down: bool,
}

#[derive(Serialize)]
struct Notification<'a> {
    jsonrpc: &'static str,
    method: &'static str,
    params: &'a DaemonEvent,
}

impl Hub {
    /// The sessions of a home, not listed yet: [`Hub::open`] does that.
    pub fn new(services: Arc<Services>, shutdown: mpsc::Sender<ShutdownMode>) -> Self {
        Self {
            services,
            state: Mutex::new(State {
                live: HashMap::new(),
                index: SessionIndex::default(),
                shutting_down: false,
            }),
            events: broadcast::Sender::new(DAEMON_EVENTS),
            index_dirty: Notify::new(),
            opening: opening::Opening::default(),
            shutdown,
            connections: AtomicUsize::new(0),
            next_connection: AtomicUsize::new(1),
            started: Instant::now(),
            started_at: Timestamp::now(),
        }
    }

    /// The daemon's services.
    pub fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// Since when the daemon runs.
    pub fn started(&self) -> (Instant, Timestamp) {
        (self.started, self.started_at)
    }

    /// Sends a command to a session, loading it if need be, before this returns. The answer comes later.
    ///
    /// # Errors
    /// When there is no such session, its mailbox is full, or the daemon is going down.
    pub fn send<T>(
        self: &Arc<Self>,
        session: &SessionId,
        command: impl FnOnce(Reply<T>) -> Command,
    ) -> Result<oneshot::Receiver<Result<T, RpcError>>, RpcError> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.lock();
        let id = state.resolve(session)?;
        let handle = self.handle(&mut state, &id)?;
        self.deliver(&mut state, &handle, command(reply))?;
        Ok(answer)
    }

    /// Sends a command and waits for the answer.
    ///
    /// # Errors
    /// As [`Hub::send`], and those of the command itself.
    pub fn call<T: Send + 'static>(
        self: &Arc<Self>,
        session: &SessionId,
        command: impl FnOnce(Reply<T>) -> Command,
    ) -> impl Future<Output = Result<T, RpcError>> + Send + 'static {
        let answer = self.send(session, command);
        async move { answer?.await.unwrap_or_else(|_| Err(gone())) }
    }

    /// Sends a command to a session that is live; `None` when it is not, and nothing is loaded.
    ///
    /// # Errors
    /// As [`Hub::send`], and those of the command itself.
    pub fn ask_live<T: Send + 'static>(
        self: &Arc<Self>,
        session: &SessionId,
        command: impl FnOnce(Reply<T>) -> Command,
    ) -> Result<Option<impl Future<Output = Result<T, RpcError>> + Send + 'static>, RpcError> {
        let id = self.resolve(session)?;
        if !self.lock().live.contains_key(&id) {
            return Ok(None);
        }
        let answer = self.send(&id, command)?;
        Ok(Some(
            async move { answer.await.unwrap_or_else(|_| Err(gone())) },
        ))
    }

    /// The id that a call means: whole, or a unique prefix.
    ///
    /// # Errors
    /// When none, or more than one, fits.
    pub fn resolve(&self, session: &SessionId) -> Result<SessionId, RpcError> {
        self.lock().resolve(session)
    }

    /// Tells a session that a connection no longer follows it; one that is not loaded has nobody to tell.
    pub fn detach(&self, session: &SessionId, connection: &ConnectionId) {
        let state = self.lock();
        if let Some(handle) = state.live.get(session) {
            let command = Command::Detach {
                connection: connection.clone(),
            };
            if let Err(Undelivered::Full) = handle.send(command) {
                // It hears of it when it has room: a client that has gone must not count for ever.
                let (handle, connection) = (handle.clone(), connection.clone());
                tokio::spawn(
                    async move { handle.send_later(Command::Detach { connection }).await },
                );
            }
        }
    }

    fn handle(
        self: &Arc<Self>,
        state: &mut State,
        id: &SessionId,
    ) -> Result<SessionHandle, RpcError> {
        if let Some(handle) = state.live.get(id) {
            return Ok(handle.clone());
        }
        if state.shutting_down {
            return Err(shutting_down());
        }
        Ok(self.spawn(state, id, Start::Saved))
    }

    fn spawn(self: &Arc<Self>, state: &mut State, id: &SessionId, start: Start) -> SessionHandle {
        let (handle, commands) = SessionHandle::new(id.clone());
        state.live.insert(id.clone(), handle.clone());
        let registry: Arc<dyn Registry> = Arc::new(HubRegistry(self.clone()));
        engine::spawn(
            self.services.clone(),
            registry,
            handle.clone(),
            commands,
            start,
        );
        handle
    }

    /// Delivers to a session; when it has just ended, to its next life.
    fn deliver(
        self: &Arc<Self>,
        state: &mut State,
        handle: &SessionHandle,
        command: Command,
    ) -> Result<(), RpcError> {
        match handle.send(command) {
            Ok(()) => Ok(()),
            Err(Undelivered::Gone(command)) => {
                state.live.remove(handle.id());
                let next = self.handle(state, handle.id())?;
                next.send(*command)
                    .map_err(|undelivered| undelivered.error())
            }
            Err(full) => Err(full.error()),
        }
    }

    /// The ids of the live sessions.
    pub fn live_sessions(&self) -> Vec<SessionId> {
        self.lock().live.keys().cloned().collect()
    }

    /// Loads sessions whose turn was open when the daemon ended, so that what waited for a person waits again.
    fn load_all(self: &Arc<Self>, ids: Vec<SessionId>) {
        let mut state = self.lock();
        for id in ids {
            if state.resolve(&id).is_ok()
                && let Err(error) = self.handle(&mut state, &id)
            {
                tracing::warn!(session = %id, %error, "a session with an open turn could not be loaded");
            }
        }
    }

    /// Counts a connection in, and names it.
    pub fn connected(&self) -> ConnectionId {
        self.connections.fetch_add(1, Ordering::AcqRel);
        ConnectionId::new(format!(
            "c{}",
            self.next_connection.fetch_add(1, Ordering::Relaxed)
        ))
    }

    /// Counts a connection out.
    pub fn disconnected(&self) {
        self.connections.fetch_sub(1, Ordering::AcqRel);
    }

    /// Connections at this moment.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }

    /// Whether a turn, a task or an open prompt is there; sessions that are being loaded, or listed, count.
    pub fn has_live_work(&self) -> bool {
        !self.is_open() || self.lock().live.values().any(is_alive)
    }

    /// Daemon events from here on, as lines.
    pub fn subscribe(&self) -> broadcast::Receiver<Bytes> {
        self.events.subscribe()
    }

    /// Tells those who subscribed.
    pub fn tell(&self, event: &DaemonEvent) {
        let notification = Notification {
            jsonrpc: "2.0",
            method: DAEMON_EVENT,
            params: event,
        };
        match serde_json::to_vec(&notification) {
            // Nobody may be listening.
            Ok(json) => drop(self.events.send(line_of(&json))),
            Err(error) => tracing::error!(%error, "a daemon event could not be serialised"),
        }
    }

    /// Takes no new work from here on; false when it was so already, or when `if_idle` and something is alive.
    pub fn begin_shutdown(&self, if_idle: Option<usize>) -> bool {
        // The lock is held over the look and the decision, so that no call slips in between.
        let mut state = self.lock();
        if let Some(own_connections) = if_idle {
            let busy = !self.is_open() || state.live.values().any(is_alive);
            if busy || self.connections() > own_connections {
                return false;
            }
        }
        !std::mem::replace(&mut state.shutting_down, true)
    }

    /// Ends the daemon as a client wants it: what is to be ended first, then, when the client has had time to hear its answer, the
    /// daemon. Goes on when the client leaves.
    pub fn end(self: &Arc<Self>, mode: ShutdownMode) -> tokio::task::JoinHandle<()> {
        let hub = self.clone();
        let (suspended, wait) = oneshot::channel();
        tokio::spawn(async move {
            if mode == ShutdownMode::Graceful {
                hub.suspend_all("a client ended the daemon").await;
            }
            let heard = suspended.send(()).is_ok();
            if heard {
                tokio::time::sleep(ANSWER_TIME).await;
            }
            if hub.shutdown.send(mode).await.is_err() {
                tracing::debug!("the daemon is going down already");
            }
        });
        tokio::spawn(async move {
            if wait.await.is_err() {
                tracing::debug!("the end was not waited for");
            }
        })
    }

    /// Takes new work again: the shutdown was called off.
    pub fn cancel_shutdown(&self) {
        self.lock().shutting_down = false;
    }

    /// Ends all live sessions: turns are interrupted, those that only wait are left open, everything is saved.
    pub async fn suspend_all(self: &Arc<Self>, reason: &str) {
        let handles: Vec<SessionHandle> = self.lock().live.values().cloned().collect();
        let mut answers = Vec::new();
        for handle in handles {
            let (reply, answer) = oneshot::channel();
            let close = Command::Close {
                reason: reason.to_owned(),
                ending: Ending::Suspend,
                reply,
            };
            if handle.send(close).is_ok() {
                answers.push(answer);
            }
        }
        for answer in answers {
            match answer.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "a session could not be saved"),
                Err(_) => tracing::debug!("a session had ended already"),
            }
        }
        self.save_index().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn resolve(&self, session: &SessionId) -> Result<SessionId, RpcError> {
        if self.live.contains_key(session) {
            return Ok(session.clone());
        }
        match self.index.resolve(session.as_str()) {
            Resolved::Unique(id) => Ok(id),
            Resolved::Ambiguous => Err(RpcError::new(
                ErrorKind::SessionAmbiguous,
                format!("More than one session begins with {session}; give more of the id."),
            )),
            Resolved::Unknown => Err(engine::command::not_found(session)),
        }
    }
}

/// The hub as its sessions know it.
struct HubRegistry(Arc<Hub>);

impl Registry for HubRegistry {
    fn session_changed(&self, info: &SessionInfo) {
        self.0.tell(&DaemonEvent::SessionChanged {
            session: Box::new(info.clone()),
        });
    }

    fn session_saved(&self, head: &Head) {
        self.0.lock().index.put(IndexEntry::loaded(head));
        self.0.index_dirty.notify_one();
    }

    fn may_unload(&self, id: &SessionId) -> bool {
        let state = self.0.lock();
        // It stays among the live until it is gone, so that its next life does not begin before its files are saved.
        state.live.get(id).is_some_and(|handle| !handle.has_mail())
    }

    fn session_gone(&self, id: &SessionId, deleted: bool, mut late: mpsc::Receiver<Command>) {
        let mut state = self.0.lock();
        late.close();
        if state.live.get(id).is_some_and(|handle| handle.is_closed()) {
            state.live.remove(id);
        }
        if deleted {
            state.index.remove(id);
            self.0.index_dirty.notify_one();
        }
        // Calls that came too late go to the session's next life, in their order; those on a deleted session fail.
        while let Ok(command) = late.try_recv() {
            let is_for_next = match &command {
                // A client that left is known to a next life only if an earlier call began one.
                Command::Detach { .. } => state.live.contains_key(id),
                Command::Close { ending, .. } => *ending != Ending::Suspend,
                _ => true,
            };
            if deleted || !is_for_next {
                settle_late(command, deleted);
                continue;
            }
            match self.0.handle(&mut state, id) {
                Ok(handle) => {
                    if let Err(error) = self.0.deliver(&mut state, &handle, command) {
                        tracing::warn!(session = %id, %error, "a late call was dropped");
                    }
                }
                Err(error) => command.refuse(error),
            }
        }
        drop(state);
        if deleted {
            self.0.tell(&DaemonEvent::SessionRemoved { id: id.clone() });
        }
    }

    fn session_failed(&self, id: &SessionId, error: &RpcError, mut calls: mpsc::Receiver<Command>) {
        let mut state = self.0.lock();
        calls.close();
        state.live.remove(id);
        drop(state);
        while let Ok(command) = calls.try_recv() {
            command.refuse(error.clone());
        }
    }
}

/// Answers a call that goes to no next life: a close has nothing left to do, anything else fails.
fn settle_late(command: Command, deleted: bool) {
    match command {
        Command::Close { reply, .. } => engine::command::answer(reply, Ok(())),
        Command::Detach { .. } => {}
        other if deleted => other.refuse(RpcError::new(
            ErrorKind::SessionNotFound,
            "The session was deleted.",
        )),
        other => other.refuse(gone()),
    }
}

/// Whether a session keeps the daemon alive: one that is being loaded does, one that has ended does not.
fn is_alive(handle: &SessionHandle) -> bool {
    let published = handle.published();
    !handle.is_closed() && (published.alive || published.info.is_none() || handle.has_mail())
}

fn gone() -> RpcError {
    RpcError::new(
        ErrorKind::ShuttingDown,
        "The session ended before it could answer; try again.",
    )
}

/// The error of a call that comes while the daemon goes down.
pub fn shutting_down() -> RpcError {
    RpcError::new(
        ErrorKind::ShuttingDown,
        "The daemon is going down; connect again in a moment.",
    )
}
