//! Making characters visible that could mislead a reader: controls, direction marks, zero-width characters.

/// The text with every invisible or misleading character as an escape (`\u{202e}`, `\n`): safe to show on one line.
pub fn escape_invisible(text: &str) -> String {
    escape(text, |_| false)
}

/// As [`escape_invisible`], with line breaks and tabs left as they are, for texts of many lines.
pub fn escape_invisible_lines(text: &str) -> String {
    escape(text, |c| c == '\n' || c == '\t')
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_invisible(c) && !keep(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a character has no shape of its own, or changes the order in which others are shown.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_direction_marks_and_zero_widths_become_escapes() {
        assert_eq!(
            escape_invisible("a\u{202e}b\u{200b}c\x1bd\ne"),
            "a\\u{202e}b\\u{200b}c\\u{1b}d\\ne"
        );
        assert_eq!(escape_invisible("naïve ✓"), "naïve ✓");
    }

    #[test]
    fn lines_and_tabs_stay_where_many_lines_are_shown() {
        assert_eq!(
            escape_invisible_lines("a\tb\r\n\u{2066}"),
            "a\tb\\r\n\\u{2066}"
        );
    }
}
