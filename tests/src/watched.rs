//! A session as one client sees it: its events, checked and folded.

use crystal_protocol::{
    event::{Event, Resync},
    ids::Seq,
    item::Item,
    session::Snapshot,
    time::Timestamp,
};
use serde::Deserialize;
use serde_json::Value;

/// One event as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its number.
    pub seq: Seq,
    /// The first of the numbers that were merged into it; else the same.
    pub first_seq: Seq,
    /// When it happened.
    pub time: Timestamp,
    /// What happened.
    pub event: Event,
}

/// Everything one connection was told about one session since it attached.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    folded: Option<Snapshot>,
    events: Vec<Seen>,
    head: Option<Seq>,
    scanned: usize,
    resyncs: usize,
    merged: usize,
    deltas_forgotten: bool,
    closed: bool,
}

impl Watched {
    /// Begins from the answer to `session/attach`.
    pub(crate) fn begin(snapshot: Option<Snapshot>, head: Option<Seq>) -> Self {
        Self {
            folded: snapshot,
            head,
            ..Self::default()
        }
    }

    /// The snapshot with all events folded in.
    ///
    /// # Panics
    /// When there never was one.
    pub fn folded(&self) -> &Snapshot {
        self.folded.as_ref().expect("a snapshot came")
    }

    /// The events since the attach, in order.
    pub fn events(&self) -> &[Seen] {
        &self.events
    }

    /// The number of the last event that was seen, or of the snapshot.
    pub fn head(&self) -> Seq {
        self.head.unwrap_or_default()
    }

    /// How often the client was resynchronised.
    pub fn resyncs(&self) -> usize {
        self.resyncs
    }

    /// How many events stood for several.
    pub fn merged(&self) -> usize {
        self.merged
    }

    /// Whether the session ended.
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// Folds deltas without keeping them, for floods.
    pub fn forget_deltas(&mut self) {
        self.deltas_forgotten = true;
    }

    /// The next event, from the last one that this gave, that `pick` takes.
    pub(crate) fn scan<T>(&mut self, pick: &mut impl FnMut(&Event) -> Option<T>) -> Option<T> {
        while let Some(seen) = self.events.get(self.scanned) {
            self.scanned += 1;
            if let Some(found) = pick(&seen.event) {
                return Some(found);
            }
        }
        None
    }

    /// Takes the parameters of a `session/event`.
    pub(crate) fn take_event(&mut self, mut params: Value) {
        let number = |name: &str| params.get(name).and_then(Value::as_u64);
        let seq = number("seq").expect("an event has a seq");
        let first_seq = number("firstSeq").unwrap_or(seq);
        let time = Timestamp::deserialize(&params["time"]).expect("an event has a time");
        let event = Event::deserialize(params["event"].take())
            .unwrap_or_else(|error| panic!("event {seq} is of no known form: {error}"));
        if let Some(head) = self.head {
            assert_eq!(first_seq, head + 1, "events follow each other: {event:?}");
        }
        assert!(first_seq <= seq, "a merged event ends after it begins");
        assert!(!self.closed, "an event came after sessionClosed: {event:?}");
        if first_seq != seq {
            self.merged += 1;
            assert!(
                matches!(event, Event::ItemDelta { .. } | Event::TaskOutput { .. }),
                "only deltas are merged: {event:?}"
            );
        }
        self.head = Some(seq);
        if let Some(folded) = &mut self.folded {
            folded.apply(seq, time, &event);
        }
        self.closed |= matches!(event, Event::SessionClosed { .. });
        if self.deltas_forgotten && matches!(event, Event::ItemDelta { .. }) {
            return;
        }
        self.events.push(Seen {
            seq,
            first_seq,
            time,
            event,
        });
    }

    /// Takes the parameters of a `session/resync`.
    pub(crate) fn take_resync(&mut self, params: Value) {
        let resync: Resync = serde_json::from_value(params).expect("a resync is well formed");
        assert!(!resync.reason.is_empty(), "a resync says why");
        assert!(
            Some(resync.seq) > self.head,
            "a resync goes forward: {} after {:?}",
            resync.seq,
            self.head
        );
        assert_eq!(resync.snapshot.info.seq, resync.seq, "true at its seq");
        self.head = Some(resync.seq);
        self.folded = Some(*resync.snapshot);
        self.resyncs += 1;
    }
}

/// Events as anyone sees them, however far behind: adjacent deltas of one field as one, under their last number.
pub fn essence(events: &[Seen]) -> Vec<(Seq, Event)> {
    let mut out: Vec<(Seq, Event)> = Vec::new();
    for seen in events {
        if let Event::ItemDelta {
            item, field, delta, ..
        } = &seen.event
            && let Some((
                seq,
                Event::ItemDelta {
                    item: i,
                    field: f,
                    delta: text,
                    ..
                },
            )) = out.last_mut()
            && (&*i, &*f) == (item, field)
        {
            text.push_str(delta);
            *seq = seen.seq;
            continue;
        }
        out.push((seen.seq, seen.event.clone()));
    }
    out
}

/// Fails unless two snapshots are the same on the wire.
///
/// # Panics
/// When they differ; says where.
pub fn assert_same_snapshot(folded: &Snapshot, fresh: &Snapshot) {
    let mut folded = folded.clone();
    // A fresh snapshot shows the last items only.
    if fresh.has_more && folded.items.len() >= fresh.items.len() {
        folded.items.drain(..folded.items.len() - fresh.items.len());
        folded.has_more = true;
    }
    for (mine, theirs) in folded.items.iter_mut().zip(&fresh.items) {
        cut_alike(mine, theirs);
    }
    let folded = serde_json::to_value(folded).expect("a snapshot can be written");
    let fresh = serde_json::to_value(fresh).expect("a snapshot can be written");
    let mut differences = Vec::new();
    compare("", &folded, &fresh, &mut differences);
    assert!(
        differences.is_empty(),
        "the folded snapshot is not the fresh one:\n{}",
        differences.join("\n")
    );
}

/// A snapshot shows the end of a long field only; the one who watched it grow holds all of it.
fn cut_alike(mine: &mut Item, theirs: &Item) {
    let (None, Some(cut)) = (&mine.cut, &theirs.cut) else {
        return;
    };
    for (field, total) in cut {
        let shown = theirs.field(*field).map_or(0, str::len);
        let Some(whole) = mine.field_mut(*field) else {
            continue;
        };
        if whole.len() as u64 == *total {
            *whole = whole.split_off(whole.len() - shown);
        }
    }
    mine.cut = Some(cut.clone());
}

fn compare(place: &str, folded: &Value, fresh: &Value, differences: &mut Vec<String>) {
    match (folded, fresh) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let field = |map: &serde_json::Map<String, Value>| map.get(name).cloned();
                let (a, b) = (field(a).unwrap_or_default(), field(b).unwrap_or_default());
                compare(&format!("{place}/{name}"), &a, &b, differences);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{place}/{index}"), a, b, differences);
            }
        }
        (a, b) if a == b => {}
        (a, b) => differences.push(format!("{place}: folded {a} fresh {b}")),
    }
}
