//! May a call run? A pure decision from what the call would do, the session's modes, and the rules that people gave.
//!
//! What a call would do is its tool's own word ([`Effects`]); this module never looks at arguments.
//! The table of modes is in daemon/README.md, "Approval".

use crystal_protocol::{
    approval::{ApprovalMode, Authority, Grant, OfferedRules, Risk},
    item::{CallApproval, CallOutcome},
    session::Mode,
};

use crate::{terms::Rule, tools::Effects};

/// What is known besides the call itself.
#[derive(Clone, Copy, Debug)]
pub struct Policy<'a> {
    /// Work or plan.
    pub mode: Mode,
    /// When the session asks.
    pub approval: ApprovalMode,
    /// Rules that pass for the rest of the session.
    pub grants: &'a [Rule],
    /// A lasting rule of the workspace that covers the call, in words.
    pub standing: Option<&'a str>,
}

/// What is to be done with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It runs.
    Allow(CallApproval),
    /// It never runs.
    Forbid(CallApproval),
    /// A person decides; the reason says why.
    Ask(String),
}

/// Decides about a call.
pub fn decide(effects: &Effects, policy: Policy<'_>) -> Ruling {
    if effects.risk == Risk::Forbidden {
        return Ruling::Forbid(judged(
            effects,
            CallOutcome::Forbidden,
            None,
            effects.reason.clone(),
        ));
    }
    if passes_by_mode(effects, policy) {
        let reason = format!("{} Such calls pass in this mode.", effects.reason);
        return Ruling::Allow(judged(effects, CallOutcome::Allowed, None, reason));
    }
    if let Some(rule) = granted(effects, policy) {
        let reason = format!(
            "{} A rule that was given for it covers the call.",
            effects.reason
        );
        return Ruling::Allow(judged(effects, CallOutcome::Approved, Some(rule), reason));
    }
    Ruling::Ask(effects.reason.clone())
}

fn passes_by_mode(effects: &Effects, policy: Policy<'_>) -> bool {
    let is_workspace = effects.authority == Authority::Workspace;
    let is_read = effects.risk == Risk::Read && is_workspace;
    let is_edit = effects.risk == Risk::Write
        && is_workspace
        && matches!(effects.rule, Some(Rule::EditsBelow { .. }));
    if policy.mode == Mode::Plan {
        return is_read;
    }
    match policy.approval {
        // A reviewing model would judge the rest; until there is one, the operator does.
        ApprovalMode::Default | ApprovalMode::Audit => is_read,
        ApprovalMode::Edit | ApprovalMode::Review => is_read || is_edit,
        ApprovalMode::Full => {
            effects.risk <= Risk::Write
                && matches!(effects.authority, Authority::Workspace | Authority::Network)
        }
    }
}

fn granted(effects: &Effects, policy: Policy<'_>) -> Option<String> {
    let rule = effects.rule.as_ref()?;
    if effects.risk == Risk::Privileged {
        return None;
    }
    let session = policy
        .grants
        .iter()
        .find(|grant| grant.covers(rule))
        .map(|grant| format!("this session: {}", grant.in_words()));
    session.or_else(|| {
        policy
            .standing
            .map(|text| format!("permissions.json: {text}"))
    })
}

/// How a call was judged.
pub fn judged(
    effects: &Effects,
    outcome: CallOutcome,
    rule: Option<String>,
    reason: String,
) -> CallApproval {
    CallApproval {
        risk: effects.risk,
        authority: effects.authority,
        outcome,
        rule,
        reason,
    }
}

/// The answers on offer for a call that is asked for: lasting ones only where a rule says what they would cover.
pub fn offers(effects: &Effects) -> (Vec<Grant>, OfferedRules) {
    match (&effects.rule, effects.risk) {
        (Some(rule), Risk::Read | Risk::Write) => {
            let words = rule.in_words();
            let rules = OfferedRules {
                session: Some(format!("{words}, in this session")),
                always: Some(format!("{words}, in this workspace for good")),
            };
            (vec![Grant::Once, Grant::Session, Grant::Always], rules)
        }
        _ => (vec![Grant::Once], OfferedRules::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effects(risk: Risk, authority: Authority, rule: Option<Rule>) -> Effects {
        Effects {
            title: String::new(),
            risk,
            authority,
            reason: "Because.".to_owned(),
            summary: String::new(),
            preview: None,
            rule,
            paths: Vec::new(),
        }
    }

    fn edits(directory: &str) -> Option<Rule> {
        Some(Rule::EditsBelow {
            directory: directory.into(),
        })
    }

    fn passes(effects: &Effects, mode: Mode, approval: ApprovalMode) -> bool {
        let policy = Policy {
            mode,
            approval,
            grants: &[],
            standing: None,
        };
        matches!(decide(effects, policy), Ruling::Allow(_))
    }

    #[test]
    fn each_mode_passes_what_its_row_says() {
        use ApprovalMode as A;
        let command = Some(Rule::Command {
            text: "make".to_owned(),
        });
        let classes = [
            (
                "workspace read",
                effects(Risk::Read, Authority::Workspace, None),
                [true, true, true, true, true],
            ),
            (
                "outside read",
                effects(Risk::Read, Authority::OutsideWorkspace, None),
                [false; 5],
            ),
            (
                "edit",
                effects(Risk::Write, Authority::Workspace, edits("/w")),
                [false, true, true, false, true],
            ),
            (
                "outside edit",
                effects(Risk::Write, Authority::OutsideWorkspace, edits("/o")),
                [false; 5],
            ),
            (
                "shell",
                effects(Risk::Write, Authority::Workspace, command.clone()),
                [false, false, false, false, true],
            ),
            (
                "network",
                effects(Risk::Write, Authority::Network, command),
                [false, false, false, false, true],
            ),
            (
                "privileged",
                effects(Risk::Privileged, Authority::Workspace, None),
                [false; 5],
            ),
        ];
        for (name, effects, expected) in classes {
            let modes = [A::Default, A::Edit, A::Review, A::Audit, A::Full];
            assert_eq!(
                modes.map(|mode| passes(&effects, Mode::Work, mode)),
                expected,
                "{name}"
            );
            let plan = passes(&effects, Mode::Plan, A::Full);
            assert_eq!(plan, name == "workspace read", "{name} in plan mode");
        }
    }

    #[test]
    fn forbidden_is_refused_even_with_a_grant_that_covers_it() {
        let call = effects(Risk::Forbidden, Authority::Workspace, edits("/w"));
        let grants = [Rule::EditsBelow {
            directory: "/w".into(),
        }];
        let policy = Policy {
            mode: Mode::Work,
            approval: ApprovalMode::Full,
            grants: &grants,
            standing: Some("all"),
        };
        assert!(matches!(decide(&call, policy), Ruling::Forbid(_)));
    }

    #[test]
    fn a_grant_covers_its_directory_and_below_and_names_itself() {
        let grants = [Rule::EditsBelow {
            directory: "/w/src".into(),
        }];
        let policy = Policy {
            mode: Mode::Work,
            approval: ApprovalMode::Default,
            grants: &grants,
            standing: None,
        };
        let inside = effects(Risk::Write, Authority::Workspace, edits("/w/src/a"));
        let beside = effects(Risk::Write, Authority::Workspace, edits("/w/srcs"));
        assert!(
            matches!(decide(&inside, policy), Ruling::Allow(a) if a.rule.as_deref().unwrap().contains("/w/src"))
        );
        assert!(matches!(decide(&beside, policy), Ruling::Ask(_)));
    }

    #[test]
    fn privileged_calls_are_offered_once_only() {
        assert_eq!(
            offers(&effects(
                Risk::Privileged,
                Authority::Workspace,
                edits("/w")
            ))
            .0,
            [Grant::Once]
        );
    }
}
