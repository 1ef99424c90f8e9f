//! Cutting long texts: whole characters only, and the cut says what is missing.

/// A text that may have been cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The text, with a line that says how much is missing where it was cut.
    pub text: String,
    /// Whether anything is missing.
    pub truncated: bool,
}

/// Keeps the head and the tail of a text of more than `max_chars` characters.
pub fn middle(text: &str, max_chars: usize) -> Cut {
    // Bytes are never fewer than characters, so most texts need no counting.
    if text.len() <= max_chars {
        return Cut {
            text: text.to_owned(),
            truncated: false,
        };
    }
    let total = text.chars().count();
    if total <= max_chars {
        return Cut {
            text: text.to_owned(),
            truncated: false,
        };
    }
    let head_chars = max_chars / 2;
    let tail_chars = max_chars - head_chars;
    let head_end = text
        .char_indices()
        .nth(head_chars)
        .map_or(text.len(), |(at, _)| at);
    let tail_start = text
        .char_indices()
        .nth(total - tail_chars)
        .map_or(0, |(at, _)| at);
    let missing = total - max_chars;
    Cut {
        text: format!(
            "{}\n[... {missing} characters left out ...]\n{}",
            &text[..head_end],
            &text[tail_start..]
        ),
        truncated: true,
    }
}

/// The end of a text, at most `max_bytes` bytes, beginning at a character.
pub fn tail_bytes(text: &str, max_bytes: usize) -> &str {
    if text.len() <= max_bytes {
        return text;
    }
    let mut start = text.len() - max_bytes;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// The beginning of a text, at most `max_chars` characters, on one line; an ellipsis where it was cut.
pub fn one_line(text: &str, max_chars: usize) -> String {
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    match line.char_indices().nth(max_chars) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_goes_and_the_cut_counts_characters() {
        let cut = middle(&"é".repeat(10), 4);
        assert_eq!(cut.text, "éé\n[... 6 characters left out ...]\néé");
        assert!(cut.truncated);
        assert!(!middle("short", 5).truncated);
    }

    #[test]
    fn a_tail_never_begins_inside_a_character() {
        assert_eq!(tail_bytes("aéb", 2), "b");
        assert_eq!(tail_bytes("aéb", 3), "éb");
    }
}
