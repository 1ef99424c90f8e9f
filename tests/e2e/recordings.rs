//! Recorded Chat Completions bodies, where they lie beside the repository, run whole through the daemon.

use crystal_protocol::{item::ItemBody, turn::TurnReason};
use crystal_tests::{
    daemon::{Daemon, Options},
    driving::tool_calls,
    home::workspace_root,
    model_server::{Answer, ModelServer, chat},
    run_test,
    workspace::Workspace,
};
use serde_json::{Value, json};

/// Answers after the recorded one: to the results of its calls, or to a retry.
const FURTHER_ANSWERS: usize = 3;

#[test]
fn recorded_bodies_mean_what_their_index_says() {
    // Optional: only a development machine has them.
    let dir = workspace_root().with_file_name("shared").join("fixtures");
    let Ok(index) = std::fs::read_to_string(dir.join("INDEX.jsonl")) else {
        println!(
            "no recorded bodies at {}: nothing was tested",
            dir.display()
        );
        return;
    };
    let entries = index
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    for entry in entries.filter(|entry| entry["protocol"] == "chat") {
        let body = std::fs::read(dir.join(entry["file"].as_str().unwrap())).unwrap();
        let status = u16::try_from(entry["status"].as_u64().unwrap()).unwrap();
        run_test(async {
            replay(&entry, status, body).await;
        });
    }
}

async fn replay(entry: &Value, status: u16, body: Vec<u8>) {
    let (file, expect) = (&entry["file"], &entry["expect"]);
    let recorded = if status == 200 {
        Answer::sse(body)
    } else {
        Answer::status(status, body)
    };
    let mut script = vec![recorded];
    script.extend((0..FURTHER_ANSWERS).map(|_| Answer::sse(chat::text("afterwards"))));
    let server = ModelServer::start(script).await;
    let options = Options {
        providers: Some(server.providers()),
        ..Options::default()
    };
    let daemon = Daemon::start_with(options).await;
    let workspace = Workspace::new();
    let mut client = daemon.client().await;
    let more = json!({"provider": "mock", "model": "m", "approval": "full"});
    let session = client.create(&workspace, more).await;
    let end = client.run_turn(&session, "go").await;
    let items = client.items(&session).await;

    let mut text = String::new();
    let mut reasoning = String::new();
    for item in &items {
        match &item.body {
            ItemBody::AssistantMessage { text: said, .. } => text.push_str(said),
            ItemBody::Reasoning { text: thought } => reasoning.push_str(thought),
            _ => {}
        }
    }
    let finish = expect["finish"].as_str().unwrap();
    let reason = match finish {
        "stop" | "tool_calls" => TurnReason::Completed,
        "length" => TurnReason::Length,
        "content_filter" => TurnReason::ContentFilter,
        _ if expect["error"]["kind"] == "context_overflow" => TurnReason::ContextOverflow,
        _ => TurnReason::Error,
    };
    assert_eq!(end.reason, reason, "{file}: {end:?}");
    let calls = tool_calls(&items);
    let expected = expect["tool_calls"].as_array().cloned().unwrap_or_default();
    assert_eq!(calls.len(), expected.len(), "{file}");
    for (call, expected) in calls.iter().zip(&expected) {
        assert_eq!(call.name, expected["name"], "{file}");
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        assert_eq!(arguments, expected["arguments"], "{file}");
    }
    if finish != "error" {
        let without_spaces = |text: &str| text.split_whitespace().collect::<String>();
        let said = expect["text"].as_str().unwrap();
        assert!(text.starts_with(said), "{file}: {text}");
        let thought = expect["reasoning"].as_str().unwrap();
        assert_eq!(
            without_spaces(&reasoning),
            without_spaces(thought),
            "{file}"
        );
    }
    if reason == TurnReason::Error {
        let kind = expect["error"]["kind"]
            .as_str()
            .unwrap()
            .replace("bad_request", "badRequest");
        assert_eq!(
            end.error.unwrap().kind,
            kind.replace("rate_limit", "rateLimit"),
            "{file}"
        );
    }
}
