//! The command language of the `demo` model: a prompt's lines, read as commands or as plain text.

use serde_json::{Map, Value, json};

/// One line of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line {
    /// Text to say back.
    Say(String),
    /// Reasoning to show.
    Think(String),
    /// So many deltas of one word.
    Stream(u64),
    /// Say which images came.
    Describe,
    /// The round fails, or ends early.
    Fail(Failure),
    /// A tool to call.
    Call {
        /// The line, for the report.
        line: String,
        /// The tool.
        name: String,
        /// Its arguments.
        arguments: Value,
    },
}

/// Ways to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Auth,
    Quota,
    RateLimit,
    Overloaded,
    Server,
    Timeout,
    Reset,
    ContentFilter,
    Length,
    ContextOverflow,
    BadRequest,
}

/// Reads a prompt; blank lines say nothing.
pub(super) fn parse(prompt: &str) -> Vec<Line> {
    prompt
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(parse_line)
        .collect()
}

/// Whether a line is one of the commands, and not plain text.
pub(super) fn is_command(line: &Line, text: &str) -> bool {
    !matches!(line, Line::Say(said) if said == text)
}

fn parse_line(line: &str) -> Line {
    let text = line.trim();
    let (word, rest) = text
        .split_once(char::is_whitespace)
        .map_or((text, ""), |(word, rest)| (word, rest.trim()));
    command(text, word, rest).unwrap_or_else(|| Line::Say(line.to_owned()))
}

fn command(text: &str, word: &str, rest: &str) -> Option<Line> {
    if word == "describe" && rest.is_empty() {
        return Some(Line::Describe);
    }
    if rest.is_empty() {
        return None;
    }
    match word {
        "say" => Some(Line::Say(rest.to_owned())),
        "think" => Some(Line::Think(rest.to_owned())),
        "stream" => rest.parse().ok().map(Line::Stream),
        "fail" => failure(rest).map(Line::Fail),
        _ => {
            let (name, arguments) = tool(word, rest)?;
            Some(Line::Call {
                line: text.to_owned(),
                name,
                arguments,
            })
        }
    }
}

fn tool(word: &str, rest: &str) -> Option<(String, Value)> {
    let call = |name: &str, arguments: Value| Some((name.to_owned(), arguments));
    match word {
        "read" | "list" => call(word, json!({"path": rest})),
        "grep" => call("grep", json!({"pattern": rest})),
        "search" => call("search", json!({"query": rest})),
        "write" => {
            let (path, content) = rest.split_once(": ")?;
            call("write", json!({"path": path.trim(), "content": content}))
        }
        "edit" => {
            let (path, change) = rest.split_once(": ")?;
            let (old, new) = change.split_once(" => ")?;
            call(
                "edit",
                json!({"path": path.trim(), "old_string": old, "new_string": new}),
            )
        }
        "run" => call("bash", json!({"command": rest})),
        "task" => call("bash_start", json!({"command": rest})),
        "exec" => call("exec", json!({"cmd": rest})),
        "image" => call("view_image", json!({"path": rest})),
        "tool" => {
            let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, "{}"));
            let arguments: Map<String, Value> = serde_json::from_str(arguments.trim()).ok()?;
            call(name, Value::Object(arguments))
        }
        "ask" => {
            let mut parts = rest.split('|').map(str::trim);
            let text = parts.next()?;
            let options: Vec<Value> = parts
                .map(|label| json!({"label": label, "description": label}))
                .collect();
            call(
                "question",
                json!({"questions": [{"header": "Question", "text": text, "options": options}]}),
            )
        }
        "todo" => {
            let todos: Vec<Value> = rest
                .split(';')
                .map(str::trim)
                .filter(|todo| !todo.is_empty())
                .map(|todo| json!({"content": todo, "status": "pending"}))
                .collect();
            call("todowrite", json!({"todos": todos}))
        }
        _ => None,
    }
}

fn failure(kind: &str) -> Option<Failure> {
    Some(match kind {
        "auth" => Failure::Auth,
        "quota" => Failure::Quota,
        "rateLimit" => Failure::RateLimit,
        "overloaded" => Failure::Overloaded,
        "server" => Failure::Server,
        "timeout" => Failure::Timeout,
        "reset" => Failure::Reset,
        "contentFilter" => Failure::ContentFilter,
        "length" => Failure::Length,
        "contextOverflow" => Failure::ContextOverflow,
        "badRequest" => Failure::BadRequest,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Line {
        parse(text).remove(0)
    }

    #[test]
    fn commands_become_tool_calls_and_other_lines_are_said_back() {
        assert_eq!(one("hello there"), Line::Say("hello there".to_owned()));
        assert_eq!(one("read"), Line::Say("read".to_owned()));
        assert_eq!(one("stream many"), Line::Say("stream many".to_owned()));
        assert_eq!(one("stream 12"), Line::Stream(12));
        let Line::Call {
            name, arguments, ..
        } = one("write a b.txt: one\\two")
        else {
            panic!()
        };
        assert_eq!(
            (name.as_str(), arguments),
            ("write", json!({"path": "a b.txt", "content": "one\\two"}))
        );
        let Line::Call {
            name, arguments, ..
        } = one("edit a.rs: old => new")
        else {
            panic!()
        };
        assert_eq!(name, "edit");
        assert_eq!(
            arguments,
            json!({"path": "a.rs", "old_string": "old", "new_string": "new"})
        );
        let Line::Call {
            name, arguments, ..
        } = one("tool glob {\"pattern\": \"*\"}")
        else {
            panic!()
        };
        assert_eq!(
            (name.as_str(), arguments),
            ("glob", json!({"pattern": "*"}))
        );
        assert_eq!(one("tool glob {"), Line::Say("tool glob {".to_owned()));
        assert_eq!(one("fail rateLimit"), Line::Fail(Failure::RateLimit));
        assert_eq!(one("fail always"), Line::Say("fail always".to_owned()));
    }
}
