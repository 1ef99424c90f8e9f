//! Events: everything that happens in a session, in order, each with its number.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    approval::{Approval, DecidedVia, Decision},
    client_ref::ClientRef,
    ids::{ApprovalId, ItemId, QuestionId, Seq, SessionId, TaskId},
    item::{Item, ItemField},
    question::{Question, QuestionOutcome},
    session::{SessionInfo, Snapshot},
    task::{Image, Task, Todo},
    time::Timestamp,
    turn::{Activity, QueuedPrompt, Turn, TurnCompleted, Usage},
};

/// Name of the notification that carries a [`SessionEvent`].
pub const SESSION_EVENT: &str = "session/event";
/// Name of the notification that carries a [`Resync`].
pub const SESSION_RESYNC: &str = "session/resync";
/// Name of the notification that carries a [`DaemonEvent`].
pub const DAEMON_EVENT: &str = "daemon/event";

/// The parameters of `session/event`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEvent {
    /// The session it belongs to.
    pub session: SessionId,
    /// Its number.
    pub seq: Seq,
    /// The first of several numbers that were merged into this one, for a client that was behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seq: Option<Seq>,
    /// When it happened.
    pub time: Timestamp,
    /// What happened.
    pub event: AnyEvent,
}

/// The parameters of `session/resync`: the client fell out of the retained window and starts afresh from here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resync {
    /// The session.
    pub session: SessionId,
    /// The number at which the snapshot is true.
    pub seq: Seq,
    /// Why, in an English sentence.
    pub reason: String,
    /// The state to replace one's own with.
    pub snapshot: Box<Snapshot>,
}

/// An event of a type that this version knows, or one of a later version, passed through.
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the usual one; boxing it would cost each event an allocation"
)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AnyEvent {
    /// An event of this version.
    Known(Event),
    /// An event of a later version, as it came.
    Unknown(Value),
}

/// What may happen in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Event {
    /// A field of `info` other than `seq`, `updatedAt`, `clients` changed.
    SessionUpdated {
        /// The whole info.
        info: Box<SessionInfo>,
    },
    /// The session was closed or deleted; no event follows.
    SessionClosed {
        /// Why.
        reason: String,
    },
    /// A turn began.
    TurnStarted {
        /// The turn.
        turn: Turn,
    },
    /// A turn ended; the session is idle already.
    TurnCompleted(TurnCompleted),
    /// An item began, or an open one changed its status. Holds none of what streams; what had streamed is sent again.
    ItemStarted {
        /// The item.
        item: Item,
    },
    /// An item is finished; this form is authoritative.
    ItemCompleted {
        /// The item.
        item: Item,
    },
    /// More of an open item's field.
    ItemDelta {
        /// The item.
        item: ItemId,
        /// Which field.
        field: ItemField,
        /// What to append.
        delta: String,
        /// Bytes that were left out before this delta, by the bound on output.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        skipped: Option<u64>,
    },
    /// The item never was.
    ItemDiscarded {
        /// The item.
        item: ItemId,
        /// Why.
        reason: DiscardReason,
    },
    /// A word from the daemon.
    NoteAdded {
        /// An item of kind `note`.
        item: Item,
    },
    /// The session does something else.
    ActivityChanged {
        /// What it does.
        activity: Activity,
    },
    /// A failed request will be tried again.
    RetryScheduled {
        /// The attempt that will follow, from 2 on.
        attempt: u32,
        /// After this many milliseconds.
        delay_ms: u64,
        /// What failed.
        cause: String,
    },
    /// A call waits for a person.
    ApprovalRequested {
        /// What is asked.
        approval: Box<Approval>,
    },
    /// It no longer waits.
    ApprovalResolved {
        /// Which.
        id: ApprovalId,
        /// What was decided.
        decision: Decision,
        /// By whom, where a client did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<ClientRef>,
        /// In what way.
        via: DecidedVia,
    },
    /// The model asks a person.
    QuestionRequested {
        /// What is asked.
        question: Question,
    },
    /// It no longer waits.
    QuestionResolved {
        /// Which.
        id: QuestionId,
        /// How it ended.
        outcome: QuestionOutcome,
        /// The answers, in the order of the questions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answers: Option<Vec<Vec<String>>>,
        /// By whom.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<ClientRef>,
    },
    /// The queue changed.
    QueueChanged {
        /// All of it.
        queue: Vec<QueuedPrompt>,
    },
    /// A background task began.
    TaskStarted {
        /// The task.
        task: Task,
    },
    /// A background task printed.
    TaskOutput {
        /// The task.
        task: TaskId,
        /// Where `data` begins in all that it printed, in bytes.
        offset: u64,
        /// What it printed.
        data: String,
        /// Bytes left out before `data`, by the bound on output.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        skipped: Option<u64>,
    },
    /// A background task ended.
    TaskExited {
        /// The task.
        task: Task,
    },
    /// The todo list changed.
    TodosChanged {
        /// All of it.
        todos: Vec<Todo>,
    },
    /// An image came.
    ImageAttached {
        /// The image.
        image: Image,
    },
    /// An image changed its state.
    ImageChanged {
        /// The image.
        image: Image,
    },
    /// An unsent image was thrown away.
    ImageDiscarded {
        /// Its number.
        number: u32,
    },
    /// Summarising began.
    CompactionStarted {
        /// Who wanted it.
        trigger: CompactionTrigger,
    },
    /// Summarising ended.
    CompactionCompleted {
        /// Tokens in the context before.
        tokens_before: u64,
        /// And after.
        tokens_after: u64,
        /// Items that the summary stands for.
        items_folded: u64,
        /// What went wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Tokens or cost changed.
    UsageChanged {
        /// All of it.
        usage: Usage,
    },
    /// A client attached.
    ClientAttached {
        /// Who.
        client: ClientRef,
    },
    /// A client left.
    ClientDetached {
        /// Who.
        client: ClientRef,
    },
}

/// Why an item was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DiscardReason {
    /// The request failed and is tried again.
    Retry,
    /// Nothing came of it.
    Empty,
}

/// Who wanted a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CompactionTrigger {
    /// A client.
    Manual,
    /// The context budget.
    Automatic,
}

/// The parameters of `daemon/event`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum DaemonEvent {
    /// A session was created or imported.
    SessionAdded {
        /// The session.
        session: Box<SessionInfo>,
    },
    /// A session's info changed.
    SessionChanged {
        /// The session.
        session: Box<SessionInfo>,
    },
    /// A session was deleted.
    SessionRemoved {
        /// Which.
        id: SessionId,
    },
    /// The configuration changed.
    ConfigChanged,
    /// The daemon is going down.
    ShuttingDown {
        /// Why.
        reason: String,
    },
}
