//! What `grep` finds and how it shows it.

use serde_json::json;

use super::*;
use crate::{
    limits::GREP_MATCHES,
    tools::{ToolStatus, test_place::Place, text_file::Encoding},
};

fn filled() -> Place {
    let place = Place::new();
    place.put("b.rs", "fn one() {}\r\nlet two = 2;\r\nfn three() {}\r\n");
    place.put("a/c.txt", "zero\nTWO\nthree\n");
    place
}

#[tokio::test]
async fn matching_lines_come_sorted_by_path() {
    let place = filled();
    assert_eq!(
        place
            .ok("grep", json!({"pattern": "two", "ignoreCase": true}))
            .await,
        "a/c.txt:2: TWO\nb.rs:2: let two = 2;\n"
    );
    assert_eq!(
        place.ok("grep", json!({"pattern": "\\}$"})).await,
        "b.rs:1: fn one() {}\nb.rs:3: fn three() {}\n"
    );
    assert_eq!(
        place.ok("grep", json!({"pattern": "^zer."})).await,
        "a/c.txt:1: zero\n"
    );
    assert_eq!(
        place.ok("grep", json!({"pattern": "nothing"})).await,
        "(No match.)\n"
    );
}

#[tokio::test]
async fn files_counts_globs_and_context() {
    let place = filled();
    assert_eq!(
        place
            .ok("grep", json!({"pattern": "three", "output": "files"}))
            .await,
        "a/c.txt\nb.rs\n"
    );
    assert_eq!(
        place
            .ok("grep", json!({"pattern": "fn", "output": "count"}))
            .await,
        "b.rs: 2\n"
    );
    assert_eq!(
        place
            .ok(
                "grep",
                json!({"pattern": "three", "glob": "*.txt", "context": 1})
            )
            .await,
        "a/c.txt-2- TWO\na/c.txt:3: three\n"
    );
    assert_eq!(
        place
            .ok("grep", json!({"pattern": "zero", "path": "a/c.txt"}))
            .await,
        "a/c.txt:1: zero\n"
    );
}

#[tokio::test]
async fn a_pattern_with_a_line_break_is_found_across_lines() {
    let place = filled();
    assert_eq!(
        place.ok("grep", json!({"pattern": "zero\\nTWO"})).await,
        "a/c.txt:1: zero\na/c.txt:2: TWO\n"
    );
}

#[tokio::test]
async fn a_bad_expression_is_explained() {
    let place = filled();
    let text = place.fails("grep", json!({"pattern": "a("})).await;
    assert!(text.contains("unclosed group"), "{text}");
}

#[tokio::test]
async fn matches_beyond_the_limit_are_cut_the_same_way_each_time() {
    let place = Place::new();
    for number in 0..300 {
        place.put(&format!("{number:03}"), "hit\nhit\n");
    }
    let first = place.call("grep", json!({"pattern": "hit"})).await;
    assert!(first.truncated);
    assert_eq!(first.text.lines().count(), GREP_MATCHES + 1);
    assert!(first.text.contains("Only the first 500"));
    assert_eq!(first, place.call("grep", json!({"pattern": "hit"})).await);
}

#[tokio::test]
async fn binary_large_and_closed_files_are_left_out() {
    let place = Place::new();
    place.put("bin", b"hit\n\0\n");
    place.put("tls.key", "hit");
    place.put("ok", "hit");
    place.put("node_modules/x", "hit");
    let large = place.put("large", "hit");
    std::fs::File::options()
        .write(true)
        .open(large)
        .unwrap()
        .set_len(GREP_FILE_BYTES + 1)
        .unwrap();
    let text = place.ok("grep", json!({"pattern": "hit"})).await;
    assert!(text.starts_with("ok:1: hit\n"), "{text}");
    assert!(text.contains("1 files of more than 8 MiB"), "{text}");
    assert!(text.contains("1 credential files"), "{text}");
    assert_eq!(text.matches(":1:").count(), 1, "{text}");
}

#[cfg(unix)]
#[tokio::test]
async fn other_names_of_credentials_and_links_are_not_searched() {
    let place = Place::new();
    std::fs::write(place.top.join("home/credentials.json"), "hit").unwrap();
    std::fs::hard_link(place.top.join("home/credentials.json"), place.path("plain")).unwrap();
    std::fs::write(place.top.join("outside/f"), "hit").unwrap();
    std::os::unix::fs::symlink(place.top.join("outside/f"), place.path("link")).unwrap();
    std::os::unix::fs::symlink(place.top.join("outside"), place.path("linked")).unwrap();
    let text = place.ok("grep", json!({"pattern": "hit"})).await;
    assert!(text.starts_with("(No match.)"), "{text}");
    assert!(text.contains("1 credential files"), "{text}");
}

#[tokio::test]
async fn wide_text_is_searched() {
    let place = Place::new();
    place.put(
        "w",
        [&b"\xff\xfe"[..], &Encoding::Utf16Le.encode("né hit\n")].concat(),
    );
    assert_eq!(
        place.ok("grep", json!({"pattern": "é hit"})).await,
        "w:1: né hit\n"
    );
}

#[tokio::test]
async fn a_stopped_search_says_so() {
    let place = filled();
    place.cx.cancel.cancel();
    let output = place.call("grep", json!({"pattern": "two"})).await;
    assert_eq!(output.status, ToolStatus::Cancelled);
}
