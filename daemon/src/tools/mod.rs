//! Built-in tools: one file and one line in `BUILT_INS` each.
//!
//! A call has two steps. [`BuiltIn::plan`] looks at the arguments and the file system and says what the call would do:
//! its risk, how far it reaches, what to show a person. Nothing is changed. After the decision [`BuiltIn::run`] gets the
//! same plan back, so that what was approved is what runs: the paths in it are resolved, and opening one that leads
//! elsewhere by then fails.
//!
//! A tool that fails returns a [`ToolOutput`] that says so in plain English for the model; it never ends a turn.

pub mod bash;
pub mod call;
pub mod change;
pub mod credentials;
pub mod diff;
pub mod edit;
pub mod environment;
pub mod fence;
pub mod glob;
pub mod grep;
pub mod handle;
pub mod lines;
pub mod list;
pub mod nearest;
pub mod output;
pub mod read;
pub mod registry;
pub mod replace;
pub mod text_file;
pub mod walk;
pub mod write;

#[cfg(test)]
mod test_place;

use std::sync::Arc;

use async_trait::async_trait;
use crystal_protocol::session::Mode;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

pub use call::{FileVersion, FileVersions, ToolContext, Workspace};
pub use output::{ToolOutput, ToolStatus};

pub use crate::terms::{Effects, ResolvedPath};

/// A built-in tool with typed arguments.
#[async_trait]
pub trait BuiltIn: Send + Sync + 'static {
    /// Its arguments; their JSON Schema is what the model sees and what a call is validated against.
    type Args: DeserializeOwned + JsonSchema + Send + Sync;

    /// Its name, reserved for ever.
    const NAME: &'static str;
    /// A name for people.
    const TITLE: &'static str;
    /// What the model reads about it.
    const DESCRIPTION: &'static str;
    /// In which modes it is there.
    const CATALOGS: &'static [Mode];

    /// Says what the call would do. Changes nothing.
    ///
    /// # Errors
    /// The failed output for the model, when the call cannot be made sense of.
    async fn plan(&self, args: &Self::Args, cx: &ToolContext) -> Result<Effects, ToolOutput>;

    /// Does it. Must end soon after `cx.cancel` fires and leave nothing half done.
    async fn run(&self, args: Self::Args, effects: &Effects, cx: &ToolContext) -> ToolOutput;
}

/// A tool as the engine holds it, its arguments still JSON.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;
    /// A name for people.
    fn title(&self) -> &str;
    /// What the model reads about it.
    fn description(&self) -> &str;
    /// JSON Schema (draft 2020-12) of its arguments.
    fn schema(&self) -> &serde_json::Value;
    /// In which modes it is there.
    fn catalogs(&self) -> &[Mode];
    /// Validates the arguments and says what the call would do.
    ///
    /// # Errors
    /// The failed output for the model; for bad arguments it names the field.
    async fn plan(
        &self,
        arguments: &serde_json::Value,
        cx: &ToolContext,
    ) -> Result<Effects, ToolOutput>;
    /// Does it.
    async fn run(
        &self,
        arguments: serde_json::Value,
        effects: &Effects,
        cx: &ToolContext,
    ) -> ToolOutput;
}

/// The tools of the daemon, by name, in catalog order.
pub type ToolList = Arc<[Arc<dyn Tool>]>;
