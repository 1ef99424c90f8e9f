//! Tests of reading items: every page equals what folding the whole log would show.

use proptest::prelude::*;

use super::*;
use crate::store::{
    head::item_id,
    load::load,
    log::Durability,
    samples::{
        call, created, finished, home, message, session, settings, turn_ended, turn_started,
    },
};
use crystal_protocol::item::{ItemField, ToolCallStatus};

const ALL: PageBounds = PageBounds {
    items: usize::MAX,
    bytes: u64::MAX,
};

/// What happens in a session, one after the other.
#[derive(Clone, Debug)]
enum Step {
    /// A turn with rounds of calls that end in some order, and notes between their ends.
    Turn(Vec<Vec<u16>>),
    Note,
    /// Calls by an operator that run together and end in some order.
    OperatorCalls(Vec<u16>),
    /// An item that is recorded once more.
    Again(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let batch = || prop::collection::vec(any::<u16>(), 1..8);
    let step = prop_oneof![
        4 => prop::collection::vec(batch(), 0..4).prop_map(Step::Turn),
        2 => Just(Step::Note),
        1 => batch().prop_map(Step::OperatorCalls),
        1 => any::<prop::sample::Index>().prop_map(Step::Again),
    ];
    prop::collection::vec(step, 0..60)
}

#[derive(Default)]
struct Script {
    records: Vec<Record>,
    next: u64,
    size: usize,
}

impl Script {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn finish(&mut self, number: u64) {
        let text = "x".repeat(self.size);
        self.records.push(finished(message(number, &text)));
    }

    fn note(&mut self) {
        let number = self.number();
        self.finish(number);
    }

    fn batch(&mut self, order: &[u16], in_turn: bool) {
        let mut calls: Vec<(u16, u64)> = order.iter().map(|key| (*key, self.number())).collect();
        if in_turn {
            for (_, number) in &calls {
                self.records.push(Record::CallOpened {
                    item: call(*number, ToolCallStatus::Pending),
                    round: 1,
                });
            }
        }
        calls.sort_unstable();
        for (key, number) in calls {
            if key % 5 == 0 {
                self.note();
            }
            self.records
                .push(finished(call(number, ToolCallStatus::Succeeded)));
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Note => self.note(),
            Step::OperatorCalls(order) => self.batch(order, false),
            Step::Again(at) if self.next > 0 => {
                self.finish(1 + at.index(self.next as usize) as u64)
            }
            Step::Again(_) => {}
            Step::Turn(rounds) => {
                let prompt = self.number();
                self.records.push(turn_started(prompt));
                self.finish(prompt);
                for order in rounds {
                    let answer = self.number();
                    self.records.push(Record::Progress {
                        started: Some(Box::new(message(answer, ""))),
                        item: item_id(answer),
                        round: 1,
                        field: ItemField::Text,
                        delta: "x".to_owned(),
                    });
                    self.finish(answer);
                    self.batch(order, true);
                }
                self.records.push(turn_ended(prompt));
            }
        }
    }
}

fn naive(records: &[Record]) -> Vec<StoredItem> {
    let mut items = BTreeMap::new();
    for record in records {
        if let Record::ItemFinished {
            item,
            round,
            replay,
        } = record
        {
            let stored = StoredItem {
                item: item.clone(),
                round: *round,
                replay: replay.clone(),
            };
            items.insert(item_number(&item.id).unwrap(), stored);
        }
    }
    items.into_values().collect()
}

async fn check(records: &[Record], limit: usize) {
    let (_dir, paths) = home();
    let id = session("s1");
    let log = SessionLog::create(&paths, &id).await.unwrap();
    let mut head = Head::new(id.clone(), crate::store::samples::at(0), settings(""));
    let mut all = vec![created(&id)];
    all.extend_from_slice(records);
    let placed = log.append(&all, Durability::Written).await.unwrap();
    for (record, place) in all.iter().zip(placed) {
        head.apply(record, place.offset, place.end);
    }
    assert_eq!(
        head.item_index,
        load(&paths, &id).await.unwrap().head.item_index
    );
    let expected = naive(records);
    let reader = ItemReader::new(&log, &head).await;

    let mut rest = &expected[..];
    let mut before = None;
    loop {
        let bounds = PageBounds {
            items: limit,
            bytes: u64::MAX,
        };
        let page = reader.page(before.as_ref(), bounds).await.unwrap();
        let (older, shown) = rest.split_at(rest.len().saturating_sub(limit));
        assert_eq!(page.items, shown);
        assert_eq!(page.has_more, !older.is_empty());
        let Some(first) = shown.first() else { break };
        before = Some(first.item.id.clone());
        rest = older;
    }
    for at in [0, expected.len() / 2, expected.len().saturating_sub(1)] {
        if let Some(item) = expected.get(at) {
            let number = item_number(&item.item.id).unwrap();
            assert_eq!(
                reader.get(&item.item.id).await.unwrap().as_ref(),
                Some(item)
            );
            assert_eq!(reader.since(number).await.unwrap(), &expected[at..]);
        }
    }
}

fn run(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_page_equals_the_fold_of_the_whole_log(
        steps in steps(),
        limit in prop_oneof![7_usize..40, 100_usize..400],
    ) {
        let mut script = Script { size: 4, ..Script::default() };
        for step in &steps {
            script.step(step);
        }
        run(check(&script.records, limit));
    }
}

#[test]
fn large_items_make_more_marks_and_the_same_pages() {
    let mut script = Script {
        size: 200_000,
        ..Script::default()
    };
    script.step(&Step::Turn(vec![vec![9, 5, 1]; 15]));
    run(check(&script.records, 20));
}

#[test]
fn a_batch_that_ends_backwards_across_many_marks_reads_in_order() {
    let mut script = Script::default();
    script.step(&Step::Turn(vec![(0..1_500).rev().collect()]));
    assert!(script.records.len() > 3_000);
    run(check(&script.records, 97));
}

#[tokio::test]
async fn a_page_stops_at_its_bytes_but_gives_one_item_at_least() {
    let (_dir, paths) = home();
    let id = session("s1");
    let log = SessionLog::create(&paths, &id).await.unwrap();
    let mut head = Head::new(id, crate::store::samples::at(0), settings(""));
    for number in 1..=3 {
        let record = finished(message(number, &"x".repeat(10_000)));
        let placed = log
            .append(std::slice::from_ref(&record), Durability::Written)
            .await
            .unwrap();
        head.apply(&record, placed[0].offset, placed[0].end);
    }
    let reader = ItemReader::new(&log, &head).await;
    let bounds = |bytes| PageBounds { items: 10, bytes };
    assert_eq!(reader.page(None, bounds(1)).await.unwrap().items.len(), 1);
    let page = reader.page(None, bounds(25_000)).await.unwrap();
    assert_eq!((page.items.len(), page.has_more), (2, true));
    let strange = ItemId::new("nonsense");
    assert!(
        reader
            .page(Some(&strange), ALL)
            .await
            .unwrap()
            .items
            .is_empty()
    );
    assert_eq!(reader.get(&strange).await.unwrap(), None);
}
