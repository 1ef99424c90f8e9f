//! Words that session files, model wires and tools share, so that none of these must know another.

mod effects;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::stdx::visible::escape_invisible;

pub use effects::{Effects, ResolvedPath};

/// Opaque data of a provider that belongs to one answer (signatures, reasoning to send back). Only the protocol and
/// model that made it get it back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    /// The wire that made it.
    pub protocol: String,
    /// The model that made it.
    pub model: String,
    /// The data.
    pub data: Value,
}

/// What a lasting yes covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Rule {
    /// Edits and writes of files in a directory and below it.
    EditsBelow {
        /// The directory, resolved.
        directory: PathBuf,
    },
    /// Reads of files in a directory and below it.
    ReadsBelow {
        /// The directory, resolved.
        directory: PathBuf,
    },
    /// One shell command, to the letter.
    Command {
        /// Its text.
        text: String,
    },
}

impl Rule {
    /// The rule in words, as it is shown before it is given; control and invisible characters as escapes.
    pub fn in_words(&self) -> String {
        let words = match self {
            Self::EditsBelow { directory } => {
                format!("edit and write files in {} and below", directory.display())
            }
            Self::ReadsBelow { directory } => {
                format!("read files in {} and below", directory.display())
            }
            Self::Command { text } => format!("run exactly this command: {text}"),
        };
        escape_invisible(&words)
    }

    /// Whether a yes to this rule is a yes to `other` too.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::EditsBelow { directory }, Self::EditsBelow { directory: inner })
            | (Self::ReadsBelow { directory }, Self::ReadsBelow { directory: inner }) => {
                inner.starts_with(directory)
            }
            (Self::Command { text }, Self::Command { text: other }) => text == other,
            _ => false,
        }
    }
}
