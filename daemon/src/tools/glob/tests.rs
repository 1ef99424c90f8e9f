//! What `glob` finds and in which order.

use std::{fs::File, time::Duration};

use serde_json::json;

use super::*;
use crate::tools::{ToolStatus, test_place::Place};

fn aged(place: &Place, relative: &str, age_seconds: u64) {
    let path = place.put(relative, "");
    let then = SystemTime::now() - Duration::from_secs(age_seconds);
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(then)
        .unwrap();
}

#[tokio::test]
async fn matches_come_newest_first_without_what_is_ignored() {
    let place = Place::new();
    place.put(".gitignore", "gen/\n");
    aged(&place, "old.rs", 300);
    aged(&place, "src/new.rs", 100);
    aged(&place, ".hidden/mid.rs", 200);
    for skipped in [
        "gen/a.rs",
        "target/a.rs",
        "node_modules/a.rs",
        ".git/a.rs",
        ".ssh/a.rs",
    ] {
        aged(&place, skipped, 10);
    }
    assert_eq!(
        place.ok("glob", json!({"pattern": "*.rs"})).await,
        "src/new.rs\n.hidden/mid.rs\nold.rs\n"
    );
    assert_eq!(
        place.ok("glob", json!({"pattern": "src/*.rs"})).await,
        "src/new.rs\n"
    );
    assert_eq!(
        place
            .ok("glob", json!({"pattern": "*.rs", "path": "src"}))
            .await,
        "src/new.rs\n"
    );
    assert_eq!(
        place.ok("glob", json!({"pattern": "*.zig"})).await,
        "(No file matches.)\n"
    );
}

#[tokio::test]
async fn more_than_the_limit_is_cut_and_said_so() {
    let place = Place::new();
    for number in 0..=GLOB_PATHS {
        place.put(&format!("d/{number}.txt"), "");
    }
    let output = place.call("glob", json!({"pattern": "*.txt"})).await;
    assert!(output.truncated);
    assert_eq!(output.text.lines().count(), GLOB_PATHS + 1);
    assert!(
        output.text.contains("newest 1000 of 1001"),
        "{}",
        output.text
    );
}

#[tokio::test]
async fn a_bad_pattern_and_a_missing_directory_fail_and_a_stop_stops() {
    let place = Place::new();
    assert!(
        place
            .fails("glob", json!({"pattern": "a{"}))
            .await
            .contains("a{")
    );
    assert!(
        place
            .fails("glob", json!({"pattern": "*", "path": "no"}))
            .await
            .contains("does not exist")
    );
    place.put("a", "");
    place.cx.cancel.cancel();
    let output = place.call("glob", json!({"pattern": "*"})).await;
    assert_eq!(output.status, ToolStatus::Cancelled);
}
