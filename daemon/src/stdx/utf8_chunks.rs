//! Text out of a byte stream that is cut anywhere: a character is never split, invalid bytes become U+FFFD.

/// Longest character in UTF-8, in bytes.
const CHARACTER_BYTES: usize = 4;

/// Decodes one byte stream. Holds at most the first three bytes of an unfinished character.
#[derive(Debug, Default)]
pub struct Utf8Chunks {
    unfinished: Vec<u8>,
}

impl Utf8Chunks {
    /// A decoder at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// The text of the next bytes; the beginning of a character at their end waits for the rest of it.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len() + CHARACTER_BYTES);
        let mut rest = bytes;
        // Byte by byte only until the character that the last call left open is decided.
        while !self.unfinished.is_empty() {
            let Some((&next, after)) = rest.split_first() else {
                return text;
            };
            self.unfinished.push(next);
            rest = after;
            let joined = std::mem::take(&mut self.unfinished);
            self.unfinished = decode(&joined, &mut text).to_vec();
        }
        self.unfinished = decode(rest, &mut text).to_vec();
        text
    }

    /// What is left when the stream has ended: an unfinished character is invalid then.
    pub fn finish(&mut self) -> String {
        if std::mem::take(&mut self.unfinished).is_empty() {
            String::new()
        } else {
            char::REPLACEMENT_CHARACTER.to_string()
        }
    }
}

/// Appends the text of `bytes` and returns the unfinished character at their end.
fn decode<'a>(bytes: &'a [u8], text: &mut String) -> &'a [u8] {
    let mut rest = bytes;
    loop {
        match std::str::from_utf8(rest) {
            Ok(valid) => {
                text.push_str(valid);
                return &[];
            }
            Err(error) => {
                let (valid, after) = rest.split_at(error.valid_up_to());
                text.push_str(&String::from_utf8_lossy(valid));
                match error.error_len() {
                    Some(invalid) => {
                        text.push(char::REPLACEMENT_CHARACTER);
                        rest = &after[invalid..];
                    }
                    None => return after,
                }
            }
        }
    }
}

/// The text in pieces of at most `max_bytes` bytes (no less than one character), cut between characters.
pub fn pieces(text: &str, max_bytes: usize) -> impl Iterator<Item = &str> {
    let max_bytes = max_bytes.max(CHARACTER_BYTES);
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = rest.split_at(rest.floor_char_boundary(max_bytes));
        rest = after;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode_in(cuts: &[&[u8]]) -> String {
        let mut chunks = Utf8Chunks::new();
        let mut text: String = cuts.iter().map(|cut| chunks.push(cut)).collect();
        text.push_str(&chunks.finish());
        text
    }

    #[test]
    fn a_character_cut_in_two_arrives_whole() {
        let mut chunks = Utf8Chunks::new();
        assert_eq!(chunks.push(b"a\xe2\x82"), "a");
        assert_eq!(chunks.push(b"\xacb"), "€b");
        assert_eq!(chunks.finish(), "");
    }

    #[test]
    fn invalid_and_unfinished_bytes_become_replacement_characters() {
        assert_eq!(decode_in(&[b"\xffa\xe2", b"\x82"]), "\u{fffd}a\u{fffd}");
        assert_eq!(decode_in(&[b"\xe2", b"a"]), "\u{fffd}a");
    }

    proptest! {
        #[test]
        fn however_a_stream_is_cut_its_text_is_the_same(bytes: Vec<u8>, at in 0usize..64, and in 0usize..64) {
            let first = at.min(bytes.len());
            let second = (first + and).min(bytes.len());
            let cut = decode_in(&[&bytes[..first], &bytes[first..second], &bytes[second..]]);
            prop_assert_eq!(cut, String::from_utf8_lossy(&bytes).into_owned());
        }

        #[test]
        fn pieces_are_short_and_join_to_the_text(text: String, max in 4usize..20) {
            let parts: Vec<&str> = pieces(&text, max).collect();
            prop_assert!(parts.iter().all(|part| part.len() <= max && !part.is_empty()));
            prop_assert_eq!(parts.concat(), text);
        }
    }
}
