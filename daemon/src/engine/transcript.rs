//! The transcript as the model sees it: items in, messages out.
//!
//! Pairing holds by construction: a tool-call item becomes a call and its result at once, and a call without an output
//! gets one that says so, so that a conversation can always go on.

use std::sync::Arc;

use crystal_protocol::{
    item::{Item, ItemBody, ToolCall, ToolCallStatus},
    span,
};

use crate::{
    providers::{Call, CallResult, Message},
    stdx::truncate,
    store::head::{StoredItem, item_number},
    terms::Replay,
};

/// Characters that count as one token.
const CHARS_PER_TOKEN: usize = 4;

/// A tool's result in a text that is to be summarised, in characters.
const SUMMARISED_RESULT_CHARS: usize = 2_000;

/// Messages of finished items, in the order of their ids. What people did outside turns is left out.
pub(super) fn messages<'a>(items: impl IntoIterator<Item = &'a StoredItem>) -> Vec<Arc<Message>> {
    let mut builder = Builder::default();
    for stored in items {
        builder.push(stored);
    }
    builder.flush();
    builder.messages
}

/// A turn that has ended, as the model sees it.
#[derive(Clone, Debug)]
pub(super) struct SettledTurn {
    /// Number of its first item.
    pub(super) first: u64,
    /// How many items it has.
    pub(super) items: u64,
    /// Its messages.
    pub(super) messages: Vec<Arc<Message>>,
}

/// Finished items by turn, in the order of their ids.
pub(super) fn turns(items: &[StoredItem]) -> Vec<SettledTurn> {
    items
        .chunk_by(|a, b| a.item.turn == b.item.turn)
        .filter_map(settle)
        .collect()
}

/// A turn's finished items as the turn it was; `None` when the model sees nothing of them.
pub(super) fn settle(items: &[StoredItem]) -> Option<SettledTurn> {
    let messages = messages(items);
    let first = items
        .first()
        .and_then(|stored| item_number(&stored.item.id))?;
    (!messages.is_empty()).then_some(SettledTurn {
        first,
        items: items.len() as u64,
        messages,
    })
}

/// Tokens that messages cost, by the rule of four characters each.
pub(super) fn tokens<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> u64 {
    let bytes: usize = messages.into_iter().map(|message| weight(message)).sum();
    (bytes / CHARS_PER_TOKEN) as u64
}

fn weight(message: &Message) -> usize {
    match message {
        Message::User { text } => text.len(),
        Message::Assistant { text, calls, .. } => {
            let calls: usize = calls
                .iter()
                .map(|call| call.name.len() + call.arguments.len())
                .sum();
            text.len() + calls
        }
        Message::Results(results) => results.iter().map(|result| result.text.len()).sum(),
    }
}

/// Messages as one text, for a summary; a long result keeps its beginning and end.
pub(super) fn as_text<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> String {
    let mut out = String::new();
    for message in messages {
        match &*plain_message(message) {
            Message::Assistant { text, .. } => out.push_str(&format!("Agent: {text}\n\n")),
            Message::User { text } if matches!(&**message, Message::User { .. }) => {
                out.push_str(&format!("User: {text}\n\n"));
            }
            Message::User { text } => {
                let text = truncate::middle(text, SUMMARISED_RESULT_CHARS).text;
                out.push_str(&format!("{text}\n\n"));
            }
            Message::Results(_) => {}
        }
    }
    out
}

/// The conversation without calls and results, told as text: for a provider that refuses its form. Each message stays one.
pub(super) fn plain(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    messages.iter().map(plain_message).collect()
}

fn plain_message(message: &Arc<Message>) -> Arc<Message> {
    match &**message {
        Message::User { .. } => message.clone(),
        Message::Assistant { text, calls, .. } => {
            let mut text = text.clone();
            for call in calls {
                text.push_str(&format!(
                    "\n[I called the tool {} with {}]",
                    call.name, call.arguments
                ));
            }
            Arc::new(Message::Assistant {
                text,
                calls: Vec::new(),
                replay: None,
            })
        }
        Message::Results(results) => {
            let told: Vec<String> = results
                .iter()
                .map(|result| {
                    let how = if result.failed { "failed" } else { "gave" };
                    format!("[The tool {} {how}:]\n{}", result.name, result.text)
                })
                .collect();
            Arc::new(Message::User {
                text: told.join("\n"),
            })
        }
    }
}

#[derive(Default)]
struct Builder {
    messages: Vec<Arc<Message>>,
    answer: Answer,
}

/// One round's answer while its items come in.
#[derive(Default)]
struct Answer {
    round: u64,
    text: String,
    calls: Vec<Call>,
    results: Vec<CallResult>,
    replay: Option<Replay>,
}

impl Builder {
    fn push(&mut self, stored: &StoredItem) {
        let Item { body, turn, .. } = &stored.item;
        if turn.is_none() {
            return;
        }
        match body {
            ItemBody::UserMessage { spans, .. } => {
                self.flush();
                self.messages.push(Arc::new(Message::User {
                    text: span::plain_text(spans),
                }));
            }
            // A summary stands before what is kept, wherever its item lies.
            ItemBody::Note { .. } | ItemBody::Summary { .. } => {}
            ItemBody::AssistantMessage { text, .. } => {
                self.begin(stored);
                self.answer.text.push_str(text);
            }
            ItemBody::Reasoning { .. } => self.begin(stored),
            ItemBody::ToolCall(call) => {
                self.begin(stored);
                self.answer.calls.push(Call {
                    id: call.call_id.to_string(),
                    name: call.name.clone(),
                    arguments: wire_arguments(&call.arguments),
                });
                self.answer.results.push(result(call));
            }
        }
    }

    fn begin(&mut self, stored: &StoredItem) {
        if self.answer.round != stored.round {
            self.flush();
            self.answer.round = stored.round;
        }
        if stored.replay.is_some() {
            self.answer.replay.clone_from(&stored.replay);
        }
    }

    fn flush(&mut self) {
        let answer = std::mem::take(&mut self.answer);
        if answer.text.is_empty() && answer.calls.is_empty() {
            return;
        }
        let has_calls = !answer.calls.is_empty();
        self.messages.push(Arc::new(Message::Assistant {
            text: answer.text,
            calls: answer.calls,
            replay: answer.replay,
        }));
        if has_calls {
            self.messages
                .push(Arc::new(Message::Results(answer.results)));
        }
    }
}

/// Providers refuse a history whose arguments are not JSON; what the model wrote stays in the transcript.
fn wire_arguments(arguments: &str) -> String {
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(arguments) {
        Ok(_) => arguments.to_owned(),
        Err(_) => "{}".to_owned(),
    }
}

fn result(call: &ToolCall) -> CallResult {
    let failed = call.status != ToolCallStatus::Succeeded;
    let text = match &call.output {
        Some(output) if !output.is_empty() => output.clone(),
        _ if failed => "The call was cancelled before it gave a result.".to_owned(),
        _ => "(no output)".to_owned(),
    };
    CallResult {
        id: call.call_id.to_string(),
        name: call.name.clone(),
        text,
        failed,
    }
}

#[cfg(test)]
mod tests {
    use crystal_protocol::{
        ids::{CallId, TurnId},
        item::InputKind,
        span::Span,
        time::Timestamp,
    };

    use super::*;
    use crate::store::head::item_id;

    fn stored(number: u64, round: u64, body: ItemBody) -> StoredItem {
        let at = Timestamp::from_millis(0);
        let turn = Some(TurnId::new("t1"));
        StoredItem {
            item: Item {
                id: item_id(number),
                turn,
                created_at: at,
                completed_at: Some(at),
                cut: None,
                body,
            },
            round,
            replay: None,
        }
    }

    fn user(number: u64, text: &str) -> StoredItem {
        let spans = vec![Span::Text {
            text: text.to_owned(),
        }];
        stored(
            number,
            0,
            ItemBody::UserMessage {
                spans,
                by: None,
                queued: None,
            },
        )
    }

    fn say(number: u64, round: u64, text: &str) -> StoredItem {
        stored(
            number,
            round,
            ItemBody::AssistantMessage {
                text: text.to_owned(),
                finish: None,
            },
        )
    }

    fn call(number: u64, round: u64, status: ToolCallStatus, output: Option<&str>) -> StoredItem {
        let call = ToolCall {
            call_id: CallId::new(format!("c{number}")),
            name: "read".to_owned(),
            title: String::new(),
            input_kind: InputKind::Json,
            arguments: "{not json".to_owned(),
            status,
            output: output.map(str::to_owned),
            output_truncated: None,
            images: None,
            exit_code: None,
            duration_ms: None,
            approval: None,
        };
        stored(number, round, ItemBody::ToolCall(call))
    }

    #[test]
    fn every_call_has_exactly_one_result_right_after_its_answer() {
        let items = [
            user(1, "go"),
            say(2, 1, "first"),
            call(3, 1, ToolCallStatus::Succeeded, Some("one")),
            call(4, 1, ToolCallStatus::Cancelled, None),
            user(5, "and this"),
            say(6, 2, "done"),
        ];
        let messages = messages(&items);
        assert_eq!(messages.len(), 5);
        assert!(
            matches!(&*messages[1], Message::Assistant { text, calls, .. } if text == "first" && calls.len() == 2)
        );
        let Message::Results(results) = &*messages[2] else {
            panic!()
        };
        assert_eq!(
            results.iter().map(|r| r.id.as_str()).collect::<Vec<_>>(),
            ["c3", "c4"]
        );
        assert!(!results[0].failed && results[1].failed && !results[1].text.is_empty());
        assert!(matches!(&*messages[3], Message::User { text } if text == "and this"));
    }

    #[test]
    fn arguments_that_are_not_json_go_out_as_an_empty_object() {
        let messages = messages(&[
            user(1, "go"),
            call(2, 1, ToolCallStatus::Failed, Some("bad")),
        ]);
        assert!(
            matches!(&*messages[1], Message::Assistant { calls, .. } if calls[0].arguments == "{}")
        );
    }

    #[test]
    fn told_as_text_a_conversation_has_no_calls_and_as_many_messages() {
        let items = [
            user(1, "go"),
            call(2, 1, ToolCallStatus::Succeeded, Some("one")),
            say(3, 2, "done"),
        ];
        let messages = messages(&items);
        let told = plain(&messages);
        assert_eq!(told.len(), messages.len());
        assert!(
            matches!(&*told[1], Message::Assistant { text, calls, .. } if calls.is_empty() && text.contains("read"))
        );
        assert!(matches!(&*told[2], Message::User { text } if text.contains("one")));
    }

    #[test]
    fn an_answer_without_text_and_calls_is_no_message() {
        let reasoning = stored(
            2,
            1,
            ItemBody::Reasoning {
                text: "hm".to_owned(),
            },
        );
        assert_eq!(messages(&[user(1, "go"), reasoning]).len(), 1);
    }
}
