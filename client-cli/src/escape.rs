//! Text of models, tools and files made harmless for a terminal: nothing in it is a command to the terminal, and
//! nothing in it hides.

use std::{borrow::Cow, fmt::Write as _};

/// The text with control, direction and invisible characters shown as escapes; newline and tab stay, and CR LF
/// counts as a newline.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\r' && chars.peek() == Some(&'\n') {
            continue;
        }
        if !is_harmful(c) {
            out.push(c);
        } else if u32::from(c) < 0x100 {
            push(&mut out, format_args!("\\x{:02x}", u32::from(c)));
        } else {
            push(&mut out, format_args!("\\u{{{:x}}}", u32::from(c)));
        }
    }
    Cow::Owned(out)
}

/// JSON text with the same characters as escapes of JSON, so that it is the same value. Controls below U+0020 stay:
/// in JSON text they are nothing but space between tokens.
pub(crate) fn harmless_json(json: &str) -> Cow<'_, str> {
    let stays = |c: char| c < ' ' || !is_harmful(c);
    if json.chars().all(stays) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if stays(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            push(&mut out, format_args!("\\u{unit:04x}"));
        }
    }
    Cow::Owned(out)
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    if out.write_fmt(text).is_err() {
        out.push('\u{fffd}');
    }
}

fn is_harmful(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        c if c.is_control() => true,
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_directions_and_invisible_characters_are_shown() {
        let cases = [
            ("plain ünï 漢字 🙂\n\tx", "plain ünï 漢字 🙂\n\tx"),
            ("\u{1b}[2J", "\\x1b[2J"),
            ("a\u{9b}31m\u{7}", "a\\x9b31m\\x07"),
            ("x\u{202e}y\u{2066}", "x\\u{202e}y\\u{2066}"),
            ("a\u{200b}b\u{feff}", "a\\u{200b}b\\u{feff}"),
            ("one\r\ntwo\rthree", "one\ntwo\\x0dthree"),
        ];
        for (text, shown) in cases {
            assert_eq!(harmless(text), shown);
        }
    }

    #[test]
    fn json_with_hidden_characters_as_escapes_is_the_same_value() {
        let hidden = "\u{7f}\u{80}\u{9b}\u{9f}\u{ad}\u{200b}\u{200f}\u{2028}\u{202a}\u{202e}\u{2060}\u{2066}\u{2069}\u{feff}\u{e0041}";
        let value = serde_json::json!({
            hidden: [format!("\u{1b}[2J\r\n\t\\{hidden}\"ünï 漢字 🙂"), 1, null],
        });
        for json in [
            value.to_string(),
            serde_json::to_string_pretty(&value).unwrap(),
        ] {
            let shown = harmless_json(&json);
            assert!(!shown.chars().any(is_harmful), "{shown}");
            assert!(shown.contains("\\u202e") && shown.contains("\\udb40\\udc41"));
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
                value
            );
        }
        assert_eq!(harmless_json("{\"a\": \"ü\"}\r\n"), "{\"a\": \"ü\"}\r\n");
    }
}
