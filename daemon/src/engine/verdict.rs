//! What a decision means for the call that waits for it.

use crystal_protocol::{
    approval::{DecidedVia, Decision, Preview},
    item::{CallApproval, CallOutcome},
};
use sha2::{Digest, Sha256};

use crate::{approvals, store::record::Decided, terms::Effects};

/// May a call run?
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// Yes.
    Run(CallApproval),
    /// No; the text is for the model.
    Refuse(CallApproval, String),
    /// Nobody will say: the turn ends.
    Cancelled,
}

/// A hash of what was shown to the person who decided.
pub(super) fn digest(preview: Option<&Preview>) -> Option<String> {
    let json = serde_json::to_vec(preview?).ok()?;
    Some(
        Sha256::digest(json)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    )
}

/// What a recorded decision means.
pub(super) fn verdict_of(effects: &Effects, decided: &Decided) -> Verdict {
    let who = decided
        .by
        .as_ref()
        .map_or_else(|| "The session's policy".to_owned(), |by| by.name.clone());
    if decided.via == DecidedVia::Cancelled {
        return Verdict::Cancelled;
    }
    let rule = |words: &str| {
        effects
            .rule
            .as_ref()
            .map(|rule| format!("{words}: {}", rule.in_words()))
    };
    match decided.decision {
        Decision::Deny => {
            let reason = match &decided.message {
                Some(message) => {
                    let message = message.trim().trim_end_matches('.');
                    format!("{who} denied the call: {message}.")
                }
                None => format!("{who} denied the call."),
            };
            let text = format!(
                "{reason} It was not run. Do not try the same thing in another way; ask what to do instead."
            );
            Verdict::Refuse(
                approvals::judged(effects, CallOutcome::Denied, None, reason),
                text,
            )
        }
        Decision::Once => {
            let reason = format!("{who} approved this call.");
            Verdict::Run(approvals::judged(
                effects,
                CallOutcome::Approved,
                None,
                reason,
            ))
        }
        Decision::Session => {
            let reason = format!("{who} approved such calls for this session.");
            Verdict::Run(approvals::judged(
                effects,
                CallOutcome::Approved,
                rule("this session"),
                reason,
            ))
        }
        Decision::Always => {
            let reason = format!("{who} approved such calls in this workspace for good.");
            Verdict::Run(approvals::judged(
                effects,
                CallOutcome::Approved,
                rule("permissions.json"),
                reason,
            ))
        }
    }
}
