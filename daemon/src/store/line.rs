//! One line of a log: eight hex digits of the CRC-32 of the JSON, a space, the JSON, a newline.

use std::{
    borrow::Cow,
    fmt,
    io::{self, BufRead, BufReader, Read},
};

use serde::{
    Deserialize,
    de::{self, value::MapDeserializer},
};

use super::record::Record;

/// Longest line that is read, in bytes: the largest message with room for its embedding. Longer ones are damage.
const LINE_BYTES: usize = 80 * 1024 * 1024;

/// The checksum and the space.
const PREFIX_BYTES: usize = 9;

const READ_BUFFER_BYTES: usize = 128 * 1024;

/// Appends a record's line.
///
/// # Errors
/// When the record has no JSON form; `out` is as it was.
pub fn encode(record: &Record, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    let begin = out.len();
    out.extend_from_slice(b"00000000 ");
    if let Err(error) = serde_json::to_writer(&mut *out, record) {
        out.truncate(begin);
        return Err(error);
    }
    let sum = crc32fast::hash(&out[begin + PREFIX_BYTES..]);
    out[begin..begin + PREFIX_BYTES - 1].copy_from_slice(format!("{sum:08x}").as_bytes());
    out.push(b'\n');
    Ok(())
}

/// What a line holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// A record.
    Record(Box<Record>),
    /// Nothing.
    Empty,
    /// A kind of record that a later minor version brought; whole, to be passed over.
    UnknownKind,
    /// A whole record of a known kind in a form that this version cannot read; the text says why.
    UnknownForm(String),
    /// The checksum does not fit.
    Damaged,
}

/// Reads a line, with or without its newline.
pub fn decode(line: &[u8]) -> Line {
    if line.trim_ascii().is_empty() {
        return Line::Empty;
    }
    let Some(json) = checked_json(line) else {
        return Line::Damaged;
    };
    match serde_json::from_slice(json) {
        Ok(record) => Line::Record(Box::new(record)),
        Err(error) => match serde_json::from_slice::<Tag<'_>>(json) {
            Ok(tag) if !is_known(&tag.record) => Line::UnknownKind,
            _ => Line::UnknownForm(error.to_string()),
        },
    }
}

/// The JSON of a line whose checksum fits.
pub(super) fn checked_json(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let (prefix, json) = line.split_at_checked(PREFIX_BYTES)?;
    let digits = prefix.strip_suffix(b" ")?;
    let lower_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if !digits.iter().all(lower_hex) {
        return None;
    }
    let sum = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (crc32fast::hash(json) == sum).then_some(json)
}

/// Whether a line may hold a finished item; a guess by its first bytes that never says no to one.
pub(super) fn may_be_item(line: &[u8]) -> bool {
    let json = line.get(PREFIX_BYTES..).unwrap_or_default();
    match json.strip_prefix(br#"{"record":""#) {
        Some(tag) => tag.starts_with(br#"itemFinished""#),
        None => true,
    }
}

#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(borrow)]
    record: Cow<'a, str>,
}

/// Asks serde itself, so that no second list of the kinds exists: with nothing but its tag, a known kind lacks fields,
/// an unknown one is an unknown variant.
fn is_known(tag: &str) -> bool {
    let only_tag = MapDeserializer::new(std::iter::once(("record", tag)));
    match Record::deserialize(only_tag) {
        Ok(_) | Err(TagError::Other) => true,
        Err(TagError::UnknownVariant) => false,
    }
}

#[derive(Debug)]
enum TagError {
    UnknownVariant,
    Other,
}

impl fmt::Display for TagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for TagError {}

impl de::Error for TagError {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Other
    }

    fn unknown_variant(_: &str, _: &'static [&'static str]) -> Self {
        Self::UnknownVariant
    }
}

/// Reads lines in order and holds one at a time.
pub(super) struct LineReader<R> {
    inner: BufReader<R>,
    offset: u64,
    line: Vec<u8>,
}

/// A line and where it stands.
pub(super) struct Located<'a> {
    /// Its bytes; cut when it is longer than any record.
    pub(super) bytes: &'a [u8],
    /// Where it begins.
    pub(super) offset: u64,
    /// Where the next one begins.
    pub(super) end: u64,
    /// It is not as long as it was meant to be, or longer than any record.
    pub(super) shape: Shape,
}

/// How a line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// With a newline.
    Whole,
    /// With the file.
    Unterminated,
    /// Beyond the bound.
    TooLong,
}

impl<R: Read> LineReader<R> {
    /// Reads from a source that stands at `offset`.
    pub(super) fn new(source: R, offset: u64) -> Self {
        Self {
            inner: BufReader::with_capacity(READ_BUFFER_BYTES, source),
            offset,
            line: Vec::new(),
        }
    }

    /// The next line.
    pub(super) fn next_line(&mut self) -> io::Result<Option<Located<'_>>> {
        self.line.clear();
        let offset = self.offset;
        let mut shape = self.read_piece()?;
        if self.offset == offset {
            return Ok(None);
        }
        if shape == Shape::TooLong {
            loop {
                self.line.clear();
                let before = self.offset;
                let piece = self.read_piece()?;
                if piece != Shape::TooLong || self.offset == before {
                    break;
                }
            }
            shape = Shape::TooLong;
            self.line = Vec::new();
        }
        Ok(Some(Located {
            bytes: &self.line,
            offset,
            end: self.offset,
            shape,
        }))
    }

    fn read_piece(&mut self) -> io::Result<Shape> {
        let count = (&mut self.inner)
            .take(LINE_BYTES as u64)
            .read_until(b'\n', &mut self.line)?;
        self.offset += count as u64;
        Ok(if self.line.last() == Some(&b'\n') {
            Shape::Whole
        } else if count == LINE_BYTES {
            Shape::TooLong
        } else {
            Shape::Unterminated
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(json: &str) -> Vec<u8> {
        format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).into_bytes()
    }

    #[test]
    fn a_record_comes_back_from_its_line() {
        let record = Record::Reserved {
            seq: 4097,
            id: 4097,
        };
        let mut line = Vec::new();
        encode(&record, &mut line).unwrap();
        assert_eq!(
            line,
            line_of(r#"{"record":"reserved","seq":4097,"id":4097}"#)
        );
        assert_eq!(decode(&line), Line::Record(Box::new(record)));
    }

    #[test]
    fn a_kind_of_a_later_version_is_told_from_damage_and_from_an_unknown_form() {
        assert_eq!(
            decode(&line_of(r#"{"record":"somethingLater","x":1}"#)),
            Line::UnknownKind
        );
        assert!(matches!(
            decode(&line_of(r#"{"record":"reserved","seq":"many"}"#)),
            Line::UnknownForm(_)
        ));
        assert_eq!(decode(b"00000000 {}\n"), Line::Damaged);
        assert_eq!(decode(b"short\n"), Line::Damaged);
        assert_eq!(decode(b"\n"), Line::Empty);
    }

    #[test]
    fn any_flipped_bit_is_damage() {
        let mut line = Vec::new();
        encode(&Record::Reserved { seq: 1, id: 2 }, &mut line).unwrap();
        for bit in 0..(line.len() - 1) * 8 {
            let mut flipped = line.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&flipped), Line::Damaged, "bit {bit}");
        }
    }
}
