//! The lines of a file one by one, in bounded memory whatever the file is like.

use std::io::{self, BufRead};

use super::text_file::Encoding;

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its text without the line end, at most as many characters as asked for.
    pub text: String,
    /// Characters that were left out at its end; for invalid text, about.
    pub cut_chars: usize,
    /// Some of it was no valid text and is shown as U+FFFD.
    pub lossy: bool,
}

/// The lines of a reader that stands behind the byte order mark.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    encoding: Encoding,
    max_chars: usize,
}

/// Longest character in UTF-8.
const MOST_CHAR_BYTES: usize = 4;

impl<R: BufRead> Lines<R> {
    /// Lines of at most `max_chars` characters.
    pub fn new(reader: R, encoding: Encoding, max_chars: usize) -> Self {
        Self {
            reader,
            encoding,
            max_chars,
        }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn next_line(&mut self) -> io::Result<Option<Line>> {
        let kept_bytes = self.max_chars * MOST_CHAR_BYTES;
        let mut kept = Vec::new();
        let mut more_chars = 0;
        let ended = match self.encoding {
            Encoding::Utf8 | Encoding::Utf8WithMark => {
                self.take_bytes(kept_bytes, &mut kept, &mut more_chars)?
            }
            Encoding::Utf16Le | Encoding::Utf16Be => {
                self.take_units(kept_bytes, &mut kept, &mut more_chars)?
            }
        };
        if ended == Ended::Nothing {
            return Ok(None);
        }
        let mut text = self.encoding.decode(&kept);
        if more_chars == 0 && text.ends_with('\r') {
            text.pop();
        }
        let lossy = text.contains(char::REPLACEMENT_CHARACTER);
        let mut cut_chars = more_chars;
        if let Some((at, _)) = text.char_indices().nth(self.max_chars) {
            cut_chars += text[at..].chars().count();
            text.truncate(at);
        }
        Ok(Some(Line {
            text,
            cut_chars,
            lossy,
        }))
    }

    fn take_bytes(
        &mut self,
        most: usize,
        kept: &mut Vec<u8>,
        more_chars: &mut usize,
    ) -> io::Result<Ended> {
        let mut ended = Ended::Nothing;
        loop {
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                return Ok(ended);
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let piece = &buffer[..end.unwrap_or(buffer.len())];
            let room = most - kept.len();
            kept.extend_from_slice(&piece[..piece.len().min(room)]);
            *more_chars += piece[piece.len().min(room)..]
                .iter()
                .filter(|byte| **byte & 0xc0 != 0x80)
                .count();
            let consumed = end.map_or(buffer.len(), |end| end + 1);
            self.reader.consume(consumed);
            ended = Ended::Something;
            if end.is_some() {
                return Ok(ended);
            }
        }
    }

    fn take_units(
        &mut self,
        most: usize,
        kept: &mut Vec<u8>,
        more_chars: &mut usize,
    ) -> io::Result<Ended> {
        let newline = self.encoding.encode("\n");
        let mut ended = Ended::Nothing;
        loop {
            let mut unit = [0; 2];
            let filled = fill(&mut self.reader, &mut unit)?;
            if filled == 0 {
                return Ok(ended);
            }
            ended = Ended::Something;
            if unit[..filled] == newline[..] {
                return Ok(ended);
            }
            if kept.len() + filled <= most {
                kept.extend_from_slice(&unit[..filled]);
            } else {
                *more_chars += 1;
            }
        }
    }
}

/// What came before the end of a line or of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Nothing,
    Something,
}

fn fill(reader: &mut impl BufRead, unit: &mut [u8; 2]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < unit.len() {
        match reader.read(&mut unit[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8], encoding: Encoding, max_chars: usize) -> Vec<Line> {
        let mut lines = Lines::new(io::BufReader::with_capacity(3, bytes), encoding, max_chars);
        std::iter::from_fn(|| lines.next_line().unwrap()).collect()
    }

    fn texts(bytes: &[u8], encoding: Encoding) -> Vec<String> {
        lines(bytes, encoding, 100)
            .into_iter()
            .map(|line| line.text)
            .collect()
    }

    #[test]
    fn line_ends_of_both_kinds_are_left_out_and_a_missing_last_one_is_fine() {
        assert_eq!(texts(b"a\r\n\nb", Encoding::Utf8), ["a", "", "b"]);
        assert_eq!(texts(b"a\n", Encoding::Utf8), ["a"]);
        assert!(texts(b"", Encoding::Utf8).is_empty());
    }

    #[test]
    fn wide_text_is_decoded_also_when_it_ends_in_half_a_unit() {
        let bytes = Encoding::Utf16Be.encode("é\r\n🎈");
        assert_eq!(texts(&bytes, Encoding::Utf16Be), ["é", "🎈"]);
        let line = &lines(b"a\0b", Encoding::Utf16Le, 9)[0];
        assert_eq!(line.text, "a\u{fffd}");
        assert!(line.lossy);
    }

    #[test]
    fn a_long_line_is_cut_and_what_is_missing_is_counted() {
        let line = &lines("é".repeat(50).as_bytes(), Encoding::Utf8, 4)[0];
        assert_eq!((line.text.as_str(), line.cut_chars), ("éééé", 46));
        let line = &lines(
            &Encoding::Utf16Le.encode(&"x".repeat(50)),
            Encoding::Utf16Le,
            4,
        )[0];
        assert_eq!((line.text.as_str(), line.cut_chars), ("xxxx", 46));
    }

    #[test]
    fn invalid_text_is_shown_and_said_so() {
        let line = &lines(b"a\xffb", Encoding::Utf8, 9)[0];
        assert_eq!(line.text, "a\u{fffd}b");
        assert!(line.lossy);
    }
}
