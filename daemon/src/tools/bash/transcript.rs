//! What a command printed, in bounded memory: its beginning and its end.

use crate::{limits::TOOL_OUTPUT_CHARS, stdx::truncate};

/// Characters left for the lines that say how the command ended and how much is missing.
const RESERVED_CHARS: usize = 4_000;

/// Characters kept of the beginning, and as many of the end.
const KEPT_CHARS: usize = (TOOL_OUTPUT_CHARS - RESERVED_CHARS) / 2;

/// The end of the output takes at most so many bytes before it is shortened: twice of what its characters can need, so
/// that shortening is rare.
const TAIL_BYTES: usize = 2 * 4 * KEPT_CHARS;

/// The head and the tail of a text that may be endless.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    head: String,
    head_chars: usize,
    tail: String,
    total_chars: usize,
}

impl Transcript {
    /// Appends to the text.
    pub(super) fn push(&mut self, text: &str) {
        self.total_chars += text.chars().count();
        let room = KEPT_CHARS - self.head_chars;
        let split = match room {
            0 => 0,
            _ => text
                .char_indices()
                .nth(room)
                .map_or(text.len(), |(at, _)| at),
        };
        let (head, tail) = text.split_at(split);
        self.head.push_str(head);
        self.head_chars += head.chars().count();
        self.tail.push_str(tail);
        if self.tail.len() > TAIL_BYTES {
            self.tail = truncate::tail_bytes(&self.tail, TAIL_BYTES / 2).to_owned();
        }
    }

    /// Whether anything is missing.
    pub(super) fn is_cut(&self) -> bool {
        self.total_chars > 2 * KEPT_CHARS
    }

    /// The text, with a line that says how much is missing where it was cut.
    pub(super) fn text(&self) -> String {
        if !self.is_cut() {
            return format!("{}{}", self.head, self.tail);
        }
        let missing = self.total_chars - 2 * KEPT_CHARS;
        let skipped = self.tail.chars().count().saturating_sub(KEPT_CHARS);
        let start = self
            .tail
            .char_indices()
            .nth(skipped)
            .map_or(0, |(at, _)| at);
        format!(
            "{}\n[... {missing} characters left out ...]\n{}",
            self.head,
            &self.tail[start..]
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_whole() {
        let mut transcript = Transcript::default();
        for _ in 0..2 * KEPT_CHARS {
            transcript.push("é");
        }
        assert!(!transcript.is_cut());
        assert_eq!(transcript.text(), "é".repeat(2 * KEPT_CHARS));
    }

    #[test]
    fn a_long_text_keeps_its_ends_and_counts_what_is_missing() {
        let mut transcript = Transcript::default();
        transcript.push("head");
        for _ in 0..100 {
            transcript.push(&"😀".repeat(16_000));
        }
        transcript.push("tail");
        let text = transcript.text();
        assert!(transcript.is_cut() && text.starts_with("head😀") && text.ends_with("😀tail"));
        let missing = 1_600_008 - 2 * KEPT_CHARS;
        assert!(text.contains(&format!("\n[... {missing} characters left out ...]\n")));
        assert!(text.chars().count() <= TOOL_OUTPUT_CHARS - RESERVED_CHARS + 100);
        assert!(transcript.tail.len() <= TAIL_BYTES);
    }
}
