//! Replacing text in the bytes of a file, and nothing beside it.
//!
//! The search runs on bytes, so whatever the file holds elsewhere (invalid text, mixed line ends, a byte order mark)
//! stays. A `\n` in what is searched stands for a line end of either kind, since `read` shows both alike. Of what is
//! replaced only the part that differs is written, and a `\n` in it becomes the line end that is in use there.

use std::ops::Range;

use super::text_file::Encoding;

/// What replacing gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The bytes of the whole file.
    pub bytes: Vec<u8>,
    /// How often the text was replaced.
    pub count: usize,
}

/// How many places are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// Exactly one.
    One,
    /// Each, at least one.
    All,
}

/// Why nothing was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplaceFault {
    /// The text does not occur.
    NoMatch,
    /// It occurs more than once: the line numbers, 1-based.
    Several(Vec<usize>),
    /// The file would be as it is.
    NoChange,
}

/// Replaces `old` by `new` in the bytes of a file.
///
/// # Errors
/// Says why nothing was replaced. `old` must not be empty; an empty one never occurs.
pub fn replace(
    bytes: &[u8],
    old: &str,
    new: &str,
    places: Places,
) -> Result<Replaced, ReplaceFault> {
    let text = Text::new(bytes);
    let change = TextChange::new(text.encoding, old, new);
    let found = text.find(&change, places);
    match (places, found.len()) {
        (_, 0) => return Err(ReplaceFault::NoMatch),
        (Places::One, 2..) => {
            return Err(ReplaceFault::Several(
                found
                    .iter()
                    .map(|found| text.line_of(found.start))
                    .collect(),
            ));
        }
        _ => {}
    }
    let mut result = Vec::with_capacity(bytes.len());
    let mut copied = 0;
    for found in &found {
        result.extend_from_slice(&bytes[copied..found.edited.start]);
        for token in &change.inserted {
            match token {
                Piece::Bytes(bytes) => result.extend_from_slice(bytes),
                Piece::LineEnd if change.adapts => {
                    result.extend_from_slice(text.line_end_at(&found.edited))
                }
                Piece::LineEnd => result.extend_from_slice(&text.lf),
            }
        }
        copied = found.edited.end;
    }
    result.extend_from_slice(&bytes[copied..]);
    if result == bytes {
        return Err(ReplaceFault::NoChange);
    }
    Ok(Replaced {
        bytes: result,
        count: found.len(),
    })
}

/// A part of a text as it lies in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Bytes(Vec<u8>),
    LineEnd,
}

/// What is searched, in the part that stays before, the part that goes and the part that stays after; and what comes.
struct TextChange {
    before: Vec<Piece>,
    removed: Vec<Piece>,
    after: Vec<Piece>,
    inserted: Vec<Piece>,
    /// Line ends of what comes are made like those around.
    adapts: bool,
}

impl TextChange {
    fn new(encoding: Encoding, old: &str, new: &str) -> Self {
        let (old_tokens, new_tokens) = (tokens(old), tokens(new));
        let shared =
            |one: &mut dyn Iterator<Item = (&&str, &&str)>| one.take_while(|(a, b)| a == b).count();
        let before = shared(&mut old_tokens.iter().zip(&new_tokens));
        let after = shared(
            &mut old_tokens[before..]
                .iter()
                .rev()
                .zip(new_tokens[before..].iter().rev()),
        );
        let old_end = old_tokens.len() - after;
        let new_end = new_tokens.len() - after;
        Self {
            before: pieces(encoding, &old_tokens[..before]),
            removed: pieces(encoding, &old_tokens[before..old_end]),
            after: pieces(encoding, &old_tokens[old_end..]),
            inserted: pieces(encoding, &new_tokens[before..new_end]),
            // Whoever writes CRLF where it is looked for means the difference.
            adapts: !old.contains("\r\n"),
        }
    }

    fn begins_with_line_end(&self) -> bool {
        [&self.before, &self.removed, &self.after]
            .into_iter()
            .find_map(|pieces| pieces.first())
            == Some(&Piece::LineEnd)
    }
}

/// Characters, CRLF being one.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = if rest.starts_with("\r\n") {
            2
        } else {
            c.len_utf8()
        };
        let (token, tail) = rest.split_at(len);
        tokens.push(token);
        rest = tail;
    }
    tokens
}

fn pieces(encoding: Encoding, tokens: &[&str]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for run in tokens.chunk_by(|a, b| (*a == "\n") == (*b == "\n")) {
        if run.first() == Some(&"\n") {
            pieces.extend(run.iter().map(|_| Piece::LineEnd));
        } else {
            pieces.push(Piece::Bytes(encoding.encode(&run.concat())));
        }
    }
    pieces
}

/// Where a text was found: where it begins and ends, and the part that goes.
struct Found {
    start: usize,
    end: usize,
    edited: Range<usize>,
}

struct Text<'a> {
    bytes: &'a [u8],
    encoding: Encoding,
    cr: Vec<u8>,
    lf: Vec<u8>,
    crlf: Vec<u8>,
}

impl<'a> Text<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let encoding = Encoding::of(bytes);
        Self {
            bytes,
            encoding,
            cr: encoding.encode("\r"),
            lf: encoding.encode("\n"),
            crlf: encoding.encode("\r\n"),
        }
    }

    fn holds(&self, at: usize, part: &[u8]) -> bool {
        self.bytes
            .get(at..)
            .is_some_and(|rest| rest.starts_with(part))
    }

    /// For one place overlapping ones count too: they make it unclear which is meant.
    fn find(&self, change: &TextChange, places: Places) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        let unit = self.encoding.unit_bytes();
        let mut at = self.encoding.mark_bytes();
        while at < self.bytes.len() {
            match self.found_at(at, change) {
                Some(one) => {
                    at = match places {
                        Places::One => at + unit,
                        Places::All => one.end.max(at + unit),
                    };
                    found.push(one);
                }
                None => at += unit,
            }
        }
        found
    }

    fn found_at(&self, start: usize, change: &TextChange) -> Option<Found> {
        // The second half of a CRLF is no line end of its own.
        if change.begins_with_line_end()
            && start >= self.cr.len()
            && self.holds(start - self.cr.len(), &self.crlf)
        {
            return None;
        }
        let from = self.skip(start, &change.before)?;
        let to = self.skip(from, &change.removed)?;
        let end = self.skip(to, &change.after)?;
        (end > start).then_some(Found {
            start,
            end,
            edited: from..to,
        })
    }

    /// Where the pieces end if they stand at `at`.
    fn skip(&self, mut at: usize, pieces: &[Piece]) -> Option<usize> {
        for piece in pieces {
            let len = match piece {
                Piece::Bytes(bytes) if self.holds(at, bytes) => bytes.len(),
                Piece::LineEnd if self.holds(at, &self.lf) => self.lf.len(),
                Piece::LineEnd if self.holds(at, &self.crlf) => self.crlf.len(),
                _ => return None,
            };
            at += len;
        }
        Some(at)
    }

    /// The line end in use at a place: in it, else behind it, else before it.
    fn line_end_at(&self, place: &Range<usize>) -> &[u8] {
        let unit = self.encoding.unit_bytes();
        let behind = (place.start..self.bytes.len())
            .step_by(unit)
            .find(|at| self.holds(*at, &self.lf));
        let first = self.encoding.mark_bytes();
        let nearest = behind.or_else(|| {
            (first..place.start)
                .step_by(unit)
                .rev()
                .find(|at| self.holds(*at, &self.lf))
        });
        match nearest {
            Some(at) if at >= first + unit && self.holds(at - unit, &self.cr) => &self.crlf,
            _ => &self.lf,
        }
    }

    /// The 1-based line that a place is in.
    fn line_of(&self, at: usize) -> usize {
        let breaks = (self.encoding.mark_bytes()..at)
            .step_by(self.encoding.unit_bytes())
            .filter(|at| self.holds(*at, &self.lf))
            .count();
        breaks + 1
    }
}

#[cfg(test)]
#[path = "replace/tests.rs"]
mod tests;
