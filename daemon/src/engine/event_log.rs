//! A session's event log: the retained window of events, each serialised once, that every client follows with a cursor.
//!
//! The session's actor is the only writer. Readers hold a position, not a queue: a slow one costs nothing but the window,
//! which is bounded in bytes. A position that falls out of the window is told so and starts afresh from a snapshot.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use crystal_protocol::{
    event::{AnyEvent, Event, SESSION_EVENT, SessionEvent},
    frame::line_of,
    ids::{ConnectionId, ItemId, Seq, SessionId},
    item::ItemField,
    limits::EVENT_WINDOW_BYTES,
    time::Timestamp,
};
use serde::Serialize;
use tokio::sync::Notify;

/// What an entry costs besides its bytes: its place, and the allocations of its line and its delta.
const ENTRY_OVERHEAD_BYTES: usize = 384;

/// A merged delta is at most so long, in bytes.
const MERGED_DELTA_BYTES: usize = 256 * 1024;

/// The event log of one session.
#[derive(Debug)]
pub struct EventLog {
    session: SessionId,
    window: Mutex<Window>,
}

#[derive(Debug)]
struct Window {
    /// Numbers are without gaps, so an entry's place follows from its number.
    entries: VecDeque<Entry>,
    bytes: usize,
    head: Seq,
    readers: Vec<(ConnectionId, Arc<Notify>)>,
    /// The first number that a client of this life of the session can have seen.
    origin: Seq,
    /// The session is over; nothing follows.
    finished: bool,
}

#[derive(Debug)]
struct Entry {
    line: Bytes,
    delta: Option<Box<Delta>>,
}

#[derive(Debug)]
struct Delta {
    item: ItemId,
    field: ItemField,
    text: String,
    skipped: Option<u64>,
    time: Timestamp,
}

impl Entry {
    fn cost(&self) -> usize {
        self.line.len()
            + self.delta.as_ref().map_or(0, |delta| delta.text.len())
            + ENTRY_OVERHEAD_BYTES
    }
}

/// What a reader got.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    /// Lines, and the number of the last event in them.
    Lines(Vec<Bytes>, Seq),
    /// Nothing new.
    UpToDate,
    /// The event after the position is no longer retained.
    FellOut,
}

/// Whether a reader wants adjacent deltas as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Every event by itself.
    Never,
    /// The reader is behind: adjacent deltas of one field become one.
    Adjacent,
}

#[derive(Serialize)]
struct Notification<'a> {
    jsonrpc: &'static str,
    method: &'static str,
    params: &'a SessionEvent,
}

/// Whence a session came to life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was just made.
    New,
    /// It was read from disk: what its clients saw before is not all kept, so nobody goes on from there.
    Disk,
}

impl EventLog {
    /// An empty log whose next event follows `head`.
    pub fn new(session: SessionId, head: Seq, origin: Origin) -> Self {
        let window = Window {
            entries: VecDeque::new(),
            bytes: 0,
            head,
            readers: Vec::new(),
            origin: match origin {
                Origin::New => head,
                Origin::Disk => head + 1,
            },
            finished: false,
        };
        Self {
            session,
            window: Mutex::new(window),
        }
    }

    /// The number of the last event.
    pub fn head(&self) -> Seq {
        self.lock().head
    }

    /// Adds the next event; `seq` must be the one after the head.
    pub fn append(&self, seq: Seq, time: Timestamp, event: Event) {
        let delta = match &event {
            Event::ItemDelta {
                item,
                field,
                delta,
                skipped,
            } => Some(Box::new(Delta {
                item: item.clone(),
                field: *field,
                text: delta.clone(),
                skipped: *skipped,
                time,
            })),
            _ => None,
        };
        let line = self.line(seq, None, time, event);
        let mut window = self.lock();
        let entry = Entry { line, delta };
        window.bytes += entry.cost();
        window.entries.push_back(entry);
        window.head = seq;
        while window.bytes > EVENT_WINDOW_BYTES && window.entries.len() > 1 {
            if let Some(oldest) = window.entries.pop_front() {
                window.bytes -= oldest.cost();
            }
        }
        for (_, reader) in &window.readers {
            reader.notify_one();
        }
    }

    /// Nothing will be added any more.
    pub fn finish(&self) {
        let mut window = self.lock();
        window.finished = true;
        for (_, reader) in &window.readers {
            reader.notify_one();
        }
    }

    /// Whether nothing will be added any more.
    pub fn is_finished(&self) -> bool {
        self.lock().finished
    }

    /// Whether a client that has seen `after` can go on from there: it saw it in this life of the session, and what came
    /// after it is retained.
    pub fn retains_after(&self, after: Seq) -> bool {
        let window = self.lock();
        let before_window = window.head - window.entries.len() as u64;
        (window.origin..=window.head).contains(&after) && after >= before_window
    }

    /// Lets a reader be woken when an event is added.
    pub fn follow(&self, connection: ConnectionId, wake: Arc<Notify>) {
        let mut window = self.lock();
        window.readers.retain(|(other, _)| *other != connection);
        window.readers.push((connection, wake));
    }

    /// Ends it.
    pub fn unfollow(&self, connection: &ConnectionId) {
        self.lock().readers.retain(|(other, _)| other != connection);
    }

    /// The events after a position, about `max_bytes` of them.
    pub fn read(&self, after: Seq, max_bytes: usize, merge: Merge) -> Read {
        let window = self.lock();
        if after >= window.head {
            return Read::UpToDate;
        }
        let first = window.head + 1 - window.entries.len() as u64;
        if after + 1 < first {
            return Read::FellOut;
        }
        let mut lines = Vec::new();
        let mut bytes = 0;
        let mut place = usize::try_from(after + 1 - first).unwrap_or(usize::MAX);
        while bytes < max_bytes
            && let Some(entry) = window.entries.get(place)
        {
            let run = if merge == Merge::Adjacent {
                run_length(&window.entries, place)
            } else {
                1
            };
            let line = if run > 1 {
                self.merged(
                    first + place as u64,
                    window.entries.range(place..place + run),
                )
            } else {
                entry.line.clone()
            };
            bytes += line.len();
            lines.push(line);
            place += run;
        }
        Read::Lines(lines, first + place as u64 - 1)
    }

    fn merged<'a>(&self, first_seq: Seq, entries: impl Iterator<Item = &'a Entry>) -> Bytes {
        let mut merged: Option<(Seq, Delta)> = None;
        for (entry, seq) in entries.zip(first_seq..) {
            let Some(delta) = &entry.delta else { continue };
            match &mut merged {
                Some((last, all)) => {
                    *last = seq;
                    all.text.push_str(&delta.text);
                    all.time = delta.time;
                    if let Some(skipped) = delta.skipped {
                        *all.skipped.get_or_insert_default() += skipped;
                    }
                }
                None => {
                    merged = Some((
                        seq,
                        Delta {
                            item: delta.item.clone(),
                            field: delta.field,
                            text: delta.text.clone(),
                            skipped: delta.skipped,
                            time: delta.time,
                        },
                    ));
                }
            }
        }
        let Some((seq, delta)) = merged else {
            return Bytes::new();
        };
        let event = Event::ItemDelta {
            item: delta.item,
            field: delta.field,
            delta: delta.text,
            skipped: delta.skipped,
        };
        self.line(seq, Some(first_seq), delta.time, event)
    }

    fn line(&self, seq: Seq, first_seq: Option<Seq>, time: Timestamp, event: Event) -> Bytes {
        let params = SessionEvent {
            session: self.session.clone(),
            seq,
            first_seq,
            time,
            event: AnyEvent::Known(event),
        };
        let notification = Notification {
            jsonrpc: "2.0",
            method: SESSION_EVENT,
            params: &params,
        };
        match serde_json::to_vec(&notification) {
            Ok(json) => line_of(&json),
            Err(error) => {
                // Events hold strings, numbers and string-keyed maps only, which always serialise.
                tracing::error!(%error, "an event could not be serialised");
                Bytes::new()
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many entries from `place` on are deltas of one field, within the bound on a merged one.
fn run_length(entries: &VecDeque<Entry>, place: usize) -> usize {
    let Some(first) = entries.get(place).and_then(|entry| entry.delta.as_ref()) else {
        return 1;
    };
    let mut bytes = 0;
    entries
        .range(place..)
        .take_while(|entry| {
            entry.delta.as_ref().is_some_and(|delta| {
                bytes += delta.text.len();
                delta.item == first.item
                    && delta.field == first.field
                    && bytes <= MERGED_DELTA_BYTES
            })
        })
        .count()
        .max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn delta(item: u8, text: &str) -> Event {
        Event::ItemDelta {
            item: ItemId::new(format!("i{item}")),
            field: ItemField::Text,
            delta: text.to_owned(),
            skipped: None,
        }
    }

    fn parse(line: &Bytes) -> SessionEvent {
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        serde_json::from_value(value["params"].clone()).unwrap()
    }

    #[test]
    fn a_position_before_the_window_has_fallen_out() {
        let log = EventLog::new(SessionId::new("s"), 0, Origin::New);
        let big = "x".repeat(1024 * 1024);
        for seq in 1..=40 {
            log.append(seq, Timestamp::from_millis(0), delta(1, &big));
        }
        assert_eq!(log.read(0, 1, Merge::Never), Read::FellOut);
        assert!(!log.retains_after(0));
        assert!(log.retains_after(40));
        assert!(!log.retains_after(41));
        assert_eq!(log.read(40, 1, Merge::Never), Read::UpToDate);
        assert!(
            matches!(log.read(39, 1, Merge::Never), Read::Lines(lines, 40) if lines.len() == 1)
        );
    }

    #[test]
    fn nobody_goes_on_from_what_was_seen_before_the_session_was_read_from_disk() {
        let log = EventLog::new(SessionId::new("s"), 7, Origin::Disk);
        assert!(!log.retains_after(7));
        log.append(8, Timestamp::from_millis(0), delta(1, "x"));
        assert!(!log.retains_after(7));
        assert!(log.retains_after(8));
        assert!(EventLog::new(SessionId::new("s"), 7, Origin::New).retains_after(7));
    }

    proptest! {
        #[test]
        fn merged_and_single_events_fold_to_the_same_text_and_cover_every_number(
            deltas in prop::collection::vec((0u8..3, "[a-z]{0,8}"), 1..60),
            sizes in prop::collection::vec((1usize..600, any::<bool>()), 1..60),
        ) {
            let log = EventLog::new(SessionId::new("s"), 10, Origin::New);
            let mut expected = std::collections::BTreeMap::<String, String>::new();
            for (n, (item, text)) in deltas.iter().enumerate() {
                log.append(11 + n as u64, Timestamp::from_millis(0), delta(*item, text));
                expected.entry(format!("i{item}")).or_default().push_str(text);
            }
            let mut got = std::collections::BTreeMap::<String, String>::new();
            let mut after = 10;
            let mut sizes = sizes.iter().cycle();
            loop {
                let (size, merge) = sizes.next().unwrap();
                let merge = if *merge { Merge::Adjacent } else { Merge::Never };
                match log.read(after, *size, merge) {
                    Read::Lines(lines, last) => {
                        for line in &lines {
                            let event = parse(line);
                            prop_assert_eq!(event.first_seq.unwrap_or(event.seq), after + 1);
                            after = event.seq;
                            let AnyEvent::Known(Event::ItemDelta { item, delta, .. }) = event.event else { panic!() };
                            got.entry(item.to_string()).or_default().push_str(&delta);
                        }
                        prop_assert_eq!(after, last);
                    }
                    Read::UpToDate => break,
                    Read::FellOut => prop_assert!(false),
                }
            }
            prop_assert_eq!(got, expected);
        }
    }
}
