//! The stream of the Chat Completions wire, as OpenAI and the many servers that follow it send it.

use std::collections::VecDeque;

use crystal_protocol::turn::Tokens;
use serde_json::Value;

use crate::providers::{
    Finish, ModelEvent, ProviderError,
    errors::{self, Party},
    sse::SseEvent,
};

/// Calls of one answer; more is a broken stream.
const CALLS: usize = 256;

/// Turns the chunks of one answer into events.
pub(super) struct Decoder {
    party: Party,
    calls: Vec<CallState>,
    finish: Option<String>,
    refused: bool,
    done: bool,
    usage: Option<Tokens>,
}

/// A call while its pieces come.
struct CallState {
    /// The wire's own place for it.
    index: Option<u64>,
    /// The wire's id, where it gave one.
    id: Option<String>,
    arguments: String,
}

impl Decoder {
    pub(super) fn new(party: Party) -> Self {
        Self {
            party,
            calls: Vec::new(),
            finish: None,
            refused: false,
            done: false,
            usage: None,
        }
    }

    pub(super) fn party(&self) -> &Party {
        &self.party
    }

    /// The answer is whole, though its token counts may follow.
    pub(super) fn is_whole(&self) -> bool {
        self.finish.is_some() || self.done
    }

    /// Nothing follows.
    pub(super) fn is_closed(&self) -> bool {
        self.done
    }

    /// Takes one event.
    ///
    /// # Errors
    /// What the provider reports in its stream, or an event that is no JSON.
    pub(super) fn event(
        &mut self,
        event: &SseEvent,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: Value = serde_json::from_str(data)
            .map_err(|_| errors::broken(&self.party, "a piece of it is no JSON"))?;
        self.chunk(&chunk, event.name == "error", out)
    }

    /// Takes a whole answer that came as one document instead of a stream.
    ///
    /// # Errors
    /// What the document reports, or that it is no answer.
    pub(super) fn whole(
        &mut self,
        document: &[u8],
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let value: Value = serde_json::from_slice(document).map_err(|_| {
            errors::broken(&self.party, "it is neither a stream nor a JSON document")
        })?;
        if value.get("choices").is_none() {
            return Err(errors::from_stream(&self.party, &value));
        }
        self.chunk(&value, false, out)?;
        self.done = true;
        Ok(())
    }

    fn chunk(
        &mut self,
        chunk: &Value,
        is_error: bool,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ProviderError> {
        self.take_usage(chunk);
        let choice = chunk
            .get("choices")
            .and_then(Value::as_array)
            .and_then(|choices| choices.first());
        let error = chunk
            .get("error")
            .or_else(|| choice?.get("error"))
            .filter(|error| !error.is_null());
        if let Some(error) = error {
            return Err(errors::from_stream(&self.party, error));
        }
        if is_error {
            return Err(errors::from_stream(&self.party, chunk));
        }
        let Some(choice) = choice else { return Ok(()) };
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            self.delta(delta, out)?;
        }
        if let Some(reason) = choice
            .get("finish_reason")
            .and_then(Value::as_str)
            .filter(|reason| !reason.is_empty())
        {
            self.finish = Some(reason.to_owned());
        }
        Ok(())
    }

    fn delta(
        &mut self,
        delta: &Value,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ProviderError> {
        if let Some(reasoning) = reasoning_of(delta) {
            out.push_back(ModelEvent::Reasoning(reasoning));
        }
        match delta.get("content") {
            Some(Value::String(text)) if !text.is_empty() => {
                out.push_back(ModelEvent::Text(text.clone()))
            }
            Some(Value::Array(parts)) => parts.iter().for_each(|part| content_part(part, out)),
            _ => {}
        }
        if let Some(refusal) = text_at(delta, "refusal") {
            self.refused = true;
            out.push_back(ModelEvent::Text(refusal.to_owned()));
        }
        for call in delta
            .get("tool_calls")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            self.call(call, out)?;
        }
        Ok(())
    }

    fn call(&mut self, piece: &Value, out: &mut VecDeque<ModelEvent>) -> Result<(), ProviderError> {
        let index = piece.get("index").and_then(Value::as_u64);
        let id = text_at(piece, "id");
        let function = piece.get("function").unwrap_or(&Value::Null);
        let name = text_at(function, "name");
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(value) => value.to_string(),
        };
        let place = match self.find(index, id, name) {
            Some(place) => place,
            None => self.begin(index, id, name, out)?,
        };
        if !arguments.is_empty()
            && let Some(call) = self.calls.get_mut(place)
        {
            call.arguments.push_str(&arguments);
            out.push_back(ModelEvent::CallArguments {
                index: place,
                delta: arguments,
            });
        }
        Ok(())
    }

    /// The call that a piece belongs to: by its place, else by its id; a piece with neither belongs to the last call, unless it
    /// names a tool, which begins one.
    fn find(&self, index: Option<u64>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
        match (index, id) {
            (Some(index), id) => {
                let place = self
                    .calls
                    .iter()
                    .rposition(|call| call.index == Some(index))?;
                let call = self.calls.get(place)?;
                // Some servers send one call after another under place 0: another id after whole arguments is another call.
                let is_other =
                    id.is_some_and(|id| call.id.as_deref().is_some_and(|known| known != id));
                let is_whole =
                    serde_json::from_str::<serde_json::Map<String, Value>>(&call.arguments).is_ok();
                (!(is_other && is_whole)).then_some(place)
            }
            (None, Some(id)) => self
                .calls
                .iter()
                .rposition(|call| call.id.as_deref() == Some(id)),
            (None, None) if name.is_none() => self.calls.len().checked_sub(1),
            (None, None) => None,
        }
    }

    fn begin(
        &mut self,
        index: Option<u64>,
        id: Option<&str>,
        name: Option<&str>,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<usize, ProviderError> {
        let place = self.calls.len();
        if place >= CALLS {
            return Err(errors::broken(&self.party, "it has too many tool calls"));
        }
        let Some(name) = name else {
            return Err(errors::broken(&self.party, "a tool call in it has no name"));
        };
        let taken = |id: &str| self.calls.iter().any(|call| call.id.as_deref() == Some(id));
        let unique = match id {
            Some(id) if !taken(id) => id.to_owned(),
            _ => format!("call_{:016x}_{place}", fastrand::u64(..)),
        };
        out.push_back(ModelEvent::CallStarted {
            index: place,
            id: unique.clone(),
            name: name.to_owned(),
        });
        self.calls.push(CallState {
            index,
            id: Some(unique),
            arguments: String::new(),
        });
        Ok(place)
    }

    /// The last count wins; servers put it in different places.
    fn take_usage(&mut self, chunk: &Value) {
        let places = [
            chunk.get("usage"),
            chunk.pointer("/x_groq/usage"),
            chunk.pointer("/choices/0/usage"),
        ];
        if let Some(usage) = places.into_iter().flatten().find(|usage| usage.is_object()) {
            self.usage = Some(tokens(usage));
        }
    }

    /// The last event of the answer.
    ///
    /// # Errors
    /// When the stream ended before the answer did.
    pub(super) fn end(&mut self) -> Result<ModelEvent, ProviderError> {
        let has_calls = !self.calls.is_empty();
        let finish = match self.finish.as_deref() {
            None if !self.done => return Err(errors::broken(&self.party, "it ended too early")),
            Some("error" | "network_error" | "insufficient_system_resource") => {
                return Err(errors::broken(&self.party, "the provider broke it off"));
            }
            Some("length") => Finish::Length,
            Some("content_filter" | "sensitive") => Finish::ContentFilter,
            _ if self.refused => Finish::ContentFilter,
            None | Some("stop" | "eos" | "tool_calls" | "function_call") if has_calls => {
                Finish::ToolCalls
            }
            None | Some("stop" | "eos" | "tool_calls" | "function_call") => Finish::Stop,
            Some(other) => Finish::Other(other.to_owned()),
        };
        Ok(ModelEvent::Finished {
            finish,
            usage: self.usage,
            replay: None,
        })
    }
}

fn text_at<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value
        .get(field)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// Reasoning, in the first of the fields that servers use: the same text often stands in two of them.
fn reasoning_of(delta: &Value) -> Option<String> {
    let text = text_at(delta, "reasoning_content").or_else(|| text_at(delta, "reasoning"));
    text.map(str::to_owned).or_else(|| {
        let details = delta.get("reasoning_details")?.as_array()?;
        let text: String = details
            .iter()
            .filter_map(|detail| text_at(detail, "text"))
            .collect();
        (!text.is_empty()).then_some(text)
    })
}

/// A part of content that is a list: text, or thinking.
fn content_part(part: &Value, out: &mut VecDeque<ModelEvent>) {
    if let Some(text) = text_at(part, "text") {
        out.push_back(ModelEvent::Text(text.to_owned()));
    }
    for thought in part
        .get("thinking")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if let Some(text) = text_at(thought, "text") {
            out.push_back(ModelEvent::Reasoning(text.to_owned()));
        }
    }
}

fn tokens(usage: &Value) -> Tokens {
    let count = |pointers: &[&str]| {
        pointers
            .iter()
            .find_map(|pointer| usage.pointer(pointer)?.as_u64())
    };
    let input = count(&["/prompt_tokens"]).unwrap_or_default();
    let reasoning = count(&["/completion_tokens_details/reasoning_tokens"]).unwrap_or_default();
    let mut output = count(&["/completion_tokens"]).unwrap_or_default();
    // One server counts reasoning beside the completion: its total tells.
    if reasoning > 0 && count(&["/total_tokens"]) == Some(input + output + reasoning) {
        output += reasoning;
    }
    let cached = count(&[
        "/prompt_tokens_details/cached_tokens",
        "/prompt_cache_hit_tokens",
        "/cached_tokens",
    ]);
    Tokens {
        input,
        output,
        cached: cached.unwrap_or_default(),
        reasoning,
    }
}
