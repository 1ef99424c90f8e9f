//! `toolset/*` and `plugin/*`: tools that are not built in.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ids::SessionId, item::Note};

/// Parameters of `toolset/list` and `plugin/list`: those of a session, else of a workspace, else of the home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolsetParams {
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The workspace, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// Only those of this place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ExtensionSource>,
}

/// Parameters of the other calls, which name one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedToolsetParams {
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The workspace, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// Its name: that of its directory.
    pub name: String,
    /// Where it is, when its name is in both places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ExtensionSource>,
}

/// Where a tool set, a plugin or a prompt attachment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ExtensionSource {
    /// In the home.
    Home,
    /// In the workspace.
    Project,
}

/// Result of `toolset/*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolsetListResult {
    /// The tool sets.
    pub toolsets: Vec<Extension>,
}

/// Result of `plugin/*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginListResult {
    /// The plugins.
    pub plugins: Vec<Extension>,
}

/// A tool set or a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Extension {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub source: ExtensionSource,
    /// Whether it is on.
    pub enabled: bool,
    /// What is wrong with it.
    pub notes: Vec<Note>,
    /// Names of its tools.
    pub tools: Vec<String>,
}

/// Result of `toolset/reload` and `plugin/reload`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReloadResult {
    /// What was found wrong.
    pub notes: Vec<Note>,
}
