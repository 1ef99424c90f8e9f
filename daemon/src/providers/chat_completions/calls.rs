//! Tool calls as they come in pieces, and the ways in which servers number them.

use std::collections::VecDeque;

use serde::de::IgnoredAny;

use super::chunk::CallDelta;
use crate::providers::ModelEvent;

/// Most calls of one answer.
const MAX_CALLS: usize = 1024;

/// Most bytes of arguments of one answer, over all its calls.
const MAX_ARGUMENT_BYTES: usize = 32 * 1024 * 1024;

/// Why an answer's calls cannot be taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallsError {
    #[error("a tool call has no name")]
    Nameless,
    #[error("its tool calls are too many or too large")]
    TooLarge,
}

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Open>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Open {
    /// Its number on the wire.
    index: Option<u64>,
    /// Its id on the wire, empty until one came.
    id: String,
    /// Its place among the calls that have been announced, once its name is known.
    place: Option<usize>,
    arguments: String,
}

impl Calls {
    /// Whether any call was announced.
    pub(super) fn any(&self) -> bool {
        self.calls.iter().any(|call| call.place.is_some())
    }

    /// Takes one piece.
    pub(super) fn take(
        &mut self,
        delta: CallDelta,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), CallsError> {
        let mut function = delta.function.unwrap_or_default();
        let id = delta.id.unwrap_or_default();
        let name = function.name.take().unwrap_or_default();
        let arguments = function.arguments_text();
        let position = match self.position(delta.index, &id, &name) {
            Some(position) => position,
            None if self.calls.len() == MAX_CALLS => return Err(CallsError::TooLarge),
            None => {
                self.calls.push(Open {
                    index: delta.index,
                    ..Open::default()
                });
                self.calls.len() - 1
            }
        };
        self.bytes += arguments.len();
        if self.bytes > MAX_ARGUMENT_BYTES {
            return Err(CallsError::TooLarge);
        }
        let call = &mut self.calls[position];
        if call.id.is_empty() && call.place.is_none() {
            call.id = id;
        }
        call.arguments.push_str(&arguments);
        match call.place {
            Some(index) if !arguments.is_empty() => {
                out.push_back(ModelEvent::CallArguments {
                    index,
                    delta: arguments,
                });
            }
            None if !name.is_empty() => self.announce(position, name, out),
            _ => {}
        }
        Ok(())
    }

    /// Ends the answer.
    pub(super) fn end(&self) -> Result<(), CallsError> {
        // An empty piece without a name is noise; one with arguments is a call that nobody can run.
        let nameless = |call: &Open| call.place.is_none() && !call.arguments.is_empty();
        if self.calls.iter().any(nameless) {
            return Err(CallsError::Nameless);
        }
        Ok(())
    }

    fn announce(&mut self, position: usize, name: String, out: &mut VecDeque<ModelEvent>) {
        let index = self.calls.iter().filter(|c| c.place.is_some()).count();
        let mut id = self.calls[position].id.clone();
        let mut number = index + 1;
        while id.is_empty() || self.is_taken(&id, position) {
            id = format!("call_{number}");
            number += 1;
        }
        let call = &mut self.calls[position];
        call.place = Some(index);
        call.id.clone_from(&id);
        out.push_back(ModelEvent::CallStarted { index, id, name });
        if !call.arguments.is_empty() {
            out.push_back(ModelEvent::CallArguments {
                index,
                delta: call.arguments.clone(),
            });
        }
    }

    fn is_taken(&self, id: &str, by_other_than: usize) -> bool {
        self.calls
            .iter()
            .enumerate()
            .any(|(position, call)| position != by_other_than && call.id == id)
    }

    /// The call that a piece belongs to, or none when it begins one.
    fn position(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        if index.is_some() {
            let position = self.calls.iter().rposition(|call| call.index == index)?;
            let call = &self.calls[position];
            // Some servers send every call with the number 0 and an id of its own.
            let another = !id.is_empty()
                && !name.is_empty()
                && call.id != id
                && serde_json::from_str::<IgnoredAny>(&call.arguments).is_ok();
            return (!another).then_some(position);
        }
        if !id.is_empty() {
            let known = self.calls.iter().rposition(|call| call.id == id);
            if known.is_some() || !name.is_empty() {
                return known;
            }
        } else if !name.is_empty() {
            return None;
        }
        self.calls.len().checked_sub(1)
    }
}
