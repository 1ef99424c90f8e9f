//! What `write` makes and when it refuses.

use crystal_protocol::approval::{Authority, Risk};
use serde_json::{Value, json};

use super::*;
use crate::tools::{
    ToolStatus,
    test_place::{Place, diff_of},
};

fn args(path: &str, content: &str) -> Value {
    json!({"path": path, "content": content})
}

#[tokio::test]
async fn a_new_file_is_made_with_its_directories() {
    let place = Place::new();
    let effects = place
        .plan("write", &args("a/b/c.txt", "x\n"))
        .await
        .unwrap();
    assert_eq!(effects.title, "write a/b/c.txt");
    assert_eq!(effects.risk, Risk::Write);
    assert_eq!(
        diff_of(&effects),
        "--- /dev/null\n+++ a/b/c.txt\n@@ -0,0 +1 @@\n+x\n"
    );
    assert!(!place.path("a").exists());
    let output = place
        .run("write", &args("a/b/c.txt", "x\n"), &effects)
        .await;
    assert!(
        output
            .text
            .starts_with("Created a/b/c.txt, 2 bytes.\n--- /dev/null"),
        "{}",
        output.text
    );
    assert_eq!(place.get("a/b/c.txt"), b"x\n");
}

#[tokio::test]
async fn an_old_file_is_overwritten_and_then_known() {
    let place = Place::new();
    place.put("a", "x\n");
    let text = place.ok("write", args("a", "y\n")).await;
    assert!(
        text.starts_with("Overwrote a, 2 bytes.\n") && text.contains("-x\n+y\n"),
        "{text}"
    );
    place.ok("write", args("a", "z\n")).await;
    place.put("a", "somebody else's\n");
    let text = place.fails("write", args("a", "w\n")).await;
    assert!(text.contains("read it again"), "{text}");
    assert_eq!(place.get("a"), b"somebody else's\n");
}

#[tokio::test]
async fn a_file_that_appeared_since_the_plan_is_not_overwritten() {
    let place = Place::new();
    let effects = place.plan("write", &args("a", "x\n")).await.unwrap();
    place.put("a", "theirs\n");
    let output = place.run("write", &args("a", "x\n"), &effects).await;
    assert_eq!(output.status, ToolStatus::Failed);
    assert_eq!(place.get("a"), b"theirs\n");
}

#[tokio::test]
async fn too_much_content_and_a_directory_are_refused() {
    let place = Place::new();
    let text = place
        .fails("write", args("a", &"x".repeat(WRITE_BYTES + 1)))
        .await;
    assert!(text.contains("2,097,152 bytes"), "{text}");
    place.ok("write", args("a", &"x".repeat(WRITE_BYTES))).await;
    assert!(
        place
            .fails("write", args(".", "x"))
            .await
            .contains("is a directory")
    );
    let text = place.fails("write", args("a/below-a-file", "x")).await;
    assert!(
        text.contains("Not a directory") || text.contains("not a directory"),
        "{text}"
    );
}

#[tokio::test]
async fn a_change_of_encoding_and_the_end_of_a_binary_are_shown() {
    let place = Place::new();
    place.put("wide", b"\xff\xfea\0");
    let effects = place.plan("write", &args("wide", "a")).await.unwrap();
    assert!(diff_of(&effects).contains("from UTF-16 LE to UTF-8"));
    place.put("bin", b"\x7fELF\0");
    let effects = place.plan("write", &args("bin", "a")).await.unwrap();
    assert!(diff_of(&effects).contains("an ELF binary of 5 bytes"));
}

#[tokio::test]
async fn writing_elsewhere_and_to_closed_files_is_told_apart() {
    let place = Place::new();
    let effects = place
        .plan("write", &args("../outside/x", "x"))
        .await
        .unwrap();
    assert_eq!(effects.authority, Authority::OutsideWorkspace);
    let effects = place
        .plan("write", &args("../home/trusted.json", "x"))
        .await
        .unwrap();
    assert_eq!(effects.risk, Risk::Forbidden);
}

#[cfg(unix)]
#[tokio::test]
async fn a_directory_swapped_for_a_link_makes_the_call_fail() {
    let place = Place::new();
    place.put("d/keep", "");
    let arguments = args("d/new/f", "x");
    let effects = place.plan("write", &arguments).await.unwrap();
    std::fs::rename(place.path("d"), place.path("old")).unwrap();
    std::os::unix::fs::symlink(place.top.join("outside"), place.path("d")).unwrap();
    let output = place.run("write", &arguments, &effects).await;
    assert_eq!(output.status, ToolStatus::Failed);
    assert!(output.text.contains("leads elsewhere"), "{}", output.text);
    assert!(!place.top.join("outside/new").exists());
}
