//! The records of a session's log: every fact that must survive, in the order in which it became true.
//!
//! Items and approvals are embedded as the protocol has them: both forms only ever grow by optional fields.

use std::path::PathBuf;

use crystal_protocol::{
    approval::{Approval, ApprovalMode, DecidedVia, Decision},
    client_ref::ClientRef,
    ids::{ApprovalId, ItemId, QueuedId, SessionId},
    item::{CallApproval, Item, ItemField},
    rpc::{Asking, TimeoutSetting, TurnLimits, WhenUnattended},
    session::{Mode, Thinking},
    task::Todo,
    time::Timestamp,
    turn::{QueuedPrompt, Turn, TurnCompleted, Usage},
};
use serde::{Deserialize, Serialize};

use crate::terms::{Replay, Rule};

/// One record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "record",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Record {
    /// The session was made. Always the first record.
    Created {
        /// Its id.
        id: SessionId,
        /// When.
        at: Timestamp,
        /// Its settings at first.
        settings: Settings,
    },
    /// Its settings changed.
    SettingsChanged {
        /// All of them.
        settings: Settings,
    },
    /// The options of the loaded session changed; a closed session has the default ones.
    OptionsChanged {
        /// All of them.
        options: Box<Options>,
    },
    /// Numbers below these may be in use; the next run begins here.
    Reserved {
        /// Event numbers.
        seq: u64,
        /// Numbers that ids are made of.
        id: u64,
    },
    /// The queue changed.
    QueueChanged {
        /// All of it.
        queue: Vec<QueuedPrompt>,
    },
    /// A turn began.
    TurnStarted {
        /// The turn.
        turn: Turn,
    },
    /// An item is finished.
    ItemFinished {
        /// The item.
        item: Item,
        /// The model round it belongs to, from 1; 0 for what a user or the daemon wrote.
        round: u64,
        /// What the provider wants back with this round's answer; on the last item of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replay: Option<Replay>,
    },
    /// A tool call was made whole by the model and has not finished.
    CallOpened {
        /// Its item, arguments complete, without output.
        item: Item,
        /// The model round it belongs to.
        round: u64,
    },
    /// A call's tool began to run.
    CallStarted {
        /// The item.
        item: ItemId,
        /// What it is about, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// How it was judged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<CallApproval>,
    },
    /// More of what an open item has streamed.
    Progress {
        /// The item as it was started, the first time only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started: Option<Box<Item>>,
        /// The item.
        item: ItemId,
        /// The model round it belongs to.
        round: u64,
        /// The field.
        field: ItemField,
        /// What to append.
        delta: String,
    },
    /// An open item was taken back.
    ItemDiscarded {
        /// The item.
        item: ItemId,
    },
    /// A call waits for a person. Written before it is shown.
    ApprovalOpened {
        /// What is asked.
        approval: Box<Approval>,
        /// The call's item.
        item: ItemId,
        /// What a lasting yes would cover.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<Rule>,
    },
    /// It no longer waits. Written before the answer is acknowledged.
    ApprovalDecided {
        /// How.
        decided: Decided,
    },
    /// Calls of a rule pass for the rest of the session.
    Granted {
        /// The rule.
        rule: Rule,
    },
    /// Older turns are known to the model by a summary from here on.
    Compacted {
        /// The summary's item, recorded before.
        summary: ItemId,
        /// Items from this number on stay as they are.
        kept_from: u64,
    },
    /// Tokens or cost changed.
    UsageChanged {
        /// All of it.
        usage: Usage,
    },
    /// The todo list changed.
    TodosChanged {
        /// All of it.
        todos: Vec<Todo>,
    },
    /// A turn ended.
    TurnEnded {
        /// How.
        result: TurnCompleted,
        /// The queued prompts that it took up.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        took: Vec<QueuedId>,
        /// When.
        at: Timestamp,
    },
}

/// How an approval was decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// Which approval.
    pub id: ApprovalId,
    /// What was decided.
    pub decision: Decision,
    /// By whom, where a client did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<ClientRef>,
    /// In what way.
    pub via: DecidedVia,
    /// A word for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When.
    pub at: Timestamp,
    /// The call's item.
    pub item: ItemId,
    /// Hash of what was shown when it was asked: the answer is for this and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
}

/// What a session keeps for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// Its title; empty until the first prompt or a client gives one.
    pub title: String,
    /// Where it works.
    pub workspace: PathBuf,
    /// Directories that count as workspace for reads.
    #[serde(default)]
    pub add_directories: Vec<PathBuf>,
    /// Work or plan.
    pub mode: Mode,
    /// When it asks.
    pub approval: ApprovalMode,
    /// The model's provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// How much to think.
    #[serde(default)]
    pub thinking: Thinking,
}

/// What belongs to the loaded session: kept over a crash or an idle unload, gone when it is closed, never exported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Options {
    /// Built-in tools left out.
    pub disable_tools: Vec<String>,
    /// What happens when something must be asked.
    pub asking: Asking,
    /// What happens to prompts while no controller is attached.
    pub when_unattended: WhenUnattended,
    /// Bounds on each turn.
    pub limits: TurnLimits,
    /// How long a foreground command may run, where the client said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bash_timeout: Option<TimeoutSetting>,
    /// The workspace is trusted for this session only.
    pub trusted: bool,
}
