//! Approvals: what waits for a person's yes or no.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ids::{ApprovalId, CallId, TurnId},
    time::Timestamp,
};

/// What a call may do.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Risk {
    /// Looks at things.
    Read,
    /// Changes things.
    Write,
    /// May change more than can be seen from the call.
    Privileged,
    /// Never allowed.
    Forbidden,
}

/// How far a call reaches.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Authority {
    /// The session's workspace and nothing else.
    Workspace,
    /// Files elsewhere.
    OutsideWorkspace,
    /// The network.
    Network,
    /// Another user's rights.
    PrivilegedEscalation,
}

/// When a session asks before it runs a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalMode {
    /// Reads of the workspace pass; all else asks.
    #[default]
    Default,
    /// `edit` and `write` within the workspace pass too.
    #[serde(alias = "autoedit")]
    Edit,
    /// As `edit`; a reviewing model judges the rest.
    Review,
    /// A reviewing model judges all but reads.
    #[serde(alias = "fullreview", alias = "full-review")]
    Audit,
    /// Only what is privileged or outside the workspace asks.
    Full,
}

/// How far a yes reaches.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Grant {
    /// This call.
    Once,
    /// Calls of this rule in this session.
    Session,
    /// Calls of this rule in this workspace, for good.
    Always,
}

/// An answer to an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// Yes, this call.
    Once,
    /// Yes, and calls of the shown rule in this session.
    Session,
    /// Yes, and calls of the shown rule in this workspace for good.
    Always,
    /// No.
    Deny,
}

impl Decision {
    /// The grant that a yes stands for; `None` for a no.
    pub fn grant(self) -> Option<Grant> {
        match self {
            Self::Once => Some(Grant::Once),
            Self::Session => Some(Grant::Session),
            Self::Always => Some(Grant::Always),
            Self::Deny => None,
        }
    }
}

/// Who or what decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DecidedVia {
    /// A client's `approval/respond`.
    Client,
    /// The session's own rule for prompts (`asking`, `whenUnattended`).
    Policy,
    /// The reviewing model.
    Review,
    /// Nobody: the call went away first.
    Cancelled,
}

/// A call that waits for a decision. It belongs to the session: any controller may answer, the first answer wins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Its id, the same after a restart.
    pub id: ApprovalId,
    /// The turn it belongs to; absent for `tool/call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The call, as the tool-call item names it.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// A short line for people.
    pub title: String,
    /// The arguments as the tool will get them; a string when they are not JSON.
    pub arguments: Value,
    /// What it may do.
    pub risk: Risk,
    /// How far it reaches.
    pub authority: Authority,
    /// Why it asks.
    pub reason: String,
    /// What will happen on a yes, in one line; control and invisible characters shown as escapes.
    pub summary: String,
    /// What would change or run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
    /// The answers on offer besides `deny`.
    pub offered: Vec<Grant>,
    /// What a lasting yes would cover, in words.
    pub rules: OfferedRules,
    /// What the reviewing model said, where one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
    /// When it was opened.
    pub requested_at: Timestamp,
}

/// The rules behind the lasting answers, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferedRules {
    /// What `session` would cover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What `always` would cover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<String>,
}

/// What would change, or run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Preview {
    /// A unified diff.
    Diff {
        /// The diff text.
        diff: String,
    },
    /// A shell command in its parts.
    Commands {
        /// Each command that would run.
        commands: Vec<CommandPart>,
    },
}

/// One command of a shell text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandPart {
    /// The command's text; control and invisible characters shown as escapes.
    pub text: String,
    /// What it may do.
    pub risk: Risk,
    /// Why it was judged so.
    pub reason: String,
}

/// The reviewing model's verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// `allow`, `ask` or `deny`.
    pub outcome: String,
    /// `low`, `medium` or `high`.
    pub risk_level: String,
    /// `low`, `medium` or `high`.
    pub user_authorization: String,
    /// Its reason.
    pub rationale: String,
}
