//! Chat Completions: bodies of answers, and the strict check of requests.

use serde_json::{Value, json};

/// Fields that a request may have at its top.
const REQUEST_FIELDS: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "reasoning_effort",
    "prompt_cache_key",
    "parallel_tool_calls",
    "service_tier",
    "tools",
    "tool_choice",
];

/// Fields that a message may have; strict gateways refuse others.
const MESSAGE_FIELDS: &[&str] = &["role", "content", "name", "tool_calls", "tool_call_id"];

/// One event of a stream: a chunk whose only choice has this delta.
pub fn delta(delta: Value) -> String {
    event(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]))
}

fn event(choices: Value) -> String {
    let chunk = json!({
        "id": "chatcmpl-test", "object": "chat.completion.chunk", "created": 1_766_000_000, "model": "m",
        "choices": choices,
    });
    format!("data: {chunk}\n\n")
}

/// The end of a stream: the finish reason, the usage and the end mark.
pub fn end(finish: &str) -> String {
    let last = event(json!([{"index": 0, "delta": {}, "finish_reason": finish}]));
    let usage = json!({
        "id": "chatcmpl-test", "object": "chat.completion.chunk", "created": 1_766_000_000, "model": "m",
        "choices": [],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
                  "prompt_tokens_details": {"cached_tokens": 40}},
    });
    format!("{last}data: {usage}\n\ndata: [DONE]\n\n")
}

/// A whole stream that says a text, a delta a word.
pub fn text(text: &str) -> String {
    let mut body = delta(json!({"role": "assistant", "content": ""}));
    for word in text.split_inclusive(' ') {
        body.push_str(&delta(json!({"content": word})));
    }
    body + &end("stop")
}

/// The part of a stream that makes a call, its arguments in two pieces.
pub fn call(index: usize, id: &str, name: &str, arguments: &Value) -> String {
    let arguments = arguments.to_string();
    let (first, second) = arguments.split_at(arguments.len() / 2);
    let begin = json!({"index": index, "id": id, "type": "function",
                       "function": {"name": name, "arguments": ""}});
    let piece = |text: &str| {
        delta(json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]}))
    };
    delta(json!({"tool_calls": [begin]})) + &piece(first) + &piece(second)
}

/// A whole stream that makes calls: id, name and arguments of each.
pub fn calls(calls: &[(&str, &str, Value)]) -> String {
    let mut body = delta(json!({"role": "assistant", "content": null}));
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        body.push_str(&call(index, id, name, arguments));
    }
    body + &end("tool_calls")
}

/// What is wrong with a request's body, in English; nothing when it is right.
pub fn faults(body: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let Some(object) = body.as_object() else {
        return vec!["the body is no object".to_owned()];
    };
    for name in object
        .keys()
        .filter(|name| !REQUEST_FIELDS.contains(&name.as_str()))
    {
        faults.push(format!("unknown field {name}"));
    }
    if body["stream"] != true {
        faults.push("stream is not true".to_owned());
    }
    if !body["model"].is_string() {
        faults.push("no model".to_owned());
    }
    match object.get("tools").map(Value::as_array) {
        None if object.contains_key("tool_choice") => {
            faults.push("tool_choice without tools".to_owned());
        }
        None => {}
        Some(Some(tools)) if !tools.is_empty() => {
            faults.extend(tools.iter().filter_map(tool_fault));
        }
        Some(_) => faults.push("tools is there but holds none".to_owned()),
    }
    match body["messages"].as_array() {
        Some(messages) if !messages.is_empty() => message_faults(messages, &mut faults),
        _ => faults.push("no messages".to_owned()),
    }
    faults
}

fn tool_fault(tool: &Value) -> Option<String> {
    let function = &tool["function"];
    let name = function["name"].as_str().unwrap_or_default();
    let named = (1..=64).contains(&name.len())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let right = tool["type"] == "function" && named && function["parameters"]["type"] == "object";
    (!right).then(|| format!("a tool is ill-formed: {tool}"))
}

fn message_faults(messages: &[Value], faults: &mut Vec<String>) {
    // Calls of the last assistant message that have no result yet.
    let mut open: Vec<String> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let mut fault = |text: String| faults.push(format!("message {index}: {text}: {message}"));
        let fields = message.as_object().into_iter().flatten();
        for (name, _) in fields.filter(|(name, _)| !MESSAGE_FIELDS.contains(&name.as_str())) {
            fault(format!("unknown field {name}"));
        }
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" && !open.is_empty() {
            fault(format!("calls without a result before it: {open:?}"));
            open.clear();
        }
        match role {
            "system" if index > 0 => fault("a system message that is not the first".to_owned()),
            "system" | "user" => {
                if is_empty(&message["content"]) {
                    fault("empty content".to_owned());
                }
            }
            "assistant" => match message.get("tool_calls").map(Value::as_array) {
                None if is_empty(&message["content"]) => fault("empty content".to_owned()),
                None => {}
                Some(Some(calls)) if !calls.is_empty() => {
                    open.extend(calls.iter().filter_map(|call| call_id(call, &mut fault)));
                }
                Some(_) => fault("tool_calls is there but holds none".to_owned()),
            },
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                match open.iter().position(|open| open == id) {
                    Some(at) => drop(open.remove(at)),
                    None => fault("a result of no open call".to_owned()),
                }
                if !message["content"].is_string() {
                    fault("a result that is no string".to_owned());
                }
            }
            _ => fault("unknown role".to_owned()),
        }
    }
    if !open.is_empty() {
        faults.push(format!("calls without a result at the end: {open:?}"));
    }
    if messages
        .last()
        .is_some_and(|last| last["role"] == "assistant")
    {
        faults.push("the last message is the assistant's".to_owned());
    }
}

fn call_id(call: &Value, fault: &mut impl FnMut(String)) -> Option<String> {
    let arguments = call["function"]["arguments"].as_str();
    if call["type"] != "function" || !call["function"]["name"].is_string() {
        fault("an ill-formed call".to_owned());
    }
    if arguments.is_none_or(|text| serde_json::from_str::<Value>(text).is_err()) {
        fault("arguments that are no JSON text".to_owned());
    }
    let id = call["id"]
        .as_str()
        .filter(|id| (1..=64).contains(&id.len()));
    if id.is_none() {
        fault("a call id that is empty or too long".to_owned());
    }
    id.map(str::to_owned)
}

fn is_empty(content: &Value) -> bool {
    match content {
        Value::String(text) => text.is_empty(),
        Value::Array(parts) => parts.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(messages: Value) -> Value {
        json!({"model": "m", "stream": true, "messages": messages})
    }

    #[test]
    fn a_right_request_has_no_faults() {
        let calls =
            json!([{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
        let body = request(json!([
            {"role": "system", "content": "s"}, {"role": "user", "content": "u"},
            {"role": "assistant", "content": null, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "a", "content": "r"},
        ]));
        assert_eq!(faults(&body), Vec::<String>::new());
    }

    #[test]
    fn orphans_unanswered_calls_and_empty_lists_are_faults() {
        let orphan = json!([{"role": "user", "content": "u"}, {"role": "tool", "tool_call_id": "a", "content": "r"}]);
        assert!(!faults(&request(orphan)).is_empty());
        let calls =
            json!([{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
        let open = json!([{"role": "assistant", "content": null, "tool_calls": calls}, {"role": "user", "content": "u"}]);
        assert!(!faults(&request(open)).is_empty());
        let mut no_tools = request(json!([{"role": "user", "content": "u"}]));
        no_tools["tools"] = json!([]);
        assert!(!faults(&no_tools).is_empty());
    }
}
