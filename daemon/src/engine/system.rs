//! The system text of a session: composed anew only when something it says changed, so that provider caches hit from turn to
//! turn although the text holds the time of day.

use std::sync::{Arc, Mutex, PoisonError};

use crystal_protocol::session::Mode;

use crate::prompts::{self, PromptFacts, SessionFacts};

/// The last system text, and what it was composed from.
#[derive(Debug, Default)]
pub(super) struct SystemText(Mutex<Option<Composed>>);

#[derive(Debug)]
struct Composed {
    mode: Mode,
    facts: SessionFacts,
    text: Arc<str>,
}

impl SystemText {
    /// The text for a mode and facts: the last one, when it was composed from the same.
    pub(super) async fn of(&self, mode: Mode, facts: SessionFacts) -> Arc<str> {
        let last = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .filter(|last| last.mode == mode && last.facts == facts)
            .map(|last| last.text.clone());
        if let Some(text) = last {
            return text;
        }
        let text: Arc<str> =
            prompts::compose(mode, &PromptFacts::gather(facts.clone()).await).into();
        let composed = Composed {
            mode,
            facts,
            text: text.clone(),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(composed);
        text
    }
}
