//! Bodies of the wire, whole and in pieces, and the bytes of requests.

use crystal_protocol::{ids::SessionId, session::Thinking, turn::Tokens};
use serde_json::{Value, json};

use super::*;
use crate::providers::{Call, CallResult, Finish, Message, ProviderErrorKind, ToolSpec};

#[derive(Debug, Default, PartialEq)]
struct Answer {
    text: String,
    reasoning: String,
    calls: Vec<(String, Value)>,
    end: Option<Result<(Finish, Option<Tokens>), ProviderErrorKind>>,
}

fn party() -> Party {
    Party {
        name: "p".to_owned(),
        key: None,
    }
}

fn decode(body: &[u8], piece: usize) -> Answer {
    let mut reader = Reader {
        state: State::Done,
        decoder: Decoder::new(party()),
        ready: VecDeque::new(),
    };
    let mut parser = SseParser::default();
    let mut answer = Answer::default();
    let mut failed = None;
    for piece in body.chunks(piece) {
        if failed.is_none() && !reader.decoder.is_closed() {
            failed = reader.feed(&mut parser, piece).err();
        }
    }
    let mut events = Vec::new();
    parser.finish(&mut events);
    if failed.is_none() {
        failed = reader.take(events).err().or_else(|| reader.end().err());
    }
    let mut arguments: Vec<String> = Vec::new();
    for event in reader.ready {
        match event {
            ModelEvent::Text(text) => answer.text.push_str(&text),
            ModelEvent::Reasoning(text) => answer.reasoning.push_str(&text),
            ModelEvent::CallStarted { name, .. } => {
                answer.calls.push((name, Value::Null));
                arguments.push(String::new());
            }
            ModelEvent::CallArguments { index, delta } => arguments[index].push_str(&delta),
            ModelEvent::Finished { finish, usage, .. } => answer.end = Some(Ok((finish, usage))),
        }
    }
    for (call, text) in answer.calls.iter_mut().zip(arguments) {
        call.1 = serde_json::from_str(if text.is_empty() { "{}" } else { &text })
            .unwrap_or(Value::String(text));
    }
    if let Some(error) = failed {
        answer.end = Some(Err(error.kind));
    }
    answer
}

fn body(chunks: &[Value], done: bool) -> Vec<u8> {
    let mut text: String = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    if done {
        text.push_str("data: [DONE]\n\n");
    }
    text.into_bytes()
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

/// The same in one piece and in many.
fn check(bytes: &[u8]) -> Answer {
    let whole = decode(bytes, usize::MAX);
    for piece in [1, 7, 4096] {
        assert_eq!(decode(bytes, piece), whole, "in pieces of {piece}");
    }
    whole
}

#[test]
fn text_reasoning_and_counts_come_through_however_the_body_is_cut() {
    let bytes = body(
        &[
            delta(json!({"role": "assistant", "content": ""})),
            delta(json!({"reasoning_content": "hm", "reasoning": "hm"})),
            delta(json!({"content": "gr\u{fc}\u{df} "})),
            delta(json!({"content": "dich"})),
            finish("stop"),
            json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 15,
                "prompt_tokens_details": {"cached_tokens": 2}, "completion_tokens_details": {"reasoning_tokens": 5}}}),
        ],
        true,
    );
    let answer = check(&bytes);
    assert_eq!(
        (answer.text.as_str(), answer.reasoning.as_str()),
        ("grüß dich", "hm")
    );
    let usage = Tokens {
        input: 7,
        output: 8,
        cached: 2,
        reasoning: 5,
    };
    assert_eq!(answer.end, Some(Ok((Finish::Stop, Some(usage)))));
}

#[test]
fn calls_are_told_apart_by_place_by_id_or_by_a_new_name() {
    let call = |fields: Value| delta(json!({"tool_calls": [fields]}));
    let by_place = body(
        &[
            call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": ""}})),
            call(
                json!({"index": 1, "id": "b", "function": {"name": "list", "arguments": "{\"p\""}}),
            ),
            call(json!({"index": 0, "id": "", "function": {"arguments": "{\"x\":1}"}})),
            call(json!({"index": 1, "function": {"arguments": ":2}"}})),
            finish("tool_calls"),
        ],
        true,
    );
    let expected = vec![
        ("read".to_owned(), json!({"x": 1})),
        ("list".to_owned(), json!({"p": 2})),
    ];
    let answer = check(&by_place);
    assert_eq!(answer.calls, expected);
    assert_eq!(answer.end, Some(Ok((Finish::ToolCalls, None))));

    let same_place = body(
        &[
            call(
                json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"x\":1}"}}),
            ),
            call(
                json!({"index": 0, "id": "b", "function": {"name": "list", "arguments": {"p": 2}}}),
            ),
            finish("stop"),
        ],
        true,
    );
    assert_eq!(check(&same_place).calls, expected);

    let no_place = body(
        &[
            call(json!({"function": {"name": "read", "arguments": "{\"x\""}})),
            call(json!({"function": {"arguments": ":1}"}})),
            call(json!({"function": {"name": "list", "arguments": "{\"p\":2}"}})),
        ],
        true,
    );
    let answer = check(&no_place);
    assert_eq!(answer.calls, expected);
    assert_eq!(answer.end, Some(Ok((Finish::ToolCalls, None))));
}

#[test]
fn an_answer_that_was_cut_is_an_error_and_never_a_stop() {
    let bytes = body(&[delta(json!({"content": "half"}))], false);
    assert_eq!(check(&bytes).end, Some(Err(ProviderErrorKind::Server)));
    assert_eq!(check(b"").end, Some(Err(ProviderErrorKind::Server)));
}

#[test]
fn errors_in_the_stream_win_over_what_came_before() {
    let error = json!({"error": {"message": "rate limit reached", "code": 429}});
    let bytes = body(
        &[delta(json!({"content": "x"})), finish("stop"), error],
        false,
    );
    assert_eq!(check(&bytes).end, Some(Err(ProviderErrorKind::RateLimit)));
    let named = b"event: error\ndata: {\"message\": \"boom\"}\n\n".to_vec();
    assert_eq!(check(&named).end, Some(Err(ProviderErrorKind::Server)));
}

#[test]
fn unknown_reasons_and_refusals_are_told_apart() {
    let bytes = body(&[delta(json!({"refusal": "no"})), finish("stop")], true);
    assert_eq!(check(&bytes).end, Some(Ok((Finish::ContentFilter, None))));
    let bytes = body(&[finish("strange")], true);
    assert_eq!(
        check(&bytes).end,
        Some(Ok((Finish::Other("strange".to_owned()), None)))
    );
    let bytes = body(&[finish("length")], true);
    assert_eq!(check(&bytes).end, Some(Ok((Finish::Length, None))));
}

#[test]
fn a_whole_document_instead_of_a_stream_is_an_answer_or_an_error() {
    let mut decoder = Decoder::new(party());
    let mut out = VecDeque::new();
    let document = json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]});
    decoder
        .whole(document.to_string().as_bytes(), &mut out)
        .unwrap();
    assert_eq!(out.pop_front(), Some(ModelEvent::Text("hi".to_owned())));
    assert!(
        Decoder::new(party())
            .whole(b"{\"error\": \"no\"}", &mut out)
            .is_err()
    );
    assert!(Decoder::new(party()).whole(b"<html>", &mut out).is_err());
}

fn request(messages: Vec<Message>) -> ModelRequest {
    let tool = ToolSpec {
        name: "read".to_owned(),
        description: "d".to_owned(),
        schema: json!({"type": "object"}),
    };
    ModelRequest {
        session: SessionId::new("s1"),
        model: "m".to_owned(),
        system: "system".into(),
        tools: vec![tool].into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        turn_start: 0,
        thinking: Thinking::Default,
        max_tokens: Some(100),
    }
}

fn endpoint(base_uri: &str) -> Endpoint {
    Endpoint {
        protocol: "openai".to_owned(),
        provider: "p".to_owned(),
        base_uri: base_uri.to_owned(),
        api_key: None,
        headers: Vec::new(),
        organization: None,
        project: None,
        token_limit_field: None,
    }
}

fn conversation() -> Vec<Message> {
    let long = "x".repeat(100);
    let call = |id: &str| Call {
        id: id.to_owned(),
        name: "read".to_owned(),
        arguments: "{}".to_owned(),
    };
    let result = |id: &str, failed| CallResult {
        id: id.to_owned(),
        name: "read".to_owned(),
        text: "r".to_owned(),
        failed,
    };
    vec![
        Message::User {
            text: "u".to_owned(),
        },
        Message::Assistant {
            text: String::new(),
            calls: vec![call("a"), call(&long)],
            replay: None,
        },
        Message::Results(vec![result("a", false), result(&long, true)]),
        Message::Assistant {
            text: "done".to_owned(),
            calls: Vec::new(),
            replay: None,
        },
    ]
}

#[test]
fn a_request_has_the_wires_form() {
    let bytes = request::body(
        &endpoint("https://api.openai.com/v1"),
        &request(conversation()),
    );
    let body: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(body["stream_options"], json!({"include_usage": true}));
    assert_eq!(body["max_completion_tokens"], 100);
    assert_eq!(body["prompt_cache_key"], "s1");
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(
        roles,
        ["system", "user", "assistant", "tool", "tool", "assistant"]
    );
    assert_eq!(messages[2]["content"], Value::Null);
    let long = messages[2]["tool_calls"][1]["id"].as_str().unwrap();
    assert!(long.len() <= 64);
    assert_eq!(messages[4]["tool_call_id"], long);
    assert_eq!(messages[4]["content"], "Error: r");
    let elsewhere = request::body(&endpoint("http://localhost:1/v1"), &request(conversation()));
    let elsewhere: Value = serde_json::from_slice(&elsewhere).unwrap();
    assert!(
        elsewhere.get("prompt_cache_key").is_none()
            && elsewhere.get("parallel_tool_calls").is_none()
    );
}

#[test]
fn a_longer_conversation_begins_with_the_bytes_of_a_shorter_one() {
    let endpoint = endpoint("http://x/v1");
    let mut bodies = Vec::new();
    for length in 1..=conversation().len() {
        let mut messages = conversation();
        messages.truncate(length);
        bodies.push(String::from_utf8(request::body(&endpoint, &request(messages))).unwrap());
    }
    for pair in bodies.windows(2) {
        let end = pair[0].rfind(']').unwrap();
        assert!(
            pair[1].starts_with(&pair[0][..end]),
            "{} is no beginning of {}",
            pair[0],
            pair[1]
        );
    }
}
