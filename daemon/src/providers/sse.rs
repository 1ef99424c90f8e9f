//! Server-sent events from a byte stream that may be cut anywhere.
//!
//! Lines are assembled as bytes and decoded one whole line at a time, so that a network chunk may end inside a character
//! or between the two halves of a CRLF. What is held is at most one event.

use std::borrow::Cow;

/// Largest event, in bytes; signatures and encrypted reasoning reach some MiB.
pub(crate) const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// One event: the `data` lines joined by line feeds, and the `event` field, empty when there was none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The `event` field.
    pub(crate) name: String,
    /// The joined `data` fields.
    pub(crate) data: String,
}

/// An event is larger than [`MAX_EVENT_BYTES`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than 8 MiB")]
pub(crate) struct EventTooLarge;

/// Assembles events from pieces of a body.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    line: Vec<u8>,
    after_cr: bool,
    started: bool,
    name: String,
    data: Option<String>,
}

impl SseParser {
    /// Takes the next bytes and appends the events that they complete.
    ///
    /// # Errors
    ///
    /// [`EventTooLarge`]; the parser is then of no further use.
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        events: &mut Vec<SseEvent>,
    ) -> Result<(), EventTooLarge> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            if bytes[0] == b'\n' {
                bytes = &bytes[1..];
            }
        }
        while let Some(end) = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            self.check(end)?;
            if self.line.is_empty() {
                self.take_line(&bytes[..end], events);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..end]);
                self.take_line(&line, events);
                line.clear();
                self.line = line;
            }
            let next = match (bytes[end], bytes.get(end + 1)) {
                (b'\r', Some(b'\n')) => end + 2,
                (b'\r', None) => {
                    self.after_cr = true;
                    end + 1
                }
                _ => end + 1,
            };
            bytes = &bytes[next..];
        }
        self.check(bytes.len())?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Ends the body: a last line without an end counts, and an event without its blank line too.
    pub(crate) fn finish(&mut self, events: &mut Vec<SseEvent>) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, events);
        }
        self.dispatch(events);
    }

    fn check(&self, more: usize) -> Result<(), EventTooLarge> {
        let held = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if held + more > MAX_EVENT_BYTES {
            return Err(EventTooLarge);
        }
        Ok(())
    }

    fn take_line(&mut self, line: &[u8], events: &mut Vec<SseEvent>) {
        let line = match line.strip_prefix(b"\xEF\xBB\xBF") {
            Some(rest) if !self.started => rest,
            _ => line,
        };
        self.started = true;
        if line.is_empty() {
            self.dispatch(events);
            return;
        }
        let (field, value) = match line.iter().position(|b| *b == b':') {
            Some(0) => return,
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match field {
            b"data" => {
                let value = String::from_utf8_lossy(value);
                match &mut self.data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(&value);
                    }
                    None => self.data = Some(Cow::into_owned(value)),
                }
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
    }

    fn dispatch(&mut self, events: &mut Vec<SseEvent>) {
        let name = std::mem::take(&mut self.name);
        if let Some(data) = self.data.take() {
            events.push(SseEvent { name, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for piece in pieces {
            parser.push(piece, &mut events).unwrap();
        }
        parser.finish(&mut events);
        events
    }

    fn data(body: &str) -> Vec<String> {
        parse(&[body.as_bytes()])
            .into_iter()
            .map(|e| e.data)
            .collect()
    }

    #[test]
    fn every_line_end_ends_a_line() {
        assert_eq!(
            data("data: a\n\ndata: b\r\n\r\ndata: c\r\rdata:d\n\n"),
            ["a", "b", "c", "d"]
        );
    }

    #[test]
    fn data_lines_join_and_one_blank_goes() {
        assert_eq!(data("data: a\ndata:  b\ndata\ndata:c\n\n"), ["a\n b\n\nc"]);
    }

    #[test]
    fn comments_ids_and_a_byte_order_mark_are_left_out() {
        assert_eq!(
            data("\u{feff}data: a\n: keep-alive\nid: 4\nretry: 1\n\n: x\n\n"),
            ["a"]
        );
    }

    #[test]
    fn an_event_that_the_end_cuts_off_is_given() {
        assert_eq!(data("data: a\n\ndata: b"), ["a", "b"]);
    }

    #[test]
    fn the_event_name_belongs_to_one_event() {
        let events = parse(&[b"event: error\ndata: a\n\ndata: b\n\nevent: x\n\ndata: c\n\n"]);
        let names: Vec<_> = events.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["error", "", ""]);
    }

    #[test]
    fn an_event_beyond_the_bound_is_refused() {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        let piece = vec![b'x'; 1024 * 1024];
        parser.push(b"data: ", &mut events).unwrap();
        let refused = (0..9).any(|_| parser.push(&piece, &mut events).is_err());
        assert!(refused && events.is_empty());
    }

    #[test]
    fn many_data_lines_are_bounded_too() {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        let line = format!("data: {}\n", "x".repeat(1024 * 1024));
        assert!((0..9).any(|_| parser.push(line.as_bytes(), &mut events).is_err()));
    }

    proptest! {
        #[test]
        fn cutting_anywhere_gives_the_same_events(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "data", ":", " ", "\n", "\r", "\r\n", "\n\n", "é😀", "a", "event: e", "data: x", "\u{feff}",
                ]),
                0..40,
            ),
            cuts in prop::collection::vec(0usize..200, 0..6),
        ) {
            let body = parts.concat();
            let whole = parse(&[body.as_bytes()]);
            let single: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
            prop_assert_eq!(&parse(&single), &whole);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(body.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&body.as_bytes()[from..cut]);
                from = cut;
            }
            pieces.push(&body.as_bytes()[from..]);
            prop_assert_eq!(parse(&pieces), whole);
        }
    }
}
