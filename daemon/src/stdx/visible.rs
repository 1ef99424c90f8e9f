//! Showing texts from strangers: whatever a terminal would obey or an eye would miss appears as an escape.

/// Whether a character is a control character, changes the direction of text, has no width, or is a space that looks
/// like another one.
pub fn is_invisible(character: char) -> bool {
    character.is_control()
        || (character.is_whitespace() && character != ' ')
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// The text on one line, everything invisible in it as an escape: `\n`, `\t`, `\u{202e}`.
pub fn escape_line(text: &str) -> String {
    escape(text, &[])
}

/// The text with its line breaks and tabs, everything else invisible as an escape.
pub fn escape_block(text: &str) -> String {
    escape(text, &['\n', '\t'])
}

fn escape(text: &str, kept: &[char]) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            _ if kept.contains(&character) || !is_invisible(character) => shown.push(character),
            '\n' | '\t' | '\r' => shown.extend(character.escape_default()),
            _ => shown.extend(character.escape_unicode()),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direction_changes_and_terminal_escapes_are_shown_as_escapes() {
        assert_eq!(
            escape_line("a\u{202e}b\u{1b}[2J\u{200b}\n"),
            "a\\u{202e}b\\u{1b}[2J\\u{200b}\\n"
        );
    }

    #[test]
    fn a_block_keeps_its_lines_and_readable_text_stays_as_it_is() {
        assert_eq!(escape_block("é 日本\n\tx\r"), "é 日本\n\tx\\r");
    }
}
