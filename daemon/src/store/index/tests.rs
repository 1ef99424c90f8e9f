//! Tests of the index.

use std::fs;

use super::*;
use crate::store::{
    head_file::{Numbering, save_head},
    load::load,
    log::{Durability, SessionLog},
    record::Record,
    samples::{at, created, home, session, settings},
};

fn entry(id: &str, updated: i64, workspace: &str) -> IndexEntry {
    let mut settings = settings(id);
    settings.workspace = workspace.into();
    let mut head = Head::new(session(id), at(0), settings);
    head.updated_at = at(updated);
    IndexEntry::loaded(&head)
}

fn ids(listing: &Listing) -> Vec<&str> {
    listing
        .entries
        .iter()
        .map(|entry| entry.id.as_str())
        .collect()
}

async fn saved_session(paths: &HomePaths, id: &str) -> Head {
    let id = session(id);
    let log = SessionLog::create(paths, &id).await.unwrap();
    log.append(&[created(&id)], Durability::Written)
        .await
        .unwrap();
    let head = load(paths, &id).await.unwrap().head;
    save_head(paths, head.clone(), Numbering::Reserved)
        .await
        .unwrap();
    head
}

#[test]
fn the_list_is_newest_first_and_its_cursor_outlives_changes() {
    let mut index = SessionIndex::default();
    for number in 0..10 {
        let workspace = if number % 2 == 0 { "/even" } else { "/odd" };
        index.put(entry(&format!("session{number}"), number, workspace));
    }
    let first = index.list(None, None, 3).unwrap();
    assert_eq!(ids(&first), ["session9", "session8", "session7"]);
    index.put(entry("session7", 100, "/odd"));
    index.remove(&session("session6"));
    let second = index.list(None, first.next.as_deref(), 3).unwrap();
    assert_eq!(ids(&second), ["session5", "session4", "session3"]);
    let odd = index.list(Some(Path::new("/odd")), None, 5).unwrap();
    assert_eq!(
        ids(&odd),
        ["session7", "session9", "session5", "session3", "session1"]
    );
    assert_eq!(odd.next, None);
    assert_eq!(index.list(None, Some("x"), 3), Err(BadCursor));
}

#[test]
fn a_prefix_of_four_characters_finds_a_session_and_an_exact_id_always_wins() {
    let mut index = SessionIndex::default();
    for id in ["abcdef", "abcdefgh", "abzzzz", "xy"] {
        index.put(entry(id, 1, "/w"));
    }
    let unique = |id: &str| Resolved::Unique(session(id));
    assert_eq!(index.resolve("abcdef"), unique("abcdef"));
    assert_eq!(index.resolve("abcdefg"), unique("abcdefgh"));
    assert_eq!(index.resolve("abzz"), unique("abzzzz"));
    assert_eq!(index.resolve("xy"), unique("xy"));
    assert_eq!(index.resolve("abcd"), Resolved::Ambiguous);
    assert_eq!(index.resolve("abz"), Resolved::Unknown);
    assert_eq!(index.resolve("nothing"), Resolved::Unknown);
}

#[tokio::test]
async fn a_saved_index_is_taken_as_it_is_while_no_file_changed() {
    let (_dir, paths) = home();
    let head = saved_session(&paths, "session1").await;
    let mut index = SessionIndex::load(&paths).await.unwrap();
    assert_eq!(
        **index.get(&head.id).unwrap(),
        IndexEntry::saved(&paths, &head)
    );
    index.take_changed().unwrap().save(&paths).await.unwrap();
    assert!(index.take_changed().is_none());

    let mut again = SessionIndex::load(&paths).await.unwrap();
    assert_eq!(again.sessions, index.sessions);
    assert!(again.take_changed().is_none());
}

#[tokio::test]
async fn what_changed_behind_the_index_is_read_again() {
    let (_dir, paths) = home();
    let head = saved_session(&paths, "session1").await;
    saved_session(&paths, "session2").await;
    let mut index = SessionIndex::load(&paths).await.unwrap();
    index.take_changed().unwrap().save(&paths).await.unwrap();

    let log = load(&paths, &head.id).await.unwrap().log;
    let record = Record::SettingsChanged {
        settings: settings("renamed"),
    };
    log.append(&[record], Durability::Written).await.unwrap();
    for file in [
        paths.session_head(&session("session2")),
        paths.session_log(&session("session2")),
    ] {
        fs::remove_file(file).unwrap();
    }
    let only_log = session("session3");
    let log = SessionLog::create(&paths, &only_log).await.unwrap();
    log.append(&[created(&only_log)], Durability::Written)
        .await
        .unwrap();

    let mut index = SessionIndex::load(&paths).await.unwrap();
    assert_eq!(index.len(), 2);
    assert!(index.get(&only_log).is_some());
    let renamed = &index.get(&head.id).unwrap().state;
    assert!(
        matches!(renamed, EntryState::Saved { settings, .. } if settings.title == "renamed"),
        "{renamed:?}"
    );
    assert!(index.take_changed().is_some());
}

#[tokio::test]
async fn a_session_that_cannot_be_read_is_listed_as_damaged_and_left_alone() {
    let (_dir, paths) = home();
    paths.make(&paths.sessions()).unwrap();
    let files = [
        (paths.session_head(&session("broken")), "{"),
        (paths.session_log(&session("broken")), "nonsense\n"),
        (paths.session_index(), "[not json"),
        (paths.sessions().join("notes.txt"), "x"),
    ];
    for (path, content) in &files {
        fs::write(path, content).unwrap();
    }
    let index = SessionIndex::load(&paths).await.unwrap();
    assert_eq!(index.len(), 1);
    let entry = index.get(&session("broken")).unwrap();
    assert!(matches!(entry.state, EntryState::Damaged { .. }));
    assert!(entry.updated_at > at(0));
    for (path, content) in &files {
        assert_eq!(fs::read_to_string(path).unwrap(), *content);
    }
}
