//! What waits for a person, in words, with the commands that answer it.

use crystal_protocol::{
    approval::{Approval, Grant, Preview},
    ids::SessionId,
    question::Question,
};

use crate::wire::name_of;

/// What a shown command needs.
#[derive(Clone, Debug)]
pub(crate) struct Hints {
    /// This program as the user would call it.
    pub(crate) program: String,
    /// The session.
    pub(crate) session: SessionId,
}

/// An approval in lines, without a newline at the end.
pub(crate) fn approval(approval: &Approval, hints: &Hints) -> String {
    let Hints { program, session } = hints;
    let id = &approval.id;
    let mut out = format!(
        "? approval {id} waits: {} ({}, {})\n  {}",
        approval.title,
        name_of(&approval.risk),
        name_of(&approval.authority),
        approval.reason
    );
    if !approval.summary.is_empty() && approval.summary != approval.title {
        out.push_str(&format!("\n  {}", approval.summary));
    }
    match &approval.preview {
        Some(Preview::Diff { diff }) => {
            for line in diff.lines() {
                out.push_str(&format!("\n    {line}"));
            }
        }
        Some(Preview::Commands { commands }) => {
            for command in commands {
                let risk = name_of(&command.risk);
                out.push_str(&format!(
                    "\n    {}  ({risk}: {})",
                    command.text, command.reason
                ));
            }
        }
        None => {}
    }
    out.push_str(&format!("\n  yes: {program} approve {session} {id}"));
    let lasting = [
        (Grant::Session, "--session", &approval.rules.session),
        (Grant::Always, "--always", &approval.rules.always),
    ];
    for (grant, flag, rule) in lasting {
        if approval.offered.contains(&grant) {
            let rule = rule.as_deref().unwrap_or("calls like this one");
            out.push_str(&format!("\n       {flag} for {rule}"));
        }
    }
    out.push_str(&format!("\n  no:  {program} deny {session} {id}"));
    out
}

/// A question in lines, without a newline at the end.
pub(crate) fn question(question: &Question, hints: &Hints) -> String {
    let Hints { program, session } = hints;
    let id = &question.id;
    let mut out = format!("? question {id} waits");
    for part in &question.questions {
        out.push_str(&format!("\n  {}: {}", part.header, part.text));
        for (n, option) in part.options.iter().enumerate() {
            let more = option.description.as_deref().unwrap_or_default();
            let dash = if more.is_empty() { "" } else { " - " };
            out.push_str(&format!("\n    #{} {}{dash}{more}", n + 1, option.label));
        }
        if part.multiple {
            out.push_str("\n    (more than one may be chosen)");
        }
        if part.custom {
            out.push_str("\n    (a text of your own will do too)");
        }
    }
    let answers = question
        .questions
        .iter()
        .map(|_| " ANSWER")
        .collect::<String>();
    out.push_str(&format!(
        "\n  answer:  {program} answer {session} {id}{answers}"
    ));
    out.push_str(&format!(
        "\n  dismiss: {program} answer {session} {id} --dismiss"
    ));
    out
}
