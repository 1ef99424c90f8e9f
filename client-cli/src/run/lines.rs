//! The JSON lines of a headless run: `type`, `timestamp`, `sessionID`, and what the type brings.
//!
//! `session` comes first; `step_start` and `step_finish` enclose a turn; `text`, `reasoning`, `tool_use` are finished
//! items; `stopped` is the last line of a run that did not end with the model being done.

use crystal_protocol::{
    event::Event,
    ids::{ItemId, SessionId},
    item::{InputKind, Item, ItemBody, NoteLevel, ToolCall},
    session::{SessionInfo, Snapshot},
    time::Timestamp,
    turn::TurnCompleted,
};
use serde_json::{Value, json};

use crate::wire::name_of;

/// Turns events into lines.
#[derive(Debug)]
pub(crate) struct Lines {
    session: SessionId,
    /// The last item that has its line, to find one's place in a later snapshot.
    last: Option<ItemId>,
}

impl Lines {
    /// Lines about a session.
    pub(crate) fn new(session: SessionId) -> Self {
        Self {
            session,
            last: None,
        }
    }

    /// The line that opens a run.
    pub(crate) fn session(&self, info: &SessionInfo) -> Value {
        self.line(
            Timestamp::now(),
            "session",
            json!({
                "workspace": info.workspace, "provider": info.provider, "model": info.model,
                "mode": info.mode, "approval": info.approval,
            }),
        )
    }

    /// The line that ends a run which did not come to a good end.
    pub(crate) fn stopped(&self, reason: &str, code: u8) -> Value {
        let more = json!({"reason": reason, "exitCode": code});
        self.line(Timestamp::now(), "stopped", more)
    }

    /// A note, be it an item or about the making of the session.
    pub(crate) fn note(&self, time: Timestamp, level: NoteLevel, text: &str) -> Value {
        self.line(time, "note", json!({"level": level, "text": text}))
    }

    /// An error that no event tells of.
    pub(crate) fn error(&self, kind: &str, message: &str) -> Value {
        let more = json!({"kind": kind, "message": message});
        self.line(Timestamp::now(), "error", more)
    }

    /// What an event adds.
    pub(crate) fn event(&mut self, time: Timestamp, event: &Event) -> Vec<Value> {
        match event {
            Event::TurnStarted { turn } => {
                vec![self.line(time, "step_start", json!({"turn": turn.id}))]
            }
            Event::ItemCompleted { item } | Event::NoteAdded { item } => {
                self.item(time, item).into_iter().collect()
            }
            Event::RetryScheduled {
                attempt,
                delay_ms,
                cause,
            } => vec![self.line(
                time,
                "retry",
                json!({"attempt": attempt, "delayMs": delay_ms, "cause": cause}),
            )],
            Event::TurnCompleted(completed) => self.turn(time, completed),
            _ => Vec::new(),
        }
    }

    /// The finished items of a snapshot that have no line yet.
    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot) -> Vec<Value> {
        let items = &snapshot.items;
        let known = self
            .last
            .as_ref()
            .and_then(|last| items.iter().position(|item| item.id == *last));
        let mut lines = Vec::new();
        for item in items.iter().skip(known.map_or(0, |at| at + 1)) {
            if let Some(time) = item.completed_at {
                lines.extend(self.item(time, item));
            }
        }
        lines
    }

    /// The lines that end a turn.
    pub(crate) fn turn(&self, time: Timestamp, completed: &TurnCompleted) -> Vec<Value> {
        let mut lines = Vec::new();
        if let Some(error) = &completed.error {
            let more = json!({"kind": error.kind, "message": error.message});
            lines.push(self.line(time, "error", more));
        }
        lines.push(self.line(
            time,
            "step_finish",
            json!({
                "reason": completed.reason, "modelCalls": completed.model_rounds,
                "toolCalls": completed.tool_calls, "durationMs": completed.duration_ms,
                "usage": completed.usage,
            }),
        ));
        lines
    }

    fn item(&mut self, time: Timestamp, item: &Item) -> Option<Value> {
        self.last = Some(item.id.clone());
        let line = match &item.body {
            ItemBody::AssistantMessage { text, .. } if !text.is_empty() => {
                self.line(time, "text", json!({"item": item.id, "text": text}))
            }
            ItemBody::Reasoning { text } => {
                self.line(time, "reasoning", json!({"item": item.id, "text": text}))
            }
            ItemBody::ToolCall(call) => self.line(time, "tool_use", tool_use(item, call)),
            ItemBody::Note { level, text } => self.note(time, *level, text),
            ItemBody::AssistantMessage { .. }
            | ItemBody::UserMessage { .. }
            | ItemBody::Summary { .. } => return None,
        };
        Some(with_cut(line, item))
    }

    fn line(&self, time: Timestamp, kind: &str, more: Value) -> Value {
        let mut line = json!({"type": kind, "timestamp": time, "sessionID": self.session});
        if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
            line.extend(more);
        }
        line
    }
}

fn tool_use(item: &Item, call: &ToolCall) -> Value {
    let arguments = match call.input_kind {
        InputKind::Json => serde_json::from_str(&call.arguments).ok(),
        InputKind::Text => None,
    };
    let mut line = json!({
        "item": item.id, "name": call.name, "callId": call.call_id,
        "arguments": arguments.unwrap_or_else(|| Value::String(call.arguments.clone())),
        "status": name_of(&call.status), "output": call.output.as_deref().unwrap_or_default(),
    });
    if let (Some(code), Value::Object(map)) = (call.exit_code, &mut line) {
        map.insert("exitCode".to_owned(), json!(code));
    }
    line
}

/// A field that was cut for its size is said to be, with its whole size.
fn with_cut(mut line: Value, item: &Item) -> Value {
    if let (Some(cut), Value::Object(map)) = (&item.cut, &mut line) {
        map.insert("cut".to_owned(), json!(cut));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: &str = "2026-01-01T00:00:00.000Z";

    fn lines_of(event: Value) -> Vec<Value> {
        let event: Event = serde_json::from_value(event).unwrap();
        Lines::new(SessionId::new("s-1")).event(Timestamp::from_millis(0), &event)
    }

    #[test]
    fn a_finished_call_is_one_line_with_its_arguments_as_json() {
        let item = json!({
            "id": "i1", "kind": "toolCall", "createdAt": TIME, "completedAt": TIME, "callId": "c1",
            "name": "bash", "title": "ls", "inputKind": "json", "arguments": "{\"command\":\"ls\"}",
            "status": "succeeded", "output": "a\n", "exitCode": 0,
        });
        let lines = lines_of(json!({"type": "itemCompleted", "item": item}));
        assert_eq!(lines.len(), 1);
        let line = &lines[0];
        assert_eq!(line["type"], "tool_use");
        assert_eq!(line["sessionID"], "s-1");
        assert_eq!(line["timestamp"], "1970-01-01T00:00:00.000Z");
        assert_eq!(line["arguments"], json!({"command": "ls"}));
        assert_eq!(
            (&line["status"], &line["output"]),
            (&json!("succeeded"), &json!("a\n"))
        );
    }

    #[test]
    fn a_turn_that_failed_says_so_before_it_finishes() {
        let tokens = json!({"input": 0, "output": 0, "cached": 0, "reasoning": 0});
        let lines = lines_of(json!({
            "type": "turnCompleted", "turn": "t1", "reason": "error", "modelRounds": 2,
            "toolCalls": 1, "durationMs": 5, "error": {"kind": "auth", "message": "No key."},
            "usage": {"last": tokens, "total": tokens, "contextTokens": 0, "contextWindow": 0},
        }));
        let types: Vec<&Value> = lines.iter().map(|line| &line["type"]).collect();
        assert_eq!(types, ["error", "step_finish"]);
        assert_eq!(
            (&lines[1]["modelCalls"], &lines[1]["toolCalls"]),
            (&json!(2), &json!(1))
        );
    }
}
