//! What a tool gives back.

use crate::{limits::TOOL_OUTPUT_CHARS, stdx::truncate};

/// A tool's result: text for the model and the people who watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    /// Whether it did what was asked.
    pub status: ToolStatus,
    /// The text, at most [`TOOL_OUTPUT_CHARS`] characters.
    pub text: String,
    /// The text is shorter than what the tool produced.
    pub truncated: bool,
    /// Exit code of the process it ran.
    pub exit_code: Option<i32>,
}

/// How a tool ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolStatus {
    /// It did what was asked.
    Succeeded,
    /// It did not; the text says why.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl ToolOutput {
    /// A success; a long text is cut in the middle.
    pub fn success(text: impl AsRef<str>) -> Self {
        Self::new(ToolStatus::Succeeded, text.as_ref())
    }

    /// A failure that says what was wrong and what to do.
    pub fn failure(text: impl AsRef<str>) -> Self {
        Self::new(ToolStatus::Failed, text.as_ref())
    }

    /// A call that was stopped, with what it had given by then.
    pub fn cancelled(text: impl AsRef<str>) -> Self {
        Self::new(ToolStatus::Cancelled, text.as_ref())
    }

    fn new(status: ToolStatus, text: &str) -> Self {
        let cut = truncate::middle(text, TOOL_OUTPUT_CHARS);
        Self {
            status,
            text: cut.text,
            truncated: cut.truncated,
            exit_code: None,
        }
    }

    /// Marks the output as shorter than what was produced.
    #[must_use]
    pub fn with_truncated(mut self, truncated: bool) -> Self {
        self.truncated |= truncated;
        self
    }

    /// Adds the exit code of the process it ran.
    #[must_use]
    pub fn with_exit_code(mut self, code: Option<i32>) -> Self {
        self.exit_code = code;
        self
    }
}
