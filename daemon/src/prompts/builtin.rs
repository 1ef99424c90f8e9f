//! The templates that are compiled in.

use crystal_protocol::session::Mode;

/// The built-in template of a mode.
pub(super) fn template(mode: Mode) -> &'static str {
    match mode {
        Mode::Work => include_str!("../../../prompts/work.md"),
        Mode::Plan => include_str!("../../../prompts/plan.md"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompts::{bind, facts::Slot};

    #[test]
    fn every_slot_of_a_template_is_a_declared_name() {
        for mode in [Mode::Work, Mode::Plan] {
            let slots = bind::slots(template(mode));
            assert!(!slots.is_empty());
            for slot in slots {
                assert!(Slot::parse(&slot).is_some(), "{mode:?}: {slot}");
            }
        }
    }
}
