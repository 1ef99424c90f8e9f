//! What a call would do, as its tool says before it runs.

use std::path::{Path, PathBuf};

use crystal_protocol::approval::{Authority, Preview, Risk};

use super::Rule;

/// What a call would do.
#[derive(Clone, Debug, PartialEq)]
pub struct Effects {
    /// A short line for people: `read src/main.rs`.
    pub title: String,
    /// What it may do. `Forbidden` is refused without a question.
    pub risk: Risk,
    /// How far it reaches.
    pub authority: Authority,
    /// Why it was judged so, in an English sentence.
    pub reason: String,
    /// What will happen, in one line for the person who is asked.
    pub summary: String,
    /// What would change or run.
    pub preview: Option<Preview>,
    /// What a lasting yes would cover; without one only `once` is offered.
    pub rule: Option<Rule>,
    /// The files and directories the call names, resolved.
    pub paths: Vec<ResolvedPath>,
}

/// A path that was resolved against the workspace, links followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedPath {
    /// As the call wrote it.
    pub given: String,
    /// Absolute, free of links and `..` (those parts that exist).
    pub path: PathBuf,
    /// Whether it lies in the workspace.
    pub inside: bool,
}

impl ResolvedPath {
    /// The path as people read it: relative to the workspace where it lies inside.
    pub fn display(&self, root: &Path) -> String {
        match self.path.strip_prefix(root) {
            Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
            Ok(relative) => relative.display().to_string(),
            Err(_) => self.path.display().to_string(),
        }
    }
}
