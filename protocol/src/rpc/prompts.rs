//! `promptset/*`, `promptAttachment/*`, `prompt/*`: what the model reads first.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ExtensionSource;
use crate::{ids::SessionId, item::Note};

/// Parameters of `promptset/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptsetParams {
    /// As this session sees them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
}

/// Parameters of the other calls of `promptset/*`, which name one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedPromptsetParams {
    /// As this session sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Its name; `default` is the built-in one.
    pub name: String,
}

/// Result of `promptset/*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptsetListResult {
    /// The prompt sets.
    pub sets: Vec<Promptset>,
    /// Where each system text comes from.
    pub effective: EffectivePrompts,
    /// What was found wrong.
    pub notes: Vec<Note>,
}

/// A prompt set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Promptset {
    /// Its name: that of its directory.
    pub name: String,
    /// A name for people.
    pub title: String,
    /// What it is for.
    pub description: String,
    /// Whether it is on.
    pub enabled: bool,
    /// Whether the session was started with it.
    pub forced: bool,
}

/// Where each system text comes from: `builtIn`, `set:NAME`, `home` or `project`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EffectivePrompts {
    /// That of Work.
    pub work: String,
    /// That of Plan.
    pub plan: String,
    /// That of the reviewer.
    pub review: String,
}

/// Parameters of `promptAttachment/list`: those of a session, else of a workspace, else of the home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptAttachmentParams {
    /// As this session sees them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The workspace, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// Only those of this place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ExtensionSource>,
}

/// Parameters of the other calls of `promptAttachment/*`, which name one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedPromptAttachmentParams {
    /// As this session sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The workspace, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// Where it is, when its name is in both places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ExtensionSource>,
    /// Its name: that of its directory.
    pub name: String,
}

/// Parameters of `promptAttachment/move`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptAttachmentMoveParams {
    /// As this session sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The workspace, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// Where it is, when its name is in both places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ExtensionSource>,
    /// Its name: that of its directory.
    pub name: String,
    /// Which way.
    pub direction: Direction,
}

/// Which way a prompt attachment moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// One place nearer to the beginning.
    Up,
    /// One place nearer to the end.
    Down,
}

/// Result of `promptAttachment/*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptAttachmentListResult {
    /// The prompt attachments, in their order.
    pub attachments: Vec<PromptAttachment>,
    /// What was found wrong.
    pub notes: Vec<Note>,
}

/// A prompt attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptAttachment {
    /// Its name: that of its directory.
    pub name: String,
    /// A name for people.
    pub title: String,
    /// What it is for.
    pub description: String,
    /// Where it is.
    pub source: ExtensionSource,
    /// Whether it is on.
    pub enabled: bool,
    /// Its place; those without one come last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<i64>,
    /// Whether the session was started with it.
    pub forced: bool,
}

/// Parameters of `prompt/render`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptRenderParams {
    /// The session.
    pub session: SessionId,
    /// Which prompt.
    pub name: PromptName,
}

/// A prompt that has a file of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PromptName {
    /// The system text of Work.
    #[serde(rename = "work")]
    Work,
    /// The system text of Plan.
    #[serde(rename = "plan")]
    Plan,
    /// The system text of the reviewer.
    #[serde(rename = "review")]
    Review,
    /// What the reviewer is asked.
    #[serde(rename = "review.user")]
    ReviewUser,
    /// How a session's title is found.
    #[serde(rename = "topic")]
    Topic,
    /// The system text of a compaction.
    #[serde(rename = "compaction.system")]
    CompactionSystem,
    /// What a compaction is asked.
    #[serde(rename = "compaction.user")]
    CompactionUser,
    /// The system text of a description of an image.
    #[serde(rename = "image.system")]
    ImageSystem,
    /// What is asked about an image.
    #[serde(rename = "image.user")]
    ImageUser,
}

/// Result of `prompt/render`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptRenderResult {
    /// The text as it would be sent now.
    pub text: String,
    /// What it was composed of: files, attachments, plugins, `builtIn`.
    pub sources: Vec<String>,
    /// Placeholders that nothing filled.
    pub unresolved: Vec<String>,
}
