//! Spans: the typed pieces of a user message.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One typed piece of a user message. Text that merely looks like an image marker stays text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Span {
    /// Plain text.
    Text {
        /// The text itself.
        text: String,
    },
    /// An image of the session, by its number.
    Image {
        /// The number that `image/attach` or `image/reserve` gave.
        number: u32,
    },
    /// A file of the workspace that the user points at.
    File {
        /// Path, relative to the workspace or absolute.
        path: String,
        /// Lines of interest; absent means the whole file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<LineRange>,
    },
}

/// A range of lines, 1-based, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LineRange {
    /// First line.
    pub start: u64,
    /// Last line.
    pub end: u64,
}

/// The spans as one text: what a text-only reader sees. An image is `[Image #N]`, a file `@path`.
pub fn plain_text(spans: &[Span]) -> String {
    let mut out = String::new();
    for span in spans {
        match span {
            Span::Text { text } => out.push_str(text),
            Span::Image { number } => out.push_str(&format!("[Image #{number}]")),
            Span::File { path, range: None } => out.push_str(&format!("@{path}")),
            Span::File {
                path,
                range: Some(r),
            } => out.push_str(&format!("@{path}:{}-{}", r.start, r.end)),
        }
    }
    out
}

/// What spans weigh, in bytes of their texts and paths.
pub fn bytes(spans: &[Span]) -> usize {
    let of = |span: &Span| match span {
        Span::Text { text } => text.len(),
        Span::Image { .. } => 0,
        Span::File { path, .. } => path.len(),
    };
    spans.iter().map(of).sum()
}
