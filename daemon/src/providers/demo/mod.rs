//! The `demo` model: a deterministic stand-in that obeys a small command language, for use without network and key.
//!
//! It holds no state: each answer follows from the conversation. The language is in daemon/README.md, "The demo model".

mod answer;
mod script;

use std::{sync::Arc, time::Duration};

use crystal_protocol::turn::Tokens;
use futures_util::{StreamExt, stream};

use self::{
    answer::{Answer, Part, answer},
    script::Failure,
};
use super::{
    Adapter, Finish, Message, ModelEvent, ModelRequest, ModelStream, Provider, ProviderError,
    ProviderErrorKind,
};

/// The plain `demo` model writes a word in this time: 50 words a second.
const WORD_TIME: Duration = Duration::from_millis(20);

/// Characters that count as one token.
const CHARS_PER_TOKEN: usize = 4;

/// The registration of this wire. Nothing can go wrong when it is bound.
pub(super) const ADAPTER: Adapter = Adapter {
    protocol: "demo",
    open: |_| Ok(Arc::new(Demo)),
};

/// The model.
struct Demo;

impl Provider for Demo {
    fn stream(&self, request: ModelRequest) -> ModelStream {
        let pace = (request.model == "demo").then_some(WORD_TIME);
        let answer = answer(&request);
        let end = end_of(&request, &answer);
        let events = Events::of(answer).chain(std::iter::once(end));
        match pace {
            Some(pace) => stream::iter(events)
                .then(move |event| async move {
                    if matches!(event, Ok(ModelEvent::Text(_) | ModelEvent::Reasoning(_))) {
                        tokio::time::sleep(pace).await;
                    }
                    event
                })
                .boxed(),
            None => stream::iter(events).boxed(),
        }
    }
}

/// The events of an answer, made one by one: a long stream costs no memory.
struct Events {
    parts: std::vec::IntoIter<Part>,
    current: Option<Part>,
    word: u64,
    call: std::vec::IntoIter<ModelEvent>,
}

impl Events {
    fn of(answer: Answer) -> Self {
        let call = match answer.call {
            Some((name, arguments)) if answer.failure.is_none() => vec![
                ModelEvent::CallStarted {
                    index: 0,
                    id: call_id(),
                    name,
                },
                ModelEvent::CallArguments {
                    index: 0,
                    delta: arguments.to_string(),
                },
            ],
            _ => Vec::new(),
        };
        Self {
            parts: answer.parts.into_iter(),
            current: None,
            word: 0,
            call: call.into_iter(),
        }
    }
}

/// Unique is all that a call's id must be.
fn call_id() -> String {
    format!("demo_{:016x}", fastrand::u64(..))
}

impl Iterator for Events {
    type Item = Result<ModelEvent, ProviderError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match &mut self.current {
                Some(Part::Words(count)) if self.word < *count => {
                    self.word += 1;
                    return Some(Ok(ModelEvent::Text(format!("word{} ", self.word))));
                }
                Some(Part::Text(text)) if !text.is_empty() => {
                    return Some(Ok(ModelEvent::Text(take_word(text))));
                }
                Some(Part::Reasoning(text)) if !text.is_empty() => {
                    return Some(Ok(ModelEvent::Reasoning(take_word(text))));
                }
                _ => {}
            }
            self.word = 0;
            self.current = self.parts.next();
            if self.current.is_none() {
                return self.call.next().map(Ok);
            }
        }
    }
}

/// Takes the first word and the space behind it.
fn take_word(text: &mut String) -> String {
    let word = text
        .find(|c: char| !c.is_whitespace())
        .unwrap_or(text.len());
    let space = text
        .get(word..)
        .and_then(|rest| rest.find(char::is_whitespace))
        .map_or(text.len(), |at| at + word);
    let end = text
        .get(space..)
        .and_then(|rest| rest.find(|c: char| !c.is_whitespace()))
        .map_or(text.len(), |at| at + space);
    let rest = text.split_off(end);
    std::mem::replace(text, rest)
}

fn end_of(request: &ModelRequest, answer: &Answer) -> Result<ModelEvent, ProviderError> {
    let finish = match answer.failure {
        None if answer.call.is_some() => Finish::ToolCalls,
        None => Finish::Stop,
        Some(Failure::Length) => Finish::Length,
        Some(Failure::ContentFilter) => Finish::ContentFilter,
        Some(failure) => return Err(error_of(failure)),
    };
    Ok(ModelEvent::Finished {
        finish,
        usage: Some(usage(request, answer)),
        replay: None,
    })
}

fn usage(request: &ModelRequest, answer: &Answer) -> Tokens {
    let of_message = |message: &Message| match message {
        Message::User { text } => text.len(),
        Message::Assistant { text, calls, .. } => {
            text.len()
                + calls
                    .iter()
                    .map(|call| call.name.len() + call.arguments.len())
                    .sum::<usize>()
        }
        Message::Results(results) => results.iter().map(|result| result.text.len()).sum(),
    };
    let input: usize = request.system.len()
        + request
            .messages
            .iter()
            .map(|message| of_message(message))
            .sum::<usize>();
    let mut reasoning = 0;
    let mut output = answer.call.as_ref().map_or(0, |(name, arguments)| {
        name.len() + arguments.to_string().len()
    });
    for part in &answer.parts {
        match part {
            Part::Text(text) => output += text.len(),
            Part::Reasoning(text) => reasoning += text.len(),
            Part::Words(count) => {
                output += usize::try_from(*count)
                    .unwrap_or(usize::MAX)
                    .saturating_mul(CHARS_PER_TOKEN)
            }
        }
    }
    let tokens = |chars: usize| (chars / CHARS_PER_TOKEN) as u64;
    Tokens {
        input: tokens(input),
        output: tokens(output.saturating_add(reasoning)),
        cached: 0,
        reasoning: tokens(reasoning),
    }
}

fn error_of(failure: Failure) -> ProviderError {
    let error = |kind, message: &str| {
        ProviderError::new(
            kind,
            format!("{message} (The demo model was asked to fail.)"),
        )
    };
    match failure {
        Failure::Auth => error(
            ProviderErrorKind::Auth,
            "The key was refused; set another one.",
        ),
        Failure::Quota => error(
            ProviderErrorKind::Quota,
            "The quota is used up; raise it or wait.",
        ),
        Failure::RateLimit => error(
            ProviderErrorKind::RateLimit,
            "Too many requests; wait a moment.",
        ),
        Failure::Overloaded => error(
            ProviderErrorKind::Overloaded,
            "The provider is overloaded; try again later.",
        ),
        Failure::Timeout => error(
            ProviderErrorKind::Server,
            "The provider did not answer in time; try again.",
        ),
        Failure::Reset => error(
            ProviderErrorKind::Server,
            "The connection to the provider was reset; try again.",
        ),
        Failure::ContextOverflow => error(
            ProviderErrorKind::ContextOverflow,
            "The conversation is too long for the model; start a new session.",
        ),
        Failure::BadRequest => error(
            ProviderErrorKind::BadRequest,
            "The provider refused the request.",
        ),
        Failure::Server | Failure::Length | Failure::ContentFilter => error(
            ProviderErrorKind::Server,
            "The provider had a fault; try again.",
        ),
    }
}

#[cfg(test)]
mod tests;
