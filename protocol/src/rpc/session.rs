//! `session/*`.

use std::{borrow::Cow, path::PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{
    approval::ApprovalMode,
    ids::{ItemId, Seq, SessionId},
    item::{Item, ItemField, Note},
    rpc::Environment,
    session::{Mode, SessionInfo, Snapshot, Thinking},
};

/// Parameters that name a session and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionParams {
    /// Its id, or a unique prefix of at least 4 characters.
    pub session: SessionId,
}

/// A result that is a session's info.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionResult {
    /// The session.
    pub session: SessionInfo,
}

/// Parameters of `session/create`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionCreateParams {
    /// The directory to work in, absolute.
    pub workspace: PathBuf,
    /// Work unless it says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// When to ask; else as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalMode>,
    /// The model's provider; else as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model; else as configured, or the provider's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How much to think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// A title; else the beginning of the first prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Built-in tools to leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_tools: Option<Vec<String>>,
    /// A prompt set to force; only `default` exists yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_set: Option<String>,
    /// Which prompt attachments to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_attachments: Option<PromptAttachmentChoice>,
    /// Whether skills are on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<bool>,
    /// Whether external tools are on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_tools: Option<bool>,
    /// Whether plugins are on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugins: Option<bool>,
    /// How long a foreground `bash` may run; `null` or `"unlimited"` for no limit; else as configured.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub bash_timeout_seconds: Option<TimeoutSetting>,
    /// Bounds on each turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<TurnLimits>,
    /// Work in the operator's own space of the home instead of a project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<bool>,
    /// Trust the workspace: for good (`store`, `true`) or for this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// What happens when something must be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asking: Option<Asking>,
    /// What happens to prompts while no controller is attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_unattended: Option<WhenUnattended>,
    /// The environment for the session's processes; else that of the client that creates it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TimeoutSetting>, D::Error> {
    TimeoutSetting::deserialize(deserializer).map(Some)
}

/// Which prompt attachments a session uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptAttachmentChoice {
    /// Whether any are used.
    pub enabled: bool,
    /// Names to use in addition.
    #[serde(default)]
    pub names: Vec<String>,
}

/// A time limit that may be lifted: seconds, or `null` or `"unlimited"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutSetting {
    /// So many seconds, 1 to 4,294,967.
    Seconds(u32),
    /// No limit.
    Unlimited,
}

impl TimeoutSetting {
    /// Most seconds: the largest number whose milliseconds fit 32 bits.
    pub const MAX_SECONDS: u32 = 4_294_967;

    /// The limit as a duration.
    pub fn duration(self) -> Option<std::time::Duration> {
        match self {
            Self::Seconds(seconds) => Some(std::time::Duration::from_secs(u64::from(seconds))),
            Self::Unlimited => None,
        }
    }
}

impl Serialize for TimeoutSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Seconds(seconds) => serializer.serialize_u32(*seconds),
            Self::Unlimited => serializer.serialize_str("unlimited"),
        }
    }
}

impl<'de> Deserialize<'de> for TimeoutSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Wire {
            Seconds(u64),
            Word(String),
            Null(()),
        }
        let refuse = || {
            D::Error::custom(format!(
                "a time limit is a number of seconds from 1 to {}, null or \"unlimited\"",
                Self::MAX_SECONDS
            ))
        };
        match Wire::deserialize(deserializer).map_err(|_| refuse())? {
            Wire::Seconds(seconds) => match u32::try_from(seconds) {
                Ok(seconds @ 1..=Self::MAX_SECONDS) => Ok(Self::Seconds(seconds)),
                _ => Err(refuse()),
            },
            Wire::Word(word) if word == "unlimited" => Ok(Self::Unlimited),
            Wire::Word(_) => Err(refuse()),
            Wire::Null(()) => Ok(Self::Unlimited),
        }
    }
}

impl JsonSchema for TimeoutSetting {
    fn schema_name() -> Cow<'static, str> {
        "TimeoutSetting".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "integer", "minimum": 1, "maximum": Self::MAX_SECONDS},
            {"const": "unlimited"},
            {"type": "null"},
        ]})
    }
}

/// Bounds on one turn; an absent one stays as configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnLimits {
    /// Model rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// How far a client's word of trust reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// For good.
    Store,
    /// For this session; nothing is stored.
    Session,
}

impl Serialize for Trust {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Store => "store",
            Self::Session => "session",
        })
    }
}

impl<'de> Deserialize<'de> for Trust {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Wire {
            Flag(bool),
            Word(String),
        }
        match Wire::deserialize(deserializer) {
            Ok(Wire::Flag(true)) => Ok(Self::Store),
            Ok(Wire::Word(word)) if word == "store" => Ok(Self::Store),
            Ok(Wire::Word(word)) if word == "session" => Ok(Self::Session),
            _ => Err(D::Error::custom("trust is \"store\", \"session\" or true")),
        }
    }
}

impl JsonSchema for Trust {
    fn schema_name() -> Cow<'static, str> {
        "Trust".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"enum": ["store", "session", true]})
    }
}

/// What happens when something must be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Asking {
    /// It waits for a person.
    #[default]
    Wait,
    /// Approvals are denied and questions dismissed at once.
    Deny,
}

/// What happens to prompts while no controller is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WhenUnattended {
    /// They wait.
    #[default]
    Hold,
    /// They are denied at once.
    Deny,
    /// They are denied after so many milliseconds without a controller.
    DenyAfterMs(u64),
}

/// Result of `session/create` and `session/configure`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionCreateResult {
    /// The session.
    pub session: SessionInfo,
    /// What the client should tell its user.
    pub notes: Vec<Note>,
}

/// Parameters of `session/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionListParams {
    /// Only those of this workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// All of them; the same as leaving `workspace` out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
    /// At most so many; 100 unless it says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Where the last page's `next` left off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Result of `session/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionListResult {
    /// Newest first.
    pub sessions: Vec<SessionInfo>,
    /// More follow; give this as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Parameters of `session/attach`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionAttachParams {
    /// The session.
    pub session: SessionId,
    /// The last event the client has; what follows comes without a snapshot if it is still retained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Seq>,
    /// Items in the snapshot; 200 unless it says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<u64>,
}

/// Result of `session/attach`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionAttachResult {
    /// The session.
    pub session: SessionInfo,
    /// The head of the log at this moment; who has seen this number is in sync.
    pub seq: Seq,
    /// The state at `seq`, unless the events after `after` follow instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Box<Snapshot>>,
}

/// Parameters of `session/items`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionItemsParams {
    /// The session.
    pub session: SessionId,
    /// Only items before this one; else the last ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ItemId>,
    /// At most so many, 1 to 1,000; 200 unless it says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// Result of `session/items`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionItemsResult {
    /// Oldest first.
    pub items: Vec<Item>,
    /// Older ones exist.
    pub has_more: bool,
}

/// Parameters of `session/item`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionItemParams {
    /// The session.
    pub session: SessionId,
    /// The item.
    pub id: ItemId,
    /// Read this field in pieces instead of the whole item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<ItemField>,
    /// Where the piece begins, in bytes of UTF-8; moved back to the beginning of a character.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// At most so many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// Result of `session/item`: the item, or a piece of one of its fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SessionItemResult {
    /// The whole item.
    Item {
        /// The item.
        item: Box<Item>,
    },
    /// A piece of a field.
    #[serde(rename_all = "camelCase")]
    Piece {
        /// The piece.
        data: String,
        /// Where the next piece begins; absent at the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_offset: Option<u64>,
    },
}

/// Parameters of `session/configure`. While a turn runs only mode, approval, title and directories may change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionConfigureParams {
    /// The session.
    pub session: SessionId,
    /// Work or plan, from the next turn on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// When to ask, from the next call on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalMode>,
    /// The model's provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How much to think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// A title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Another directory to work in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// Directories to count as workspace for reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_directories: Option<Vec<PathBuf>>,
    /// Directories to take back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_directories: Option<Vec<PathBuf>>,
    /// Another environment for the session's processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
}
