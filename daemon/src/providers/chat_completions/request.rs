//! The request of the Chat Completions wire. Equal input gives equal bytes, and a longer conversation begins with the bytes of
//! a shorter one, so that provider caches hit.

use std::hash::{DefaultHasher, Hash, Hasher};

use crystal_protocol::session::Thinking;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    config::Endpoint,
    providers::{Call, CallResult, Message, ModelRequest},
};

/// Longest call id that the wire takes, in characters.
const CALL_ID_CHARS: usize = 64;

/// The host that knows the fields which only OpenAI has.
const OPENAI_HOST: &str = "api.openai.com";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    messages: Vec<Value>,
    #[serde(flatten)]
    token_limit: serde_json::Map<String, Value>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// The request's JSON.
pub(super) fn body(endpoint: &Endpoint, request: &ModelRequest) -> Vec<u8> {
    let is_openai = endpoint.base_uri.contains(OPENAI_HOST);
    let mut token_limit = serde_json::Map::new();
    if let Some(max) = request.max_tokens {
        let field = endpoint
            .token_limit_field
            .as_deref()
            .unwrap_or("max_completion_tokens");
        token_limit.insert(field.to_owned(), max.into());
    }
    let body = Body {
        model: &request.model,
        stream: true,
        stream_options: StreamOptions {
            include_usage: true,
        },
        reasoning_effort: effort(request.thinking),
        prompt_cache_key: is_openai.then_some(request.session.as_str()),
        parallel_tool_calls: (is_openai && !request.tools.is_empty()).then_some(true),
        tools: request.tools.iter().map(tool).collect(),
        messages: messages(request),
        token_limit,
    };
    // Strings, numbers and string-keyed maps always serialise; an empty body would be refused with the reason.
    serde_json::to_vec(&body).unwrap_or_default()
}

fn effort(thinking: Thinking) -> Option<&'static str> {
    match thinking {
        Thinking::Default => None,
        Thinking::Off => Some("none"),
        Thinking::Minimal | Thinking::Low => Some("low"),
        Thinking::Medium => Some("medium"),
        Thinking::High | Thinking::Maximum => Some("high"),
    }
}

fn tool(tool: &crate::providers::ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
    })
}

fn messages(request: &ModelRequest) -> Vec<Value> {
    let mut out = vec![json!({"role": "system", "content": &*request.system})];
    for message in &request.messages {
        match &**message {
            Message::User { text } => out.push(json!({"role": "user", "content": text})),
            Message::Assistant { text, calls, .. } if calls.is_empty() => {
                out.push(json!({"role": "assistant", "content": text}));
            }
            Message::Assistant { text, calls, .. } => {
                let content = if text.is_empty() {
                    Value::Null
                } else {
                    Value::String(text.clone())
                };
                let calls: Vec<Value> = calls.iter().map(call).collect();
                out.push(json!({"role": "assistant", "content": content, "tool_calls": calls}));
            }
            Message::Results(results) => out.extend(results.iter().map(result)),
        }
    }
    out
}

fn call(call: &Call) -> Value {
    json!({
        "id": call_id(&call.id),
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    })
}

fn result(result: &CallResult) -> Value {
    let text = if result.failed {
        format!("Error: {}", result.text)
    } else {
        result.text.clone()
    };
    json!({"role": "tool", "tool_call_id": call_id(&result.id), "content": text})
}

/// An id that the wire takes: a longer one of another wire becomes one that is the same each time.
fn call_id(id: &str) -> String {
    if id.chars().count() <= CALL_ID_CHARS {
        return id.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    let head: String = id.chars().take(CALL_ID_CHARS - 17).collect();
    format!("{head}_{:016x}", hasher.finish())
}
