//! The demo model driven through whole turns with made-up results.

use crystal_protocol::{ids::SessionId, session::Thinking};
use futures_util::StreamExt;
use serde_json::json;

use super::*;
use crate::providers::{Call, CallResult, ToolSpec};

fn request(tools: &[&str], messages: Vec<Message>, turn_start: usize) -> ModelRequest {
    let spec = |name: &&str| ToolSpec {
        name: (*name).to_owned(),
        description: String::new(),
        schema: json!({}),
    };
    ModelRequest {
        session: SessionId::new("s"),
        model: "demo:fast".to_owned(),
        system: "system".into(),
        tools: tools.iter().map(spec).collect(),
        messages: messages.into_iter().map(Arc::new).collect(),
        turn_start,
        thinking: Thinking::Default,
        max_tokens: None,
    }
}

struct Round {
    text: String,
    calls: Vec<Call>,
    end: Result<Finish, ProviderErrorKind>,
}

async fn round(request: ModelRequest) -> Round {
    let mut stream = Demo.stream(request);
    let mut round = Round {
        text: String::new(),
        calls: Vec::new(),
        end: Ok(Finish::Other(String::new())),
    };
    while let Some(event) = stream.next().await {
        match event {
            Ok(ModelEvent::Text(text)) => round.text.push_str(&text),
            Ok(ModelEvent::Reasoning(_)) => {}
            Ok(ModelEvent::CallStarted { id, name, .. }) => {
                round.calls.push(Call {
                    id,
                    name,
                    arguments: String::new(),
                });
            }
            Ok(ModelEvent::CallArguments { delta, .. }) => {
                round.calls.last_mut().unwrap().arguments.push_str(&delta)
            }
            Ok(ModelEvent::Finished { finish, .. }) => round.end = Ok(finish),
            Err(error) => round.end = Err(error.kind),
        }
    }
    round
}

/// Runs a prompt to its last answer; every call gives `result`. The names of the calls, and all text.
async fn turn(tools: &[&str], prompt: &str, result: &str) -> (Vec<String>, String) {
    let mut messages = vec![Message::User {
        text: prompt.to_owned(),
    }];
    let mut names = Vec::new();
    let mut all = String::new();
    for _ in 0..20 {
        let round = round(request(tools, messages.clone(), 0)).await;
        all.push_str(&round.text);
        if round.calls.is_empty() {
            return (names, all);
        }
        names.extend(round.calls.iter().map(|call| call.name.clone()));
        let results = round.calls.iter().map(|call| CallResult {
            id: call.id.clone(),
            name: call.name.clone(),
            text: result.to_owned(),
            failed: false,
        });
        let results = results.collect();
        messages.push(Message::Assistant {
            text: round.text,
            calls: round.calls,
            replay: None,
        });
        messages.push(Message::Results(results));
    }
    panic!("the turn does not end");
}

#[tokio::test]
async fn each_tool_line_is_a_round_and_the_report_has_a_line_for_each() {
    let (names, text) = turn(&["read"], "say first\nread a\nhello\nrun ls\nbye", "RESULT").await;
    assert_eq!(names, ["read", "bash"]);
    assert!(text.contains("no language model"));
    for said in ["first", "hello", "bye", "`read a`", "`run ls`", "RESULT"] {
        assert_eq!(text.matches(said).count().min(1), 1, "{said} is in {text}");
    }
    assert_eq!(text.matches("hello").count(), 1);
}

#[tokio::test]
async fn a_prompt_without_commands_makes_it_explore() {
    let (names, text) = turn(
        &["list", "grep", "read"],
        "what is this?",
        "file  README.md  3 bytes\nsrc/a.rs",
    )
    .await;
    assert_eq!(names, ["list", "grep", "read", "read"]);
    assert!(text.contains("what is this?"));
}

#[tokio::test]
async fn commands_of_an_earlier_turn_are_not_done_again() {
    let messages = vec![
        Message::User {
            text: "read a\nread b".to_owned(),
        },
        Message::Assistant {
            text: "cut short".to_owned(),
            calls: Vec::new(),
            replay: None,
        },
        Message::User {
            text: "say done".to_owned(),
        },
    ];
    let round = round(request(&[], messages, 2)).await;
    assert!(round.calls.is_empty());
    assert_eq!(round.text, "done\n");
}

#[tokio::test]
async fn it_fails_as_it_is_asked_and_only_when_its_place_has_come() {
    let ask = |text: &str| {
        request(
            &[],
            vec![Message::User {
                text: text.to_owned(),
            }],
            0,
        )
    };
    assert_eq!(
        round(ask("fail auth")).await.end,
        Err(ProviderErrorKind::Auth)
    );
    assert_eq!(
        round(ask("say x\nfail length")).await.end,
        Ok(Finish::Length)
    );
    let first = round(ask("read a\nfail auth")).await;
    assert_eq!((first.end, first.calls.len()), (Ok(Finish::ToolCalls), 1));
}

#[tokio::test]
async fn a_stream_has_as_many_deltas_as_it_was_asked_for() {
    let events: Vec<_> = Demo
        .stream(request(
            &[],
            vec![Message::User {
                text: "stream 500".to_owned(),
            }],
            0,
        ))
        .collect()
        .await;
    let words = events
        .iter()
        .filter(|event| matches!(event, Ok(ModelEvent::Text(text)) if text.starts_with("word")));
    assert_eq!(words.count(), 500);
}

#[tokio::test]
async fn words_before_a_call_are_streamed_once() {
    let text = "stream 3\nread a".to_owned();
    let round = round(request(&["read"], vec![Message::User { text }], 0)).await;
    assert_eq!(round.text.matches("word").count(), 3);
    assert_eq!(round.calls.len(), 1);
}
