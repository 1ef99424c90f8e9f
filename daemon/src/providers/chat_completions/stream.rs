//! Turns a Chat Completions stream into neutral events.

use std::collections::VecDeque;

use crystal_protocol::turn::Tokens;
use serde_json::Value;

use super::{
    calls::{Calls, CallsError},
    chunk::{self, CallDelta, Choice, Chunk, Content, Part},
};
use crate::providers::{
    Finish, ModelEvent, ProviderError, ProviderErrorKind,
    errors::{self, Party},
    http::{DONE, Decoder, Progress},
    sse::SseEvent,
};

/// The state of one answer.
pub(super) struct ChatDecoder {
    party: Party,
    calls: Calls,
    finish: Option<String>,
    done: bool,
    refused: bool,
    usage: Option<Tokens>,
}

impl ChatDecoder {
    /// An answer of which nothing has come.
    pub(super) fn new(party: Party) -> Self {
        Self {
            party,
            calls: Calls::default(),
            finish: None,
            done: false,
            refused: false,
            usage: None,
        }
    }

    fn take(&mut self, chunk: Chunk, out: &mut VecDeque<ModelEvent>) -> Result<(), ProviderError> {
        if let Some(tokens) = chunk.tokens() {
            self.usage = Some(tokens);
        }
        if let Some(error) = chunk.error.as_ref().filter(|error| is_error(error)) {
            return Err(errors::from_value(&self.party, error));
        }
        // Other choices than the first are never asked for.
        match chunk.choices.into_iter().flatten().next() {
            Some(choice) => self.choice(choice, out),
            None => Ok(()),
        }
    }

    fn choice(
        &mut self,
        choice: Choice,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ProviderError> {
        if let Some(error) = choice.error.as_ref().filter(|error| is_error(error)) {
            return Err(errors::from_value(&self.party, error));
        }
        let mut delta = choice.delta.unwrap_or_default();
        if let Some(text) = delta.reasoning_text() {
            out.push_back(ModelEvent::Reasoning(text));
        }
        match delta.content {
            Some(Content::Text(text)) if !text.is_empty() => out.push_back(ModelEvent::Text(text)),
            Some(Content::Parts(parts)) => {
                out.extend(parts.iter().filter_map(chunk::part).filter_map(neutral));
            }
            _ => {}
        }
        if let Some(text) = delta.refusal.filter(|text| !text.is_empty()) {
            self.refused = true;
            out.push_back(ModelEvent::Text(text));
        }
        let old_form = delta.function_call.map(|function| CallDelta {
            index: Some(0),
            id: None,
            function: Some(function),
        });
        for call in delta.tool_calls.into_iter().flatten().chain(old_form) {
            let taken = self.calls.take(call, out);
            taken.map_err(|error| self.bad_calls(&error))?;
        }
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.finish = Some(reason);
        }
        Ok(())
    }

    fn bad_calls(&self, error: &CallsError) -> ProviderError {
        errors::broken(&self.party, &error.to_string())
    }

    fn finish(&self) -> Result<Finish, ProviderError> {
        let calls = self.calls.any();
        let stop = || match (calls, self.refused) {
            (true, _) => Finish::ToolCalls,
            (false, true) => Finish::ContentFilter,
            (false, false) => Finish::Stop,
        };
        Ok(match self.finish.as_deref() {
            None if self.done => stop(),
            None => return Err(errors::ended_early(&self.party)),
            Some("stop" | "eos" | "end_turn" | "tool_calls" | "function_call") => stop(),
            Some("length" | "max_tokens" | "model_length") => Finish::Length,
            Some("content_filter" | "sensitive") => Finish::ContentFilter,
            Some(reason @ ("error" | "network_error")) => {
                return Err(self.failed(ProviderErrorKind::Server, reason));
            }
            Some(reason @ "insufficient_system_resource") => {
                return Err(self.failed(ProviderErrorKind::Overloaded, reason));
            }
            Some(other) => Finish::Other(other.to_owned()),
        })
    }

    fn failed(&self, kind: ProviderErrorKind, reason: &str) -> ProviderError {
        let message = errors::sentence(&self.party, kind, "the end of its answer", reason);
        ProviderError::new(kind, message)
    }
}

impl Decoder for ChatDecoder {
    fn event(
        &mut self,
        event: &SseEvent,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<Progress, ProviderError> {
        let data = event.data.trim();
        if data == DONE {
            self.done = true;
            return Ok(Progress::Closed);
        }
        if event.name == "error" {
            return Err(errors::from_document(&self.party, data.as_bytes()));
        }
        if !data.is_empty() {
            let chunk: Chunk = serde_json::from_str(data).map_err(|error| {
                errors::broken(
                    &self.party,
                    &format!("an event of it is malformed: {error}"),
                )
            })?;
            if chunk.object.as_ref().is_some_and(|kind| kind == "error") {
                return Err(errors::from_document(&self.party, data.as_bytes()));
            }
            self.take(chunk, out)?;
        }
        Ok(match self.finish {
            Some(_) => Progress::Finished,
            None => Progress::Open,
        })
    }

    fn whole(&mut self, body: &[u8], out: &mut VecDeque<ModelEvent>) -> Result<(), ProviderError> {
        match serde_json::from_slice::<Chunk>(body) {
            Ok(chunk) if chunk.error.is_some() || chunk.choices.is_some() => {
                self.take(chunk, out)?;
                self.done = true;
                self.end(out)
            }
            _ => Err(errors::from_document(&self.party, body)),
        }
    }

    fn end(&mut self, out: &mut VecDeque<ModelEvent>) -> Result<(), ProviderError> {
        let finish = self.finish()?;
        self.calls.end().map_err(|error| self.bad_calls(&error))?;
        out.push_back(ModelEvent::Finished {
            finish,
            usage: self.usage,
            replay: None,
        });
        Ok(())
    }
}

fn is_error(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}

fn neutral(part: Part) -> Option<ModelEvent> {
    match part {
        Part::Text(text) => (!text.is_empty()).then_some(ModelEvent::Text(text)),
        Part::Reasoning(text) => (!text.is_empty()).then_some(ModelEvent::Reasoning(text)),
    }
}

#[cfg(test)]
mod tests;
