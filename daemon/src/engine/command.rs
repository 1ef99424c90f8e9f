//! What a session can be asked, and the door through which it is asked.

use std::sync::{Arc, Mutex, PoisonError};

use crystal_protocol::{
    approval::Approval,
    client_ref::ClientRef,
    error::{ErrorKind, RpcError},
    ids::{ConnectionId, ItemId, QueuedId, Seq, SessionId, TurnId},
    item::Note,
    question::Question,
    rpc::{
        ApprovalRespondParams, Environment, QueueEditParams, SessionConfigureParams,
        ToolCallParams, ToolCallResult, ToolInfo, TurnSubmitParams, TurnSubmitResult,
    },
    session::{SessionInfo, Snapshot},
    task::Todo,
    turn::{QueuedPrompt, TurnCompleted, Usage},
};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::event_log::EventLog;

/// Commands that may wait for a session; beyond it callers get `overloaded`.
const MAILBOX: usize = 4096;

/// Where an answer goes.
pub type Reply<T> = oneshot::Sender<Result<T, RpcError>>;

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The client.
    pub client: ClientRef,
    /// Its process environment, where it sent one.
    pub environment: Option<Arc<Environment>>,
}

/// Something a session can be asked. Commands are taken one by one, in the order in which they came.
pub enum Command {
    /// Follow the events.
    Attach(Attach),
    /// No longer follow them.
    Detach {
        /// The connection.
        connection: ConnectionId,
    },
    /// The session in a line.
    Info(Reply<SessionInfo>),
    /// The last items that are in memory, open ones too, and whether older ones exist.
    Items {
        /// Only items before this one.
        before: Option<ItemId>,
        /// At most so many.
        limit: usize,
        /// Where they go.
        reply: Reply<ItemPage>,
    },
    /// One item whole.
    Item {
        /// Which.
        id: ItemId,
        /// Where it goes.
        reply: Reply<crystal_protocol::item::Item>,
    },
    /// Change settings.
    Configure(
        Box<SessionConfigureParams>,
        Caller,
        Reply<(SessionInfo, Vec<Note>)>,
    ),
    /// End everything, save, unload.
    Close {
        /// Why, for the clients.
        reason: String,
        /// What becomes of the session.
        ending: Ending,
        /// When it is done.
        reply: Reply<()>,
    },
    /// A user message.
    Submit(TurnSubmitParams, Caller, Reply<TurnSubmitResult>),
    /// Interrupt what runs.
    Interrupt {
        /// Send the queue when it has ended.
        then_send_queue: bool,
        /// Whether a turn ran; when it has ended.
        reply: Reply<bool>,
    },
    /// Wait for a turn's end.
    Wait {
        /// Which.
        target: WaitTarget,
        /// How it ended.
        reply: Reply<TurnCompleted>,
    },
    /// The queue.
    QueueList(Reply<Vec<QueuedPrompt>>),
    /// Send held prompts.
    QueueSend(Option<QueuedId>, Caller, Reply<Vec<QueuedPrompt>>),
    /// Replace a prompt's message.
    QueueEdit(QueueEditParams, Reply<Vec<QueuedPrompt>>),
    /// Take prompts back.
    QueueRemove(Option<QueuedId>, Reply<Vec<QueuedPrompt>>),
    /// Open approvals.
    Approvals(Reply<Vec<Approval>>),
    /// Open questions.
    Questions(Reply<Vec<Question>>),
    /// Answer an approval.
    Respond(ApprovalRespondParams, Caller, Reply<()>),
    /// The tools of the present mode.
    Tools(Reply<Vec<ToolInfo>>),
    /// Run a tool as the operator.
    CallTool {
        /// What to run.
        params: ToolCallParams,
        /// Who wants it.
        caller: Caller,
        /// Fires when the caller has gone.
        cancel: CancellationToken,
        /// What came of it.
        reply: Reply<ToolCallResult>,
    },
    /// The todo list.
    Todos(Reply<Vec<Todo>>),
    /// Tokens and cost.
    Usage(Reply<Usage>),
}

impl Command {
    /// Answers a command that will not be carried out.
    pub fn refuse(self, error: RpcError) {
        match self {
            Self::Attach(attach) => answer(attach.reply, Err(error)),
            Self::Detach { .. } => {}
            Self::Info(reply) => answer(reply, Err(error)),
            Self::Items { reply, .. } => answer(reply, Err(error)),
            Self::Item { reply, .. } => answer(reply, Err(error)),
            Self::Configure(_, _, reply) => answer(reply, Err(error)),
            Self::Close { reply, .. } | Self::Respond(_, _, reply) => answer(reply, Err(error)),
            Self::Submit(_, _, reply) => answer(reply, Err(error)),
            Self::Interrupt { reply, .. } => answer(reply, Err(error)),
            Self::Wait { reply, .. } => answer(reply, Err(error)),
            Self::QueueList(reply)
            | Self::QueueSend(_, _, reply)
            | Self::QueueEdit(_, reply)
            | Self::QueueRemove(_, reply) => answer(reply, Err(error)),
            Self::Approvals(reply) => answer(reply, Err(error)),
            Self::Questions(reply) => answer(reply, Err(error)),
            Self::Tools(reply) => answer(reply, Err(error)),
            Self::CallTool { reply, .. } => answer(reply, Err(error)),
            Self::Todos(reply) => answer(reply, Err(error)),
            Self::Usage(reply) => answer(reply, Err(error)),
        }
    }
}

/// Follow the events of a session.
pub struct Attach {
    /// Who.
    pub client: Caller,
    /// The last event it has.
    pub after: Option<Seq>,
    /// Items wanted in a snapshot.
    pub items: usize,
    /// Wakes the connection when an event is added.
    pub wake: Arc<Notify>,
    /// Where the answer goes.
    pub reply: Reply<Attached>,
}

/// The answer to [`Attach`].
#[derive(Debug)]
pub struct Attached {
    /// The session in a line.
    pub info: SessionInfo,
    /// The head of the log at this moment.
    pub seq: Seq,
    /// The state at `seq`, unless the missed events follow instead.
    pub snapshot: Option<Box<Snapshot>>,
    /// Where the cursor begins.
    pub cursor: Seq,
    /// The log to follow.
    pub events: Arc<EventLog>,
}

/// A page of items.
#[derive(Debug)]
pub struct ItemPage {
    /// Oldest first.
    pub items: Vec<crystal_protocol::item::Item>,
    /// Older ones exist.
    pub has_more: bool,
}

/// What becomes of a session that is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// The daemon goes down: a turn that only waits for a person is left open, options are kept.
    Suspend,
    /// Its turn is interrupted, its options are forgotten.
    Close,
    /// As `Close`, and its files are removed.
    Delete,
}

/// Which turn to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitTarget {
    /// The running one, else the last.
    Current,
    /// This one.
    Turn(TurnId),
    /// The one that takes this prompt up.
    Queued(QueuedId),
}

/// The public door of a live session: cheap to clone.
#[derive(Clone)]
pub struct SessionHandle {
    id: SessionId,
    mailbox: mpsc::Sender<Command>,
    published: Arc<Mutex<Published>>,
}

/// What a session shows without being asked: for lists and idle checks.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// The session in a line; absent while it loads.
    pub info: Option<SessionInfo>,
    /// A turn, a task or an open prompt is there.
    pub alive: bool,
}

impl SessionHandle {
    /// A door and the mailbox behind it.
    pub fn new(id: SessionId) -> (Self, mpsc::Receiver<Command>) {
        let (mailbox, commands) = mpsc::channel(MAILBOX);
        (
            Self {
                id,
                mailbox,
                published: Arc::default(),
            },
            commands,
        )
    }

    /// The session.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Puts a command into the mailbox, at once or not at all.
    ///
    /// # Errors
    /// The command comes back: `overloaded` when the mailbox is full, or the session is gone.
    pub fn send(&self, command: Command) -> Result<(), Undelivered> {
        self.mailbox.try_send(command).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Undelivered::Full,
            mpsc::error::TrySendError::Closed(command) => Undelivered::Gone(Box::new(command)),
        })
    }

    /// Puts a command into the mailbox when there is room. One to a session that has ended is dropped.
    pub async fn send_later(&self, command: Command) {
        if self.mailbox.send(command).await.is_err() {
            tracing::trace!("a session had ended before a late command");
        }
    }

    /// Whether commands wait in the mailbox.
    pub fn has_mail(&self) -> bool {
        self.mailbox.capacity() < self.mailbox.max_capacity()
    }

    /// Whether the session has ended.
    pub fn is_closed(&self) -> bool {
        self.mailbox.is_closed()
    }

    /// What the session shows.
    pub fn published(&self) -> Published {
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Shows something else.
    pub(super) fn publish(&self, published: Published) {
        *self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = published;
    }
}

/// A command that did not reach its session.
pub enum Undelivered {
    /// The mailbox is full.
    Full,
    /// The session is gone; the command, to be sent to its successor.
    Gone(Box<Command>),
}

impl Undelivered {
    /// The error for the caller.
    pub fn error(&self) -> RpcError {
        match self {
            Self::Full => RpcError::new(
                ErrorKind::Overloaded,
                "The session has too many calls waiting; wait for some answers and try again.",
            ),
            Self::Gone(_) => RpcError::new(
                ErrorKind::ShuttingDown,
                "The session was being closed; try again.",
            ),
        }
    }
}

/// Answers a call; a caller that has gone needs no answer.
pub fn answer<T>(reply: Reply<T>, result: Result<T, RpcError>) {
    if reply.send(result).is_err() {
        tracing::trace!("a caller had gone before its answer");
    }
}

/// The error of a call that names no session.
pub fn not_found(session: &SessionId) -> RpcError {
    let message = format!(
        "There is no session {session}; session/list (crystal-ctl sessions) shows those there are, and a prefix needs at least 4 characters."
    );
    RpcError::new(ErrorKind::SessionNotFound, message)
}
