//! Events in, text out.

use serde_json::{Value, json};

use super::{inquiry::Hints, *};

fn transcript() -> Transcript {
    let hints = Hints {
        program: "crystal-ctl".to_owned(),
        session: crystal_protocol::ids::SessionId::new("s-1"),
    };
    Transcript::new(Some(hints), Thinking::Hidden)
}

fn event(value: Value) -> Event {
    serde_json::from_value(value).unwrap()
}

fn message(id: &str, text: &str, done: bool) -> Value {
    let mut item = json!({
        "id": id, "kind": "assistantMessage", "text": text, "createdAt": "2026-01-01T00:00:00.000Z",
    });
    if done {
        item["completedAt"] = json!("2026-01-01T00:00:01.000Z");
    }
    item
}

fn play(transcript: &mut Transcript, events: &[Value]) -> (String, String) {
    let (mut answer, mut rest) = (String::new(), String::new());
    for value in events {
        for piece in transcript.event(&event(value.clone())) {
            match piece.channel {
                Channel::Answer => answer.push_str(&piece.text),
                Channel::Rest => rest.push_str(&piece.text),
            }
        }
    }
    (answer, rest)
}

#[test]
fn streamed_text_is_printed_once_and_ends_its_line() {
    let events = [
        json!({"type": "itemStarted", "item": message("i1", "", false)}),
        json!({"type": "itemDelta", "item": "i1", "field": "text", "delta": "Hel"}),
        json!({"type": "itemDelta", "item": "i1", "field": "text", "delta": "lo"}),
        json!({"type": "itemCompleted", "item": message("i1", "Hello.", true)}),
    ];
    let (answer, rest) = play(&mut transcript(), &events);
    assert_eq!((answer.as_str(), rest.as_str()), ("Hello.\n", ""));
}

#[test]
fn a_message_whose_deltas_were_missed_is_printed_whole() {
    let events = [json!({"type": "itemCompleted", "item": message("i1", "All\n", true)})];
    assert_eq!(play(&mut transcript(), &events).0, "All\n");
}

#[test]
fn a_message_cut_for_its_size_is_not_printed_twice() {
    let mut cut = message("i1", "tail", true);
    cut["cut"] = json!({"text": 8});
    let events = [
        json!({"type": "itemStarted", "item": message("i1", "", false)}),
        json!({"type": "itemDelta", "item": "i1", "field": "text", "delta": "headtail"}),
        json!({"type": "itemCompleted", "item": cut}),
    ];
    assert_eq!(play(&mut transcript(), &events).0, "headtail\n");
}

#[test]
fn a_discarded_message_is_said_to_be_void() {
    let events = [
        json!({"type": "itemStarted", "item": message("i1", "", false)}),
        json!({"type": "itemDelta", "item": "i1", "field": "text", "delta": "No"}),
        json!({"type": "itemDiscarded", "item": "i1", "reason": "retry"}),
    ];
    let (answer, rest) = play(&mut transcript(), &events);
    assert_eq!(answer, "No\n");
    assert!(rest.contains("does not count"), "{rest}");
}

#[test]
fn an_approval_shows_the_commands_that_answer_it() {
    let approval = json!({
        "id": "a1", "callId": "c1", "tool": "bash", "title": "rm x", "arguments": {},
        "risk": "write", "authority": "workspace", "reason": "It removes a file.", "summary": "rm x",
        "offered": ["once", "session"], "rules": {"session": "rm in this directory"},
        "requestedAt": "2026-01-01T00:00:00.000Z",
    });
    let events = [json!({"type": "approvalRequested", "approval": approval})];
    let (_, rest) = play(&mut transcript(), &events);
    assert!(rest.contains("crystal-ctl approve s-1 a1\n"), "{rest}");
    assert!(
        rest.contains("--session for rm in this directory"),
        "{rest}"
    );
    assert!(rest.contains("crystal-ctl deny s-1 a1"), "{rest}");
    assert!(!rest.contains("--always"), "{rest}");
}

#[test]
fn a_message_that_another_one_interrupts_is_printed_once() {
    let events = [
        json!({"type": "itemStarted", "item": message("i1", "", false)}),
        json!({"type": "itemDelta", "item": "i1", "field": "text", "delta": "first"}),
        json!({"type": "itemStarted", "item": message("i2", "", false)}),
        json!({"type": "itemDelta", "item": "i2", "field": "text", "delta": "second"}),
        json!({"type": "itemCompleted", "item": message("i1", "first", true)}),
        json!({"type": "itemCompleted", "item": message("i2", "second", true)}),
    ];
    assert_eq!(play(&mut transcript(), &events).0, "first\nsecond\n");
}
