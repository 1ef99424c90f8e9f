//! What `edit` changes, what it leaves, and when it refuses.

use crystal_protocol::approval::Risk;
use serde_json::{Value, json};

use super::*;
use crate::{
    terms::Rule,
    tools::{
        ToolStatus,
        test_place::{Place, diff_of},
    },
};

fn args(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "old_string": old, "new_string": new})
}

#[tokio::test]
async fn the_result_and_the_preview_carry_the_same_diff() {
    let place = Place::new();
    place.put("src/a.rs", "one\ntwo\n");
    let effects = place
        .plan("edit", &args("src/a.rs", "two", "2"))
        .await
        .unwrap();
    assert_eq!(effects.title, "edit src/a.rs");
    assert_eq!(
        (effects.risk, effects.authority),
        (Risk::Write, Authority::Workspace)
    );
    assert_eq!(
        effects.rule,
        Some(Rule::EditsBelow {
            directory: place.path("src")
        })
    );
    let diff = "--- src/a.rs\n+++ src/a.rs\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
    assert_eq!(diff_of(&effects), diff);
    assert_eq!(place.get("src/a.rs"), b"one\ntwo\n");
    let output = place
        .run("edit", &args("src/a.rs", "two", "2"), &effects)
        .await;
    assert_eq!(
        output.text,
        format!("Edited src/a.rs in one place.\n{diff}")
    );
    assert_eq!(place.get("src/a.rs"), b"one\n2\n");
}

#[tokio::test]
async fn a_preview_shows_what_is_invisible() {
    let place = Place::new();
    place.put("a", "one\n");
    let effects = place
        .plan("edit", &args("a", "one", "o\u{202e}ne"))
        .await
        .unwrap();
    assert!(diff_of(&effects).contains("+o\\u{202e}ne"));
}

#[tokio::test]
async fn a_text_that_is_not_there_gives_the_nearest_lines() {
    let place = Place::new();
    place.put("a", "let alpha = 1;\nlet beta = 2;\n");
    let text = place.fails("edit", args("a", "let beta = 3;", "x")).await;
    assert!(text.contains("does not occur in a"), "{text}");
    assert!(text.contains("     2\tlet beta = 2;"), "{text}");
}

#[tokio::test]
async fn several_places_are_named_by_line_unless_all_are_meant() {
    let place = Place::new();
    place.put("a", "x\ny\nx\n");
    let text = place.fails("edit", args("a", "x", "z")).await;
    assert!(
        text.contains("2 times") && text.contains("lines 1, 3"),
        "{text}"
    );
    let all = json!({"path": "a", "old_string": "x", "new_string": "z", "replace_all": true});
    assert!(place.ok("edit", all).await.contains("2 places"));
    assert_eq!(place.get("a"), b"z\ny\nz\n");
}

#[tokio::test]
async fn senseless_edits_are_refused_when_planned() {
    let place = Place::new();
    place.put("a", "x\n");
    place.put("bin", b"\x7fELFx");
    for (arguments, says) in [
        (args("a", "", "y"), "use `write`"),
        (args("a", "x", "x"), "the same"),
        (args("no", "x", "y"), "does not exist"),
        (args("bin", "x", "y"), "an ELF binary"),
        (args(".", "x", "y"), "is a directory"),
    ] {
        let failed = place.plan("edit", &arguments).await.unwrap_err();
        assert!(failed.text.contains(says), "{}", failed.text);
    }
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_refused_and_one_never_read_is_not() {
    let place = Place::new();
    place.put("a", "x\n");
    place.ok("read", json!({"path": "a"})).await;
    place.put("a", "x, and more\n");
    let text = place.fails("edit", args("a", "x", "y")).await;
    assert!(text.contains("read it again"), "{text}");
    place.ok("read", json!({"path": "a"})).await;
    place.ok("edit", args("a", "x", "y")).await;
    place.ok("edit", args("a", "y", "z")).await;
    place.put("never", "x\n");
    place.ok("edit", args("never", "x", "y")).await;
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_shown_is_not_written() {
    let place = Place::new();
    place.put("a", "x\n");
    let effects = place.plan("edit", &args("a", "x", "y")).await.unwrap();
    place.put("a", "x\n1\n2\n3\n4\n5\nfar away\n");
    let output = place.run("edit", &args("a", "x", "y"), &effects).await;
    assert_eq!(output.status, ToolStatus::Failed);
    assert!(
        output.text.contains("changed since this call was planned"),
        "{}",
        output.text
    );
    assert!(place.get("a").starts_with(b"x\n"));
}

#[tokio::test]
async fn other_arguments_than_those_shown_are_not_written() {
    let place = Place::new();
    place.put("a", "x\n");
    let effects = place.plan("edit", &args("a", "x", "y")).await.unwrap();
    let output = place.run("edit", &args("a", "x", "evil"), &effects).await;
    assert_eq!(output.status, ToolStatus::Failed);
    assert_eq!(place.get("a"), b"x\n");
}

#[tokio::test]
async fn two_edits_planned_together_both_happen() {
    let place = Place::new();
    let lines: String = (0..30).map(|number| format!("line {number}\n")).collect();
    place.put("a", &lines);
    let (first, second) = (
        args("a", "line 2\n", "2\n2b\n"),
        args("a", "line 25\n", "25\n"),
    );
    let plans = (
        place.plan("edit", &first).await.unwrap(),
        place.plan("edit", &second).await.unwrap(),
    );
    let done = tokio::join!(
        place.run("edit", &first, &plans.0),
        place.run("edit", &second, &plans.1)
    );
    assert_eq!(done.0.status, ToolStatus::Succeeded, "{}", done.0.text);
    assert_eq!(done.1.status, ToolStatus::Succeeded, "{}", done.1.text);
    let text = String::from_utf8(place.get("a")).unwrap();
    assert!(text.contains("\n2\n2b\n") && text.contains("\n25\n"));
}

#[tokio::test]
async fn bytes_around_the_change_stay() {
    let place = Place::new();
    place.put("a", b"\xef\xbb\xbfone\r\ntwo\nbad \xff\r\nlast");
    place.ok("edit", args("a", "two", "2\nand")).await;
    assert_eq!(
        place.get("a"),
        b"\xef\xbb\xbfone\r\n2\nand\nbad \xff\r\nlast"
    );
}

#[tokio::test]
async fn what_is_in_a_file_elsewhere_is_not_told_before_a_yes() {
    let place = Place::new();
    std::fs::write(place.top.join("outside/f"), "secret line\n").unwrap();
    let arguments = args("../outside/f", "secret lime", "x");
    let effects = place.plan("edit", &arguments).await.unwrap();
    assert_eq!(effects.authority, Authority::OutsideWorkspace);
    assert_eq!(effects.preview, None);
    let output = place.run("edit", &arguments, &effects).await;
    assert!(output.text.contains("secret line"));
}

#[tokio::test]
async fn a_credential_file_is_forbidden_and_not_even_looked_at() {
    let place = Place::new();
    place.put("a.pem", "x\n");
    let effects = place.plan("edit", &args("a.pem", "x", "y")).await.unwrap();
    assert_eq!((effects.risk, effects.preview), (Risk::Forbidden, None));
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[tokio::test]
    async fn mode_bits_stay_and_a_link_stays_a_link() {
        let place = Place::new();
        let path = place.put("real", "x\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        symlink("real", place.path("link")).unwrap();
        place.ok("edit", args("link", "x", "y")).await;
        assert_eq!(place.get("real"), b"y\n");
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o755
        );
        assert!(
            std::fs::symlink_metadata(place.path("link"))
                .unwrap()
                .is_symlink()
        );
    }

    #[tokio::test]
    async fn a_directory_swapped_for_a_link_makes_the_call_fail() {
        let place = Place::new();
        place.put("d/f", "x\n");
        std::fs::write(place.top.join("outside/f"), "x\n").unwrap();
        let arguments = args("d/f", "x", "y");
        let effects = place.plan("edit", &arguments).await.unwrap();
        std::fs::rename(place.path("d"), place.path("old")).unwrap();
        symlink(place.top.join("outside"), place.path("d")).unwrap();
        let output = place.run("edit", &arguments, &effects).await;
        assert_eq!(output.status, ToolStatus::Failed);
        assert!(output.text.contains("leads elsewhere"), "{}", output.text);
        assert_eq!(std::fs::read(place.top.join("outside/f")).unwrap(), b"x\n");
    }
}
