//! Sessions as clients see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    approval::{Approval, ApprovalMode},
    client_ref::ClientRef,
    ids::{Seq, SessionId},
    item::Item,
    question::Question,
    task::{Image, Task, Todo},
    time::Timestamp,
    turn::{Activity, QueuedPrompt, Turn, Usage},
};

/// Which tools and which system text a session uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// May change things.
    #[default]
    Work,
    /// Looks and plans; no edits, no shell.
    Plan,
}

/// How much the model should think.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Thinking {
    /// Not at all, where the model can do without.
    Off,
    /// As the provider sees fit.
    #[default]
    Default,
    /// The least.
    Minimal,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// A lot.
    High,
    /// The most.
    Maximum,
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SessionStatus {
    /// On disk, not loaded.
    Saved,
    /// Loaded, nothing running.
    Idle,
    /// A turn runs.
    Running,
    /// A turn waits for a person.
    Waiting,
    /// Its files cannot be read; they are left as they are.
    Damaged,
}

/// A session in a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// Its title: given, or the beginning of its first prompt; empty before that.
    pub title: String,
    /// The directory it works in, absolute, links resolved.
    pub workspace: String,
    /// Further directories that count as workspace for reads.
    pub add_directories: Vec<String>,
    /// Work or plan.
    pub mode: Mode,
    /// When it asks.
    pub approval: ApprovalMode,
    /// The model's provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Whether that model takes images.
    pub image_input: bool,
    /// How much the model should think.
    pub thinking: Thinking,
    /// The prompt set in use; `default` is the built-in one.
    pub prompt_set: String,
    /// Where it stands.
    pub status: SessionStatus,
    /// Whether the daemon has it loaded.
    pub live: bool,
    /// Who is attached.
    pub clients: Vec<ClientRef>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Turns so far.
    pub turns: u64,
    /// The last event's number.
    pub seq: Seq,
}

/// The whole visible state of a session, true at one event number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The session in a line.
    pub info: SessionInfo,
    /// The last items, oldest first, open ones with what has streamed so far.
    pub items: Vec<Item>,
    /// Older items exist; page to them with `session/items`.
    pub has_more: bool,
    /// The running turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
    /// Open approvals.
    pub approvals: Vec<Approval>,
    /// Open questions.
    pub questions: Vec<Question>,
    /// Prompts that wait.
    pub queue: Vec<QueuedPrompt>,
    /// Background tasks.
    pub tasks: Vec<Task>,
    /// The todo list.
    pub todos: Vec<Todo>,
    /// Images.
    pub images: Vec<Image>,
    /// Tokens and cost.
    pub usage: Usage,
    /// Who is attached.
    pub clients: Vec<ClientRef>,
    /// What it is doing.
    pub activity: Activity,
}
