//! What is received: a chunk of a Chat Completions stream, lenient about everything that servers do differently. A whole
//! answer has the same shape, with `message` in the place of `delta`.

use crystal_protocol::turn::Tokens;
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(super) struct Chunk {
    #[serde(default)]
    pub(super) choices: Option<Vec<Choice>>,
    #[serde(default)]
    pub(super) usage: Option<Value>,
    #[serde(default)]
    pub(super) error: Option<Value>,
    /// vLLM sends an error without an `error` field under this kind.
    #[serde(default)]
    pub(super) object: Option<Value>,
    #[serde(default)]
    x_groq: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    #[serde(default, alias = "message")]
    pub(super) delta: Option<Delta>,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
    #[serde(default)]
    usage: Option<Value>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta {
    #[serde(default)]
    pub(super) content: Option<Content>,
    #[serde(default)]
    pub(super) refusal: Option<String>,
    #[serde(default)]
    reasoning_content: Option<Value>,
    #[serde(default)]
    reasoning: Option<Value>,
    #[serde(default)]
    reasoning_details: Option<Value>,
    #[serde(default)]
    pub(super) tool_calls: Option<Vec<CallDelta>>,
    /// The form before tools.
    #[serde(default)]
    pub(super) function_call: Option<FunctionDelta>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Value>),
    Unknown(serde::de::IgnoredAny),
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct CallDelta {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) function: Option<FunctionDelta>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionDelta {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) arguments: Option<Value>,
}

impl FunctionDelta {
    /// The arguments as JSON text; some servers give the object itself.
    pub(super) fn arguments_text(&mut self) -> String {
        match self.arguments.take() {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(value) => value.to_string(),
        }
    }
}

impl Delta {
    /// The reasoning of this delta. The same text often stands in two fields, so the first that has any counts.
    pub(super) fn reasoning_text(&mut self) -> Option<String> {
        [self.reasoning_content.take(), self.reasoning.take()]
            .into_iter()
            .flatten()
            .find_map(|value| match value {
                Value::String(text) if !text.is_empty() => Some(text),
                _ => None,
            })
            .or_else(|| details_text(self.reasoning_details.as_ref()?))
    }
}

fn details_text(details: &Value) -> Option<String> {
    let text: String = details
        .as_array()?
        .iter()
        .filter_map(|detail| {
            let text = detail.get("text").or_else(|| detail.get("summary"))?;
            text.as_str()
        })
        .collect();
    (!text.is_empty()).then_some(text)
}

/// What a part of a content array holds.
pub(super) enum Part {
    Text(String),
    Reasoning(String),
}

/// Reads one part of a content array: text, or thinking that is a list of texts.
pub(super) fn part(value: &Value) -> Option<Part> {
    let text = |value: &Value| Some(value.get("text")?.as_str()?.to_owned());
    match value.get("type").and_then(Value::as_str) {
        Some("thinking") => match value.get("thinking")? {
            Value::String(text) => Some(Part::Reasoning(text.clone())),
            Value::Array(parts) => Some(Part::Reasoning(parts.iter().filter_map(text).collect())),
            _ => None,
        },
        _ => text(value).map(Part::Text),
    }
}

impl Chunk {
    /// The token counts of this chunk, wherever they stand.
    pub(super) fn tokens(&self) -> Option<Tokens> {
        let groq = self.x_groq.as_ref().and_then(|groq| groq.get("usage"));
        let choice = self.choices.iter().flatten().next();
        let choice = choice.and_then(|choice| choice.usage.as_ref());
        [self.usage.as_ref(), groq, choice]
            .into_iter()
            .flatten()
            .find_map(tokens)
    }
}

fn tokens(usage: &Value) -> Option<Tokens> {
    let number = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    let input = number("/prompt_tokens");
    let completion = number("/completion_tokens");
    if input.is_none() && completion.is_none() {
        return None;
    }
    let input = input.unwrap_or(0);
    let completion = completion.unwrap_or(0);
    let reasoning = number("/completion_tokens_details/reasoning_tokens").unwrap_or(0);
    // xAI counts reasoning beside the completion; its total gives that away.
    let beside = number("/total_tokens") == Some(input + completion + reasoning);
    Some(Tokens {
        input,
        output: if beside {
            completion + reasoning
        } else {
            completion
        },
        cached: number("/prompt_tokens_details/cached_tokens")
            .or_else(|| number("/prompt_cache_hit_tokens"))
            .or_else(|| number("/cached_tokens"))
            .unwrap_or(0),
        reasoning,
    })
}
