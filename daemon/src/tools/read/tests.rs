//! What `read` shows of files of every kind.

use crystal_protocol::approval::{Authority, Risk};
use serde_json::json;

use super::*;
use crate::tools::test_place::Place;

#[tokio::test]
async fn lines_are_numbered_and_a_part_says_where_to_go_on() {
    let place = Place::new();
    place.put("a.txt", "one\ntwo\r\nthree\nfour");
    assert_eq!(
        place.ok("read", json!({"path": "a.txt"})).await,
        "     1\tone\n     2\ttwo\n     3\tthree\n     4\tfour\n"
    );
    assert_eq!(
        place
            .ok("read", json!({"path": "a.txt", "offset": 2, "limit": 2}))
            .await,
        "     2\ttwo\n     3\tthree\n(Lines 2 to 3 of 4; go on with offset 4.)\n"
    );
    let text = place
        .fails("read", json!({"path": "a.txt", "offset": 9}))
        .await;
    assert!(text.contains("only 4 lines"), "{text}");
}

#[tokio::test]
async fn an_empty_file_is_said_to_be_empty() {
    let place = Place::new();
    place.put("a", "");
    place.put("mark", b"\xef\xbb\xbf");
    for path in ["a", "mark"] {
        assert_eq!(
            place.ok("read", json!({"path": path})).await,
            "(The file is empty.)"
        );
    }
}

#[tokio::test]
async fn binaries_are_refused_by_name_and_size() {
    let place = Place::new();
    place.put("a.png", b"\x89PNG\r\n\x1a\n\0\0");
    place.put("a.bin", b"abc\0def");
    let text = place.fails("read", json!({"path": "a.png"})).await;
    assert!(text.contains("a PNG image of 10 bytes"), "{text}");
    let text = place.fails("read", json!({"path": "a.bin"})).await;
    assert!(text.contains("binary data of 7 bytes"), "{text}");
}

#[tokio::test]
async fn wide_text_and_marks_are_read_as_text() {
    let place = Place::new();
    for (name, encoding, mark) in [
        ("le", Encoding::Utf16Le, &b"\xff\xfe"[..]),
        ("be", Encoding::Utf16Be, b"\xfe\xff"),
        ("utf8", Encoding::Utf8WithMark, b"\xef\xbb\xbf"),
    ] {
        place.put(name, [mark, &encoding.encode("é\r\n🎈\n")].concat());
        assert_eq!(
            place.ok("read", json!({"path": name})).await,
            "     1\té\n     2\t🎈\n",
            "{name}"
        );
    }
}

#[tokio::test]
async fn invalid_text_and_long_lines_are_marked() {
    let place = Place::new();
    place.put("a", b"a\xffb\n");
    let text = place.ok("read", json!({"path": "a"})).await;
    assert!(
        text.contains("a\u{fffd}b") && text.contains("not valid text"),
        "{text}"
    );
    place.put("long", "x".repeat(READ_LINE_CHARS + 5));
    let text = place.ok("read", json!({"path": "long"})).await;
    assert!(text.contains("x [... 5 more characters in this line]"));
}

#[tokio::test]
async fn a_huge_file_gives_its_first_lines_and_the_number_of_all() {
    let place = Place::new();
    place.put("big", "line\n".repeat(READ_LINES + 10));
    let output = place.call("read", json!({"path": "big"})).await;
    assert_eq!(output.status, ToolStatus::Succeeded);
    assert!(output.truncated);
    let end = format!(
        "(Lines 1 to {READ_LINES} of {}; go on with offset {}.)",
        READ_LINES + 10,
        READ_LINES + 1
    );
    assert!(output.text.trim_end().ends_with(&end), "{end}");
}

#[tokio::test]
async fn a_directory_and_a_missing_file_are_told_what_to_do() {
    let place = Place::new();
    place.put("src/reader.rs", "");
    let text = place.fails("read", json!({"path": "src"})).await;
    assert!(text.contains("use `list`"), "{text}");
    let text = place.fails("read", json!({"path": "src/raeder.rs"})).await;
    assert!(
        text.contains("does not exist") && text.contains("reader.rs"),
        "{text}"
    );
}

#[tokio::test]
async fn effects_say_how_far_a_read_reaches() {
    let place = Place::new();
    let effects = place.plan("read", &json!({"path": "a/b"})).await.unwrap();
    assert_eq!(
        (effects.risk, effects.authority),
        (Risk::Read, Authority::Workspace)
    );
    assert_eq!(effects.title, "read a/b");
    let effects = place
        .plan("read", &json!({"path": "../outside/x"}))
        .await
        .unwrap();
    assert_eq!(
        (effects.risk, effects.authority),
        (Risk::Read, Authority::OutsideWorkspace)
    );
    let effects = place
        .plan("read", &json!({"path": "a/id_rsa"}))
        .await
        .unwrap();
    assert_eq!(effects.risk, Risk::Forbidden);
}

#[tokio::test]
async fn a_closed_file_is_not_read_even_when_run_is_called() {
    let place = Place::new();
    place.put("server.pem", "secret");
    let text = place.fails("read", json!({"path": "server.pem"})).await;
    assert!(text.contains("*.pem") && !text.contains("secret"), "{text}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_directory_swapped_for_a_link_between_decision_and_call_makes_it_fail() {
    let place = Place::new();
    place.put("d/f", "inside");
    std::fs::write(place.top.join("outside/f"), "elsewhere").unwrap();
    let arguments = json!({"path": "d/f"});
    let effects = place.plan("read", &arguments).await.unwrap();
    std::fs::rename(place.path("d"), place.path("old")).unwrap();
    std::os::unix::fs::symlink(place.top.join("outside"), place.path("d")).unwrap();
    let output = place.run("read", &arguments, &effects).await;
    assert_eq!(output.status, ToolStatus::Failed);
    assert!(output.text.contains("leads elsewhere"), "{}", output.text);
}
