//! What the `demo` model answers in a round: where it is follows from the conversation alone.

use serde_json::{Value, json};

use super::script::{self, Failure, Line};
use crate::providers::{CallResult, Message, ModelRequest};

/// Lines of a result that the last answer shows.
const REPORTED_LINES: usize = 20;

/// Files that an exploration reads.
const EXPLORED_FILES: usize = 2;

/// Said once a session.
const DISCLAIMER: &str = "I am the demo model: a deterministic stand-in, no language model. ";

/// One round's answer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    /// What to say and think, in order.
    pub(super) parts: Vec<Part>,
    /// The tool to call.
    pub(super) call: Option<(String, Value)>,
    /// How the round fails, if it does.
    pub(super) failure: Option<Failure>,
}

/// A part of an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    Reasoning(String),
    Words(u64),
}

/// A call that was made in this turn, and its result.
struct Done<'a> {
    name: &'a str,
    result: Option<&'a CallResult>,
}

/// The answer to a request.
pub(super) fn answer(request: &ModelRequest) -> Answer {
    let turn = request
        .messages
        .get(request.turn_start..)
        .unwrap_or_default();
    let mut lines = Vec::new();
    let mut commands = false;
    let mut prompt = String::new();
    for message in turn {
        if let Message::User { text } = &**message {
            for (line, said) in script::parse(text)
                .into_iter()
                .zip(text.lines().filter(|l| !l.trim().is_empty()))
            {
                commands |= script::is_command(&line, said);
                lines.push(line);
            }
            prompt.push_str(text);
            prompt.push(' ');
        }
    }
    if request.tools.is_empty() && prompt.contains("<conversation>") {
        // It is asked to summarise: what stands in the conversation is no command.
        let text = format!("The conversation began like this:\n{}\n", head(&prompt));
        return Answer {
            parts: vec![Part::Text(text)],
            ..Answer::default()
        };
    }
    let done = calls_made(turn);
    let mut answer = if commands {
        follow(&lines, &done)
    } else {
        explore(request, &prompt, &done)
    };
    let is_first = !request
        .messages
        .iter()
        .any(|message| matches!(&**message, Message::Assistant { .. }));
    if is_first && answer.failure.is_none() {
        answer.parts.insert(0, Part::Text(DISCLAIMER.to_owned()));
    }
    answer
}

fn calls_made(turn: &[std::sync::Arc<Message>]) -> Vec<Done<'_>> {
    let mut done = Vec::new();
    for (place, message) in turn.iter().enumerate() {
        if let Message::Assistant { calls, .. } = &**message {
            let results = match turn.get(place + 1).map(|next| &**next) {
                Some(Message::Results(results)) => results.as_slice(),
                _ => &[],
            };
            done.extend(calls.iter().map(|call| Done {
                name: &call.name,
                result: results.iter().find(|result| result.id == call.id),
            }));
        }
    }
    done
}

/// Goes on with a prompt's commands: what is said before the next tool, and that tool; at the end the report.
fn follow(lines: &[Line], done: &[Done<'_>]) -> Answer {
    let mut answer = Answer::default();
    let mut calls = 0;
    for line in lines {
        if let Line::Call {
            name, arguments, ..
        } = line
        {
            calls += 1;
            if calls > done.len() {
                answer.call = Some((name.clone(), arguments.clone()));
                return answer;
            }
            // What stood before an earlier call was said with it.
            answer.parts.clear();
            continue;
        }
        match line {
            Line::Say(text) => answer.parts.push(Part::Text(format!("{text}\n"))),
            Line::Think(text) => answer.parts.push(Part::Reasoning(text.clone())),
            Line::Stream(words) => answer.parts.push(Part::Words(*words)),
            Line::Describe => answer
                .parts
                .push(Part::Text("I was given 0 images.\n".to_owned())),
            Line::Fail(failure) => {
                if calls == done.len() {
                    answer.failure = Some(*failure);
                    return answer;
                }
            }
            Line::Call { .. } => {}
        }
    }
    let report = report(lines, done);
    if !report.is_empty() {
        answer.parts.push(Part::Text(report));
    }
    answer
}

/// One line a command, and the beginning of its result.
fn report(lines: &[Line], done: &[Done<'_>]) -> String {
    let commands = lines.iter().filter_map(|line| match line {
        Line::Call { line, .. } => Some(line),
        _ => None,
    });
    let mut out = String::new();
    for (command, done) in commands.zip(done) {
        match done.result {
            Some(result) if result.failed => {
                out.push_str(&format!("- `{command}` failed:\n{}\n", head(&result.text)));
            }
            Some(result) => out.push_str(&format!("- `{command}` gave:\n{}\n", head(&result.text))),
            None => out.push_str(&format!("- `{command}` gave no result.\n")),
        }
    }
    out
}

fn head(text: &str) -> String {
    let mut lines: Vec<String> = text
        .lines()
        .take(REPORTED_LINES)
        .map(|line| format!("    {line}"))
        .collect();
    if text.lines().nth(REPORTED_LINES).is_some() {
        lines.push("    ...".to_owned());
    }
    lines.join("\n")
}

/// Without commands it looks around: the tree, a search for the prompt's words, two files; then it reports.
fn explore(request: &ModelRequest, prompt: &str, done: &[Done<'_>]) -> Answer {
    let has = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    let word = prompt
        .split(|c: char| !c.is_alphanumeric())
        .max_by_key(|word| word.chars().count())
        .filter(|word| !word.is_empty())
        .unwrap_or("README");
    let mut steps: Vec<(String, Value)> = Vec::new();
    let mut add = |name: &str, arguments: Value| steps.push((name.to_owned(), arguments));
    match (has("tree"), has("list")) {
        (true, _) => add("tree", json!({})),
        (false, true) => add("list", json!({"path": "."})),
        (false, false) => {}
    }
    match (has("search"), has("grep")) {
        (true, _) => add("search", json!({"query": prompt.trim()})),
        (false, true) => add(
            "grep",
            json!({"pattern": word, "ignoreCase": true, "output": "files"}),
        ),
        (false, false) => {}
    }
    if done.len() >= steps.len() && has("read") {
        for path in files_seen(done) {
            steps.push(("read".to_owned(), json!({"path": path})));
        }
    }
    match steps.into_iter().nth(done.len()) {
        Some(call) => {
            let text = Part::Text(format!("Let me look around with {}.\n", call.0));
            Answer {
                parts: vec![text],
                call: Some(call),
                failure: None,
            }
        }
        None => {
            let seen: Vec<String> = done
                .iter()
                .map(|done| {
                    let text = done.result.map_or("", |result| result.text.as_str());
                    format!("- `{}` gave:\n{}", done.name, head(text))
                })
                .collect();
            let text = format!(
                "You said: {}\nThis is what I saw:\n{}\n",
                prompt.trim(),
                seen.join("\n")
            );
            Answer {
                parts: vec![Part::Text(text)],
                call: None,
                failure: None,
            }
        }
    }
}

/// Files named in what was seen first, a README before others.
fn files_seen(done: &[Done<'_>]) -> Vec<String> {
    let text = done
        .iter()
        .take(2)
        .filter_map(|done| done.result)
        .filter(|result| !result.failed);
    let mut files: Vec<String> = Vec::new();
    for result in text {
        for line in result.text.lines() {
            let words = line.split([' ', '\t', ':']).filter(|word| !word.is_empty());
            let file = words
                .filter(|word| word.contains('.') && !word.ends_with(['/', '.']))
                .find(|word| {
                    word.rsplit_once('.').is_some_and(|(stem, ending)| {
                        !stem.is_empty()
                            && !ending.is_empty()
                            && ending.chars().all(char::is_alphanumeric)
                    })
                });
            if let Some(file) = file.filter(|file| !files.iter().any(|known| known == file)) {
                files.push(file.to_owned());
            }
        }
    }
    files.sort_by_key(|file| !file.to_lowercase().contains("readme"));
    files.truncate(EXPLORED_FILES);
    files
}
