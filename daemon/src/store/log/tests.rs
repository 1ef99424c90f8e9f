//! Tests of the log's writer.

use super::*;
use crate::store::{
    load::{fold, load},
    samples::{created, finished, home, message, session},
};

async fn new_log(paths: &HomePaths, id: &SessionId) -> SessionLog {
    let log = SessionLog::create(paths, id).await.unwrap();
    log.append(&[created(id)], Durability::Synced)
        .await
        .unwrap();
    log
}

/// A device that refuses every write as a full disk does.
fn full() -> Arc<File> {
    Arc::new(options().open("/dev/full").unwrap())
}

impl SessionLog {
    async fn swap_file(&self, file: Arc<File>) -> Arc<File> {
        let mut state = self.state.lock().await;
        state.failure = None;
        std::mem::replace(&mut state.file, file)
    }
}

#[tokio::test]
async fn records_stand_where_the_answer_says() {
    let (_dir, paths) = home();
    let id = session("s1");
    let log = new_log(&paths, &id).await;
    let records = [finished(message(1, "a")), finished(message(2, "b"))];
    let placed = log.append(&records, Durability::Written).await.unwrap();
    let content = std::fs::read(paths.session_log(&id)).unwrap();
    for (place, record) in placed.iter().zip(&records) {
        let range = usize::try_from(place.offset).unwrap()..usize::try_from(place.end).unwrap();
        let line = line::decode(&content[range]);
        assert_eq!(line, line::Line::Record(Box::new(record.clone())));
    }
    assert_eq!(placed[1].end, content.len() as u64);
}

#[cfg(unix)]
#[tokio::test]
async fn files_and_directories_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (_dir, paths) = home();
    let id = session("s1");
    let log = new_log(&paths, &id).await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(log.path()), 0o600);
    assert_eq!(mode(&paths.sessions()), 0o700);
}

#[tokio::test]
async fn a_second_log_of_the_same_session_is_refused() {
    let (_dir, paths) = home();
    let id = session("s1");
    drop(new_log(&paths, &id).await);
    assert!(matches!(
        SessionLog::create(&paths, &id).await,
        Err(StoreError::Exists { .. })
    ));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_refused_record_is_not_kept_and_leaves_no_trace() {
    let (_dir, paths) = home();
    let id = session("s1");
    let log = new_log(&paths, &id).await;
    let before = std::fs::read(log.path()).unwrap();
    let disk = log.swap_file(full()).await;
    let error = log
        .append(&[finished(message(1, "lost"))], Durability::Written)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert_eq!(log.backlog_bytes().await, 0);
    log.swap_file(disk).await;
    log.append(&[finished(message(2, "kept"))], Durability::Synced)
        .await
        .unwrap();
    let after = std::fs::read(log.path()).unwrap();
    assert!(after.starts_with(&before));
    assert!(!String::from_utf8(after).unwrap().contains("lost"));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn kept_records_are_written_first_and_where_they_were_promised() {
    let (_dir, paths) = home();
    let id = session("s1");
    let log = new_log(&paths, &id).await;
    let disk = log.swap_file(full()).await;
    let mut promised = Vec::new();
    for number in 1..4 {
        match log
            .append_or_keep(&[finished(message(number, "x"))])
            .await
            .unwrap()
        {
            Appended::Kept { placed, .. } => promised.extend(placed),
            Appended::Written(_) => panic!("a full disk took it"),
        }
    }
    assert!(log.backlog_bytes().await > 0);
    assert!(log.sync().await.is_err());
    log.swap_file(disk).await;
    let placed = log
        .append(&[finished(message(4, "y"))], Durability::Written)
        .await
        .unwrap();
    assert_eq!(placed[0].offset, promised[2].end);
    assert_eq!(log.backlog_bytes().await, 0);
    let folded = fold(&paths, &id).unwrap();
    assert!(folded.notes.len() == 1, "{:?}", folded.notes);
    assert_eq!(folded.head.items, 4);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_backlog_is_bounded() {
    let (_dir, paths) = home();
    let id = session("s1");
    let log = new_log(&paths, &id).await;
    log.swap_file(full()).await;
    let large = [finished(message(1, &"x".repeat(BACKLOG_BYTES / 2)))];
    assert!(log.append_or_keep(&large).await.is_ok());
    assert!(matches!(
        log.append_or_keep(&large).await,
        Err(StoreError::BacklogFull { .. })
    ));
    assert!(log.backlog_bytes().await <= BACKLOG_BYTES);
}

#[tokio::test]
async fn torn_bytes_stay_and_the_next_record_begins_behind_them() {
    let (_dir, paths) = home();
    let id = session("s1");
    drop(new_log(&paths, &id).await);
    let path = paths.session_log(&id);
    let mut torn = std::fs::read(&path).unwrap();
    torn.extend_from_slice(b"0123abcd {\"record\":\"itemFin");
    std::fs::write(&path, &torn).unwrap();
    let loaded = load(&paths, &id).await.unwrap();
    assert!(loaded.notes.iter().any(|note| note.contains("cut short")));
    let placed = loaded
        .log
        .append(&[finished(message(1, "a"))], Durability::Written)
        .await
        .unwrap();
    let content = std::fs::read(&path).unwrap();
    assert!(content.starts_with(&torn));
    assert_eq!(placed[0].offset, torn.len() as u64 + 1);
    assert_eq!(placed[0].end, content.len() as u64);
    assert_eq!(fold(&paths, &id).unwrap().head.items, 1);
}
