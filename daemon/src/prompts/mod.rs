//! System text: a template for each mode, with facts about the session bound into its slots.
//!
//! [`PromptFacts`] is taken once a message is composed, since it holds the time; [`compose`] is pure. A template says
//! `{{name}}` where a value goes. Values are text: what a path or a model's name contains is never read as a template.

mod bind;
mod builtin;
mod compaction;
mod facts;

use crystal_protocol::session::Mode;

pub use compaction::{SummaryRequest, summary_request};
pub use facts::{PromptFacts, SessionFacts};

use facts::Slot;

/// The system text of a mode, ending without a line break.
pub fn compose(mode: Mode, facts: &PromptFacts) -> String {
    let mut text = bind::bind(builtin::template(mode), |name| {
        Some(facts.value(Slot::parse(name)?, mode))
    });
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_text() {
        insta::assert_snapshot!(compose(Mode::Work, &facts::samples::fixed()));
    }

    #[test]
    fn the_plan_text_with_all_there_is() {
        insta::assert_snapshot!(compose(Mode::Plan, &facts::samples::full()));
    }

    #[test]
    fn a_value_that_looks_like_a_slot_stays_text() {
        let facts = facts::samples::of_model("{{workspace}}");
        assert!(compose(Mode::Work, &facts).contains("{{workspace}}"));
    }
}
