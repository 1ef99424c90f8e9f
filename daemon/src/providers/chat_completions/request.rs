//! What is sent: the body of a Chat Completions request.
//!
//! The same request gives the same bytes, and `messages` comes last, so that a longer conversation's body begins with the
//! bytes of the shorter one and caches of prefixes hit.

use std::borrow::Cow;

use crystal_protocol::session::Thinking;
use serde::{
    Serialize, Serializer,
    de::IgnoredAny,
    ser::{SerializeMap, SerializeSeq},
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::providers::{
    Call, CallResult, Message, ModelRequest, ProviderError, ProviderErrorKind, ToolSpec,
};

/// Longest id of a call that OpenAI takes, in bytes.
const MAX_ID_BYTES: usize = 64;

/// Which optional fields a server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI itself.
    OpenAi,
    /// Any other server; strict ones refuse fields that they do not know.
    Compatible,
}

impl Dialect {
    /// The dialect of a host.
    pub(super) fn of(host: &str) -> Self {
        if host.eq_ignore_ascii_case("api.openai.com") {
            Self::OpenAi
        } else {
            Self::Compatible
        }
    }
}

/// The body as JSON. `limit_field` is the name of the field that limits generated tokens, where it is not OpenAI's.
pub(super) fn body(
    request: &ModelRequest,
    dialect: Dialect,
    limit_field: Option<&str>,
) -> Result<Vec<u8>, ProviderError> {
    let body = Body {
        request,
        dialect,
        limit_field: limit_field.unwrap_or("max_completion_tokens"),
    };
    serde_json::to_vec(&body).map_err(|error| {
        ProviderError::new(
            ProviderErrorKind::BadRequest,
            format!("Change the conversation: it cannot be written as JSON ({error})."),
        )
    })
}

struct Body<'a> {
    request: &'a ModelRequest,
    dialect: Dialect,
    limit_field: &'a str,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let request = self.request;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", &request.model)?;
        map.serialize_entry("stream", &true)?;
        map.serialize_entry(
            "stream_options",
            &StreamOptions {
                include_usage: true,
            },
        )?;
        if let Some(limit) = request.max_tokens {
            map.serialize_entry(self.limit_field, &limit)?;
        }
        if let Some(effort) = effort(request.thinking, &request.model, self.dialect) {
            map.serialize_entry("reasoning_effort", effort)?;
        }
        if self.dialect == Dialect::OpenAi {
            map.serialize_entry("prompt_cache_key", request.session.as_str())?;
        }
        if !request.tools.is_empty() {
            map.serialize_entry("parallel_tool_calls", &true)?;
            map.serialize_entry("tools", &Tools(&request.tools))?;
        }
        map.serialize_entry("messages", &Messages(request))?;
        map.end()
    }
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

struct Tools<'a>(&'a [ToolSpec]);

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|tool| WireTool {
            kind: "function",
            function: WireFunction {
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.schema,
            },
        }))
    }
}

#[derive(Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: &'a str,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireCallFunction<'a>,
}

#[derive(Serialize)]
struct WireCallFunction<'a> {
    name: &'a str,
    arguments: Cow<'a, str>,
}

struct Messages<'a>(&'a ModelRequest);

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        if !self.0.system.is_empty() {
            list.serialize_element(&WireMessage::System {
                content: &self.0.system,
            })?;
        }
        for message in &self.0.messages {
            match message.as_ref() {
                Message::User { text } => {
                    list.serialize_element(&WireMessage::User { content: text })?;
                }
                // An assistant message that says nothing is refused.
                Message::Assistant { text, calls, .. } if text.is_empty() && calls.is_empty() => {}
                Message::Assistant { text, calls, .. } => {
                    list.serialize_element(&WireMessage::Assistant {
                        content: (!text.is_empty()).then_some(text),
                        tool_calls: calls.iter().map(wire_call).collect(),
                    })?;
                }
                Message::Results(results) => {
                    for result in results {
                        list.serialize_element(&WireMessage::Tool {
                            tool_call_id: wire_id(&result.id),
                            content: wire_result(result),
                        })?;
                    }
                }
            }
        }
        list.end()
    }
}

fn wire_call(call: &Call) -> WireCall<'_> {
    WireCall {
        id: wire_id(&call.id),
        kind: "function",
        function: WireCallFunction {
            name: &call.name,
            arguments: wire_arguments(&call.arguments),
        },
    }
}

/// Many servers parse the arguments of earlier calls and fail for ever on one that is not JSON.
fn wire_arguments(arguments: &str) -> Cow<'_, str> {
    if arguments.trim().is_empty() {
        return Cow::Borrowed("{}");
    }
    if serde_json::from_str::<IgnoredAny>(arguments).is_ok() {
        return Cow::Borrowed(arguments);
    }
    Cow::Owned(serde_json::json!({ "unparsed": arguments }).to_string())
}

fn wire_id(id: &str) -> Cow<'_, str> {
    if id.len() <= MAX_ID_BYTES {
        return Cow::Borrowed(id);
    }
    let hash = Sha256::digest(id.as_bytes());
    let mut short = String::from("call_");
    for byte in &hash[..16] {
        short.push_str(&format!("{byte:02x}"));
    }
    Cow::Owned(short)
}

fn wire_result(result: &CallResult) -> Cow<'_, str> {
    if result.failed && !result.text.starts_with("Error") {
        return Cow::Owned(format!("Error: {}", result.text));
    }
    Cow::Borrowed(&result.text)
}

/// The nearest effort that the model has, or none where the server's default is meant or nothing is known.
fn effort(thinking: Thinking, model: &str, dialect: Dialect) -> Option<&'static str> {
    let version = gpt_version(model);
    match thinking {
        Thinking::Default => None,
        Thinking::Off => (dialect == Dialect::OpenAi).then_some("none"),
        Thinking::Minimal if version == Some((5, 0)) => Some("minimal"),
        Thinking::Minimal | Thinking::Low => Some("low"),
        Thinking::Medium => Some("medium"),
        Thinking::High => Some("high"),
        Thinking::Maximum => match version {
            Some(version) if version >= (5, 6) => Some("max"),
            Some(version) if version >= (5, 2) => Some("xhigh"),
            Some((5, 1)) if model.contains("codex-max") => Some("xhigh"),
            _ => Some("high"),
        },
    }
}

/// Major and minor version of `gpt-M.N-anything`, also behind the name of a vendor.
fn gpt_version(model: &str) -> Option<(u32, u32)> {
    let name = model.rsplit('/').next()?.strip_prefix("gpt-")?;
    let version = name.split('-').next()?;
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests;
