//! Tests of loading: damage of every kind, and the equality of both ways to a head.

use std::fs;

use proptest::prelude::*;

use super::*;
use crate::store::{
    head_file::{Numbering, save_head},
    log::Durability,
    samples::{
        call, created, finished, home, message, session, settings, turn_ended, turn_started,
    },
};
use crystal_protocol::item::{ItemField, ToolCallStatus};

fn records(id: &SessionId) -> Vec<Record> {
    vec![
        created(id),
        Record::Reserved {
            seq: 4097,
            id: 4097,
        },
        turn_started(1),
        finished(message(1, "hello")),
        Record::Progress {
            started: Some(Box::new(message(2, ""))),
            item: crate::store::head::item_id(2),
            round: 1,
            field: ItemField::Text,
            delta: "wörld".to_owned(),
        },
        finished(message(2, "wörld")),
        Record::CallOpened {
            item: call(3, ToolCallStatus::Pending),
            round: 1,
        },
        Record::CallStarted {
            item: crate::store::head::item_id(3),
            title: None,
            approval: None,
        },
        finished(call(3, ToolCallStatus::Succeeded)),
        turn_ended(1),
        Record::SettingsChanged {
            settings: settings("second"),
        },
    ]
}

fn log_of(records: &[Record]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = Vec::new();
    let mut ends = Vec::new();
    for record in records {
        line::encode(record, &mut bytes).unwrap();
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn write_log(paths: &HomePaths, id: &SessionId, bytes: &[u8]) {
    paths.make(&paths.sessions()).unwrap();
    fs::write(paths.session_log(id), bytes).unwrap();
}

fn write_head(paths: &HomePaths, head: &Head) {
    let content = serde_json::to_vec(head).unwrap();
    fs::write(paths.session_head(&head.id), content).unwrap();
}

fn folded_from(records: &[Record], id: &SessionId) -> Head {
    let (_dir, paths) = home();
    write_log(&paths, id, &log_of(records).0);
    fold(&paths, id).unwrap().head
}

#[test]
fn a_head_at_any_mark_and_the_rest_fold_to_the_same_as_the_whole_log() {
    let id = session("s1");
    let records = records(&id);
    let whole = folded_from(&records, &id);
    let (bytes, _) = log_of(&records);
    for mark in 1..=records.len() {
        let head = folded_from(&records[..mark], &id);
        let (_dir, paths) = home();
        write_log(&paths, &id, &bytes);
        write_head(&paths, &head);
        let folded = fold(&paths, &id).unwrap();
        assert_eq!(folded.head, whole, "mark after record {mark}");
        assert!(folded.notes.is_empty(), "{:?}", folded.notes);
    }
}

#[test]
fn a_log_cut_anywhere_folds_to_its_whole_records_and_is_left_as_it_is() {
    let id = session("s1");
    let records = records(&id);
    let (bytes, ends) = log_of(&records);
    let (_dir, paths) = home();
    for cut in 0..=bytes.len() {
        write_log(&paths, &id, &bytes[..cut]);
        // A record that lacks nothing but its newline is whole.
        let whole = ends.iter().filter(|end| **end <= cut + 1).count();
        match fold(&paths, &id) {
            Ok(folded) => {
                let mut expected = folded_from(&records[..whole], &id);
                expected.log_bytes = cut as u64;
                assert_eq!(folded.head, expected, "cut at {cut}");
                let begun = ends.iter().all(|end| cut != *end && cut + 1 != *end);
                assert_eq!(folded.notes.len(), 1 + usize::from(begun), "cut at {cut}");
            }
            Err(error) => {
                assert_eq!(whole, 0, "cut at {cut}: {error}");
                assert!(matches!(error, LoadError::Damaged { .. }));
            }
        }
        assert_eq!(fs::read(paths.session_log(&id)).unwrap(), &bytes[..cut]);
    }
}

#[test]
fn a_head_cut_anywhere_is_rebuilt_with_a_note() {
    let id = session("s1");
    let records = records(&id);
    let whole = folded_from(&records, &id);
    let (_dir, paths) = home();
    write_log(&paths, &id, &log_of(&records).0);
    let content = serde_json::to_vec(&whole).unwrap();
    for cut in 0..content.len() {
        fs::write(paths.session_head(&id), &content[..cut]).unwrap();
        let folded = fold(&paths, &id).unwrap();
        assert_eq!(folded.head, whole);
        assert_eq!(folded.notes.len(), 1);
        assert!(folded.notes[0].contains("rebuilt"));
    }
}

#[test]
fn damage_in_the_middle_costs_that_record_and_is_noted() {
    let id = session("s1");
    let records = records(&id);
    let (mut bytes, ends) = log_of(&records);
    bytes[ends[2] + 20] ^= 1;
    let (_dir, paths) = home();
    write_log(&paths, &id, &bytes);
    let folded = fold(&paths, &id).unwrap();
    assert_eq!(folded.head.items, 2);
    assert_eq!(folded.head.settings.title, "second");
    assert!(folded.notes[1].contains(&format!("byte {}", ends[2])));
}

#[tokio::test]
async fn what_was_noted_once_is_not_noted_again_after_the_head_is_saved() {
    let id = session("s1");
    let (mut bytes, _) = log_of(&records(&id));
    bytes.extend_from_slice(b"torn");
    let (_dir, paths) = home();
    write_log(&paths, &id, &bytes);
    let loaded = load(&paths, &id).await.unwrap();
    assert_eq!(loaded.notes.len(), 2);
    save_head(&paths, loaded.head, Numbering::Reserved)
        .await
        .unwrap();
    let mut loaded = load(&paths, &id).await.unwrap();
    assert!(loaded.notes.is_empty(), "{:?}", loaded.notes);
    let record = finished(message(4, "x"));
    let placed = loaded
        .log
        .append(std::slice::from_ref(&record), Durability::Written)
        .await
        .unwrap();
    loaded.head.apply(&record, placed[0].offset, placed[0].end);
    let again = load(&paths, &id).await.unwrap();
    assert!(again.notes.is_empty(), "{:?}", again.notes);
    assert_eq!(again.head, loaded.head);
}

#[test]
fn a_log_shorter_than_its_head_rebuilds_it_and_no_number_comes_twice() {
    let id = session("s1");
    let records = records(&id);
    let mut head = folded_from(&records, &id);
    head.next_seq = 9_000;
    let (_dir, paths) = home();
    write_log(&paths, &id, &log_of(&records[..3]).0);
    write_head(&paths, &head);
    let folded = fold(&paths, &id).unwrap();
    assert!(folded.notes[0].contains("shorter"));
    assert_eq!(folded.head.next_seq, 9_000);
    assert_eq!(folded.head.items, 0);
}

#[test]
fn the_files_of_another_session_are_refused() {
    let (_dir, paths) = home();
    write_log(&paths, &session("s2"), &log_of(&records(&session("s1"))).0);
    assert!(matches!(
        fold(&paths, &session("s2")),
        Err(LoadError::Damaged { .. })
    ));
    assert!(matches!(
        fold(&paths, &session("../s2")),
        Err(LoadError::NotFound { .. })
    ));
}

#[tokio::test]
async fn a_head_without_log_is_usable_only_if_it_covers_nothing() {
    let (_dir, paths) = home();
    let id = session("s1");
    let mut head = folded_from(&records(&id), &id);
    save_head(&paths, head.clone(), Numbering::Reserved)
        .await
        .unwrap();
    assert!(matches!(
        load(&paths, &id).await,
        Err(LoadError::Damaged { .. })
    ));
    assert!(!paths.session_log(&id).exists());
    head.log_bytes = 0;
    save_head(&paths, head, Numbering::Reserved).await.unwrap();
    assert_eq!(load(&paths, &id).await.unwrap().notes.len(), 1);
}

#[tokio::test]
async fn fields_of_a_later_minor_version_survive_and_a_later_major_one_is_left_alone() {
    let (_dir, paths) = home();
    let id = session("s1");
    let records = records(&id);
    write_log(&paths, &id, &log_of(&records).0);
    let mut value = serde_json::to_value(folded_from(&records, &id)).unwrap();
    value["later"] = serde_json::json!({"x": [1]});
    fs::write(paths.session_head(&id), value.to_string()).unwrap();
    let loaded = load(&paths, &id).await.unwrap();
    let exact = Numbering::Exact {
        next_seq: 12,
        next_id: 5,
    };
    save_head(&paths, loaded.head, exact).await.unwrap();
    let head = load(&paths, &id).await.unwrap().head;
    assert_eq!(head.unknown["later"]["x"][0], 1);
    assert_eq!((head.next_seq, head.next_id), (12, 5));

    fs::write(
        paths.session_head(&id),
        r#"{"format":{"major":2,"minor":0}}"#,
    )
    .unwrap();
    assert!(matches!(
        load(&paths, &id).await,
        Err(LoadError::Newer { found: 2, .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn flipped_bits_never_panic_and_change_nothing_on_disk(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 1..12),
        with_head in any::<bool>(),
        mark in 1_usize..11,
    ) {
        let id = session("s1");
        let records = records(&id);
        let (mut bytes, _) = log_of(&records);
        for (at, bit) in &flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        let (_dir, paths) = home();
        write_log(&paths, &id, &bytes);
        if with_head {
            write_head(&paths, &folded_from(&records[..mark], &id));
        }
        match fold(&paths, &id) {
            Ok(folded) => prop_assert!(folded.head.items <= 3),
            Err(error) => prop_assert!(matches!(error, LoadError::Damaged { .. }), "{}", error),
        }
        prop_assert_eq!(fs::read(paths.session_log(&id)).unwrap(), bytes);
    }
}
