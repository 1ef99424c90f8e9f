//! Tests of [`super`]: what goes over the wire.

use std::sync::Arc;

use crystal_protocol::ids::SessionId;
use serde_json::json;

use super::*;

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        session: SessionId::new("s1"),
        model: "gpt-5.4".into(),
        system: "Be brief.".into(),
        tools: Arc::from([ToolSpec {
            name: "read".into(),
            description: "Reads a file.".into(),
            schema: json!({"type": "object", "properties": {}}),
        }]),
        messages: messages.into_iter().map(Arc::new).collect(),
        turn_start: 0,
        thinking: Thinking::High,
        max_tokens: Some(1000),
    }
}

fn user(text: &str) -> Message {
    Message::User { text: text.into() }
}

fn assistant(text: &str, calls: &[(&str, &str)]) -> Message {
    let call = |(id, arguments): &(&str, &str)| Call {
        id: (*id).into(),
        name: "read".into(),
        arguments: (*arguments).into(),
    };
    Message::Assistant {
        text: text.into(),
        calls: calls.iter().map(call).collect(),
        replay: None,
    }
}

fn result(id: &str, text: &str, failed: bool) -> CallResult {
    CallResult {
        id: id.into(),
        name: "read".into(),
        text: text.into(),
        failed,
    }
}

fn sent(request: &ModelRequest, dialect: Dialect, limit: Option<&str>) -> Value {
    serde_json::from_slice(&body(request, dialect, limit).unwrap()).unwrap()
}

fn conversation() -> Vec<Message> {
    vec![
        user("look"),
        assistant("", &[("c1", ""), ("c2", r#"{"p":1}"#)]),
        Message::Results(vec![
            result("c1", "ok", false),
            result("c2", "no such file", true),
        ]),
        assistant("done", &[]),
        assistant("", &[]),
        user("thanks"),
    ]
}

#[test]
fn a_request_to_openai_is_as_documented() {
    let sent = sent(&request(conversation()), Dialect::OpenAi, None);
    let call = |id, arguments| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}});
    let expected = json!({
        "model": "gpt-5.4",
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_completion_tokens": 1000,
        "reasoning_effort": "high",
        "prompt_cache_key": "s1",
        "parallel_tool_calls": true,
        "tools": [{"type": "function", "function": {
            "name": "read",
            "description": "Reads a file.",
            "parameters": {"type": "object", "properties": {}},
        }}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": null, "tool_calls": [call("c1", "{}"), call("c2", "{\"p\":1}")]},
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
            {"role": "tool", "tool_call_id": "c2", "content": "Error: no such file"},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "thanks"},
        ],
    });
    assert_eq!(sent, expected);
}

#[test]
fn other_servers_get_no_field_that_they_may_refuse() {
    let mut request = request(vec![user("hi")]);
    request.tools = Arc::from([]);
    request.thinking = Thinking::Off;
    let sent = sent(&request, Dialect::Compatible, Some("max_tokens"));
    let expected = json!({
        "model": "gpt-5.4",
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_tokens": 1000,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
    });
    assert_eq!(sent, expected);
}

#[test]
fn a_longer_conversation_begins_with_the_bytes_of_the_shorter() {
    let whole = conversation();
    for shorter in [1, 3, 4] {
        let short = body(&request(whole[..shorter].to_vec()), Dialect::OpenAi, None).unwrap();
        let long = body(&request(whole.clone()), Dialect::OpenAi, None).unwrap();
        let prefix = short.strip_suffix(b"]}").unwrap();
        assert!(long.starts_with(prefix));
    }
}

#[test]
fn the_same_request_gives_the_same_bytes() {
    let bytes = || body(&request(conversation()), Dialect::OpenAi, None).unwrap();
    assert_eq!(bytes(), bytes());
}

#[test]
fn long_ids_are_shortened_alike_in_call_and_result() {
    let id = "x".repeat(65);
    let request = request(vec![
        assistant("", &[(&id, "{}")]),
        Message::Results(vec![result(&id, "ok", false)]),
    ]);
    let sent = sent(&request, Dialect::OpenAi, None);
    let call = &sent["messages"][1]["tool_calls"][0]["id"];
    assert!(call.as_str().unwrap().len() <= MAX_ID_BYTES);
    assert_eq!(call, &sent["messages"][2]["tool_call_id"]);
    assert_eq!(wire_id("kept"), "kept");
}

#[test]
fn arguments_that_are_not_json_are_wrapped() {
    assert_eq!(wire_arguments("{oops"), r#"{"unparsed":"{oops"}"#);
}

#[test]
fn efforts_fall_to_what_the_model_has() {
    let openai = |thinking, model| effort(thinking, model, Dialect::OpenAi);
    assert_eq!(openai(Thinking::Default, "gpt-6-astra"), None);
    assert_eq!(openai(Thinking::Off, "gpt-6-astra"), Some("none"));
    assert_eq!(openai(Thinking::Minimal, "gpt-5-mini"), Some("minimal"));
    assert_eq!(openai(Thinking::Minimal, "gpt-5.4"), Some("low"));
    assert_eq!(openai(Thinking::Medium, "o3"), Some("medium"));
    assert_eq!(openai(Thinking::Maximum, "gpt-6-astra"), Some("max"));
    assert_eq!(openai(Thinking::Maximum, "openai/gpt-5.6"), Some("max"));
    assert_eq!(openai(Thinking::Maximum, "gpt-5.4"), Some("xhigh"));
    assert_eq!(
        openai(Thinking::Maximum, "gpt-5.1-codex-max"),
        Some("xhigh")
    );
    assert_eq!(openai(Thinking::Maximum, "gpt-5.1"), Some("high"));
    assert_eq!(openai(Thinking::Maximum, "qwen3"), Some("high"));
}
