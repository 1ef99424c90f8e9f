//! `tool/*`, `model/*`, `workspace/*`, `todo/*`, `usage/*`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    ids::SessionId,
    item::ToolCallStatus,
    session::{Mode, Thinking},
    task::Todo,
    turn::Usage,
};

/// Result of `tool/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolListResult {
    /// The tools, in the order the model sees them.
    pub tools: Vec<ToolInfo>,
}

/// A tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// A name for people.
    pub title: String,
    /// What the model reads about it.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
    /// Where it comes from.
    pub source: ToolSource,
    /// In which modes it is there.
    pub catalogs: Vec<Mode>,
}

/// Where a tool comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ToolSource {
    /// Crystal itself.
    BuiltIn,
    /// A plugin.
    Plugin,
    /// An exec tool set.
    External,
}

/// Parameters of `tool/call`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallParams {
    /// The session; it must be idle.
    pub session: SessionId,
    /// The tool.
    pub name: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// Result of `tool/call`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallResult {
    /// `succeeded`, `failed`, `rejected` or `cancelled`.
    pub status: ToolCallStatus,
    /// What it gave back.
    pub output: String,
    /// Numbers of the images it gave.
    pub images: Vec<u32>,
    /// Exit code of the process it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
}

/// Result of `model/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelListResult {
    /// The models of the catalog.
    pub models: Vec<ModelInfo>,
}

/// A model of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    /// Its provider.
    pub provider: String,
    /// Its name.
    pub model: String,
    /// Size of its context window, in tokens.
    pub context_window: u64,
    /// Whether it takes images.
    pub image_input: bool,
    /// The thinking gears it has.
    pub thinking: Vec<Thinking>,
    /// Whether its key, if it needs one, was found.
    pub key_present: bool,
}

/// Parameters of `workspace/*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceParams {
    /// The directory, absolute.
    pub workspace: PathBuf,
}

/// Result of `workspace/*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTrustResult {
    /// The directory that trust is about: the git root, or the directory itself.
    pub root: String,
    /// Whether it is trusted.
    pub trusted: bool,
}

/// Result of `todo/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TodoListResult {
    /// All of it.
    pub todos: Vec<Todo>,
}

/// Result of `usage/get`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageGetResult {
    /// Tokens and cost.
    pub usage: Usage,
}
