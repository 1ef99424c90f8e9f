//! Tests of [`super`]: what the quirks of servers become.

use proptest::prelude::*;

use super::*;
use crate::{
    config::{Endpoint, Secret},
    providers::{Call, http::decode_pieces},
};

const DETAILS: &str = include_str!("../testdata/details.sse");
const PARALLEL: &str = include_str!("../testdata/parallel.sse");
const LATE_ERROR: &str = include_str!("../testdata/late-error.sse");

#[derive(Debug, Default, PartialEq)]
struct Answer {
    text: String,
    reasoning: String,
    calls: Vec<Call>,
    finish: Option<Finish>,
    usage: Option<Tokens>,
    error: Option<ProviderError>,
}

fn party() -> Party {
    Party::new(&Endpoint {
        protocol: "openai".into(),
        provider: "acme".into(),
        base_uri: String::new(),
        api_key: Some(Secret::new("sk-secret")),
        headers: Vec::new(),
        organization: None,
        project: None,
        token_limit_field: None,
    })
}

fn answer(pieces: &[&[u8]]) -> Answer {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let decoder = ChatDecoder::new(party());
    let (events, error) = runtime.block_on(decode_pieces(decoder, party(), pieces));
    let mut answer = Answer {
        error,
        ..Answer::default()
    };
    for event in events {
        match event {
            ModelEvent::Text(text) => answer.text.push_str(&text),
            ModelEvent::Reasoning(text) => answer.reasoning.push_str(&text),
            ModelEvent::CallStarted { index, id, name } => {
                assert_eq!(index, answer.calls.len());
                answer.calls.push(Call {
                    id,
                    name,
                    arguments: String::new(),
                });
            }
            ModelEvent::CallArguments { index, delta } => {
                answer.calls[index].arguments.push_str(&delta);
            }
            ModelEvent::Finished { finish, usage, .. } => {
                answer.finish = Some(finish);
                answer.usage = usage;
            }
        }
    }
    answer
}

fn body(text: &str) -> Answer {
    answer(&[text.as_bytes()])
}

/// A stream of these chunks and the usual end.
fn chunks(chunks: &[&str]) -> Answer {
    let mut text = String::new();
    for chunk in chunks {
        text.push_str(&format!("data: {chunk}\n\n"));
    }
    body(&(text + "data: [DONE]\n\n"))
}

/// A stream of these deltas and the usual end.
fn deltas(deltas: &[&str]) -> Answer {
    let deltas: Vec<String> = deltas
        .iter()
        .map(|delta| format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#))
        .collect();
    chunks(&deltas.iter().map(String::as_str).collect::<Vec<_>>())
}

fn calls(answer: &Answer) -> Vec<(&str, &str, &str)> {
    answer
        .calls
        .iter()
        .map(|call| {
            (
                call.id.as_str(),
                call.name.as_str(),
                call.arguments.as_str(),
            )
        })
        .collect()
}

#[test]
fn text_reasoning_and_counts_are_read_once() {
    let answer = body(DETAILS);
    assert_eq!(answer.text, "Ja, é😀");
    assert_eq!(answer.reasoning, "Think twice.");
    assert_eq!(answer.finish, Some(Finish::Stop));
    let usage = Tokens {
        input: 7,
        output: 5,
        cached: 4,
        reasoning: 2,
    };
    assert_eq!(answer.usage, Some(usage));
}

#[test]
fn interleaved_calls_are_kept_apart_by_index() {
    let answer = body(PARALLEL);
    let expected = [
        ("a1", "read", r#"{"path":"a"}"#),
        ("a2", "grep", r#"{"pattern":"x"}"#),
    ];
    assert_eq!(calls(&answer), expected);
    assert_eq!(answer.finish, Some(Finish::ToolCalls));
    assert_eq!(answer.usage.map(|usage| usage.input), Some(9));
}

#[test]
fn an_error_wins_over_a_finish_before_it() {
    let error = body(LATE_ERROR).error.unwrap();
    assert_eq!(error.kind, ProviderErrorKind::BadRequest);
    assert!(error.message.contains("Budget reached"), "{error}");
}

#[test]
fn calls_without_index_or_id_are_told_apart_by_name() {
    let answer = deltas(&[
        r#"{"tool_calls":[{"function":{"name":"read","arguments":"{\"a\""}}]}"#,
        r#"{"tool_calls":[{"function":{"arguments":":1}"}}]}"#,
        r#"{"tool_calls":[{"function":{"name":"list","arguments":{"path":"."}}}]}"#,
    ]);
    let expected = [
        ("call_1", "read", r#"{"a":1}"#),
        ("call_2", "list", r#"{"path":"."}"#),
    ];
    assert_eq!(calls(&answer), expected);
    assert_eq!(answer.finish, Some(Finish::ToolCalls));
}

#[test]
fn calls_without_index_are_keyed_by_id() {
    let answer = deltas(&[
        r#"{"tool_calls":[{"id":"x","function":{"name":"read","arguments":"{"}}]}"#,
        r#"{"tool_calls":[{"id":"y","function":{"name":"list","arguments":"{"}}]}"#,
        r#"{"tool_calls":[{"id":"x","function":{"arguments":"}"}},{"id":"y","function":{"arguments":"}"}}]}"#,
    ]);
    assert_eq!(calls(&answer), [("x", "read", "{}"), ("y", "list", "{}")]);
}

#[test]
fn another_id_at_a_finished_index_is_another_call() {
    let answer = deltas(&[
        r#"{"tool_calls":[{"index":0,"id":"x","function":{"name":"read","arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"index":0,"id":"y","function":{"name":"read","arguments":"{\"a\":1}"}}]}"#,
    ]);
    assert_eq!(
        calls(&answer),
        [("x", "read", "{}"), ("y", "read", r#"{"a":1}"#)]
    );
}

#[test]
fn ids_are_unique_within_an_answer() {
    let answer = deltas(&[
        r#"{"tool_calls":[{"index":0,"id":"call_2","function":{"name":"a","arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"index":1,"function":{"name":"b","arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"index":2,"id":"call_2","function":{"name":"c","arguments":"{}"}}]}"#,
    ]);
    let mut ids: Vec<_> = answer.calls.iter().map(|call| &call.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    assert_eq!(answer.calls[0].id, "call_2");
}

#[test]
fn a_name_that_comes_late_still_begins_its_call() {
    let answer = deltas(&[
        r#"{"tool_calls":[{"index":0,"id":"x","function":{"arguments":"{\"a\":"}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"name":"read","arguments":"1}"}}]}"#,
    ]);
    assert_eq!(calls(&answer), [("x", "read", r#"{"a":1}"#)]);
}

#[test]
fn a_call_that_never_gets_a_name_breaks_the_answer() {
    let answer =
        deltas(&[r#"{"tool_calls":[{"index":0,"id":"x","function":{"arguments":"{}"}}]}"#]);
    assert_eq!(answer.error.unwrap().kind, ProviderErrorKind::Server);
}

#[test]
fn the_older_form_of_a_call_is_read() {
    let answer = chunks(&[
        r#"{"choices":[{"delta":{"function_call":{"name":"read","arguments":"{}"}},"finish_reason":"function_call"}]}"#,
    ]);
    assert_eq!(calls(&answer), [("call_1", "read", "{}")]);
    assert_eq!(answer.finish, Some(Finish::ToolCalls));
}

#[test]
fn stop_with_calls_means_calls() {
    let answer = chunks(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{}"}}]},"finish_reason":"stop"}]}"#,
    ]);
    assert_eq!(answer.finish, Some(Finish::ToolCalls));
}

#[test]
fn content_may_be_a_list_with_thinking() {
    let answer = deltas(&[
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"yes"}]}"#,
    ]);
    assert_eq!(
        (answer.reasoning.as_str(), answer.text.as_str()),
        ("hm", "yes")
    );
}

#[test]
fn a_refusal_is_text_that_a_filter_ended() {
    let answer = deltas(&[r#"{"refusal":"I will not."}"#]);
    assert_eq!(answer.text, "I will not.");
    assert_eq!(answer.finish, Some(Finish::ContentFilter));
}

#[test]
fn reasons_to_finish_are_mapped() {
    let finish = |reason: &str| {
        let chunk = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
        chunks(&[&chunk])
    };
    for (reason, expected) in [
        ("stop", Finish::Stop),
        ("eos", Finish::Stop),
        ("length", Finish::Length),
        ("content_filter", Finish::ContentFilter),
        ("sensitive", Finish::ContentFilter),
        ("dizzy", Finish::Other("dizzy".into())),
    ] {
        assert_eq!(finish(reason).finish, Some(expected), "{reason}");
    }
    for (reason, kind) in [
        ("error", ProviderErrorKind::Server),
        ("network_error", ProviderErrorKind::Server),
        (
            "insufficient_system_resource",
            ProviderErrorKind::Overloaded,
        ),
    ] {
        assert_eq!(finish(reason).error.unwrap().kind, kind, "{reason}");
    }
}

#[test]
fn the_end_mark_alone_is_an_end_and_its_lack_is_none() {
    assert_eq!(deltas(&[r#"{"content":"a"}"#]).finish, Some(Finish::Stop));
    let cut = body("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n");
    let error = cut.error.unwrap();
    assert_eq!(error.kind, ProviderErrorKind::Server);
    assert!(error.message.contains("stream ended early"), "{error}");
    let unmarked = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}";
    assert_eq!(body(unmarked).finish, Some(Finish::Stop));
}

#[test]
fn reasoning_beside_the_completion_is_added() {
    let answer = chunks(&[
        r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":22,"completion_tokens_details":{"reasoning_tokens":7}}}"#,
    ]);
    assert_eq!(answer.usage.map(|usage| usage.output), Some(12));
}

#[test]
fn the_last_counts_win() {
    let answer = chunks(&[
        r#"{"choices":[{"delta":{},"usage":{"prompt_tokens":1,"completion_tokens":1}}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":8,"prompt_cache_hit_tokens":1}}"#,
        r#"{"choices":[],"usage":null}"#,
    ]);
    let usage = answer.usage.unwrap();
    assert_eq!((usage.output, usage.cached), (8, 1));
    assert_eq!(deltas(&["{}"]).usage, None);
}

#[test]
fn a_document_instead_of_a_stream_is_an_answer_or_an_error() {
    let whole = body(
        r#"{"object":"chat.completion","choices":[{"message":{"role":"assistant","content":"hi","tool_calls":[{"id":"x","type":"function","function":{"name":"a","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
    );
    assert_eq!(whole.text, "hi");
    assert_eq!(calls(&whole), [("x", "a", "{}")]);
    assert_eq!(whole.finish, Some(Finish::ToolCalls));
    for (text, kind) in [
        (
            r#"{"error":{"code":429,"message":"later"}}"#,
            ProviderErrorKind::RateLimit,
        ),
        (r#"{"message":"nope"}"#, ProviderErrorKind::Server),
        (
            "<html><title>Gateway</title></html>",
            ProviderErrorKind::Server,
        ),
    ] {
        assert_eq!(body(text).error.unwrap().kind, kind, "{text}");
    }
}

#[test]
fn errors_in_a_stream_come_in_several_shapes() {
    for text in [
        "event: error\ndata: {\"error\":{\"message\":\"gone\"}}\n\n",
        "event: error\ndata: {\"message\":\"gone\"}\n\n",
        "data: {\"error\":\"gone\"}\n\n",
        "data: {\"object\":\"error\",\"message\":\"gone\"}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"error\":{\"message\":\"gone\"},\"finish_reason\":\"error\"}]}\n\n",
    ] {
        let error = body(text).error.unwrap();
        assert!(error.message.contains("gone"), "{text}: {error}");
    }
}

#[test]
fn an_event_that_is_not_json_breaks_the_answer() {
    let error = body("data: {oops}\n\ndata: [DONE]\n\n").error.unwrap();
    assert_eq!(error.kind, ProviderErrorKind::Server);
}

#[test]
fn half_a_stream_is_an_error() {
    for text in [DETAILS, PARALLEL] {
        let half = answer(&[&text.as_bytes()[..text.len() / 2]]);
        assert!(half.error.is_some(), "{half:?}");
    }
}

proptest! {
    #[test]
    fn pieces_of_any_size_give_the_same_answer(size in 1usize..200) {
        for text in [DETAILS, PARALLEL, LATE_ERROR] {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            prop_assert_eq!(answer(&pieces), body(text));
        }
    }
}
