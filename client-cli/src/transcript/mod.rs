//! How a session reads in lines: the model's answer as it streams, everything else in a line or two.
//!
//! Pure: events in, pieces of text out. Two channels, because a headless run keeps the answer on stdout clean.

pub(crate) mod inquiry;

use std::collections::HashMap;

use crystal_protocol::{
    event::Event,
    ids::ItemId,
    item::{Item, ItemBody, ItemField, NoteLevel, ToolCall, ToolCallStatus},
    session::Snapshot,
    span::plain_text,
    turn::TurnReason,
};

use crate::wire::name_of;

/// Items of a snapshot that are shown to someone who attaches.
const SHOWN_ITEMS: usize = 20;

/// Lines of a tool's output that are shown when the call has failed.
const SHOWN_OUTPUT_LINES: usize = 5;

/// Where a piece belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// The model's answer.
    Answer,
    /// All else.
    Rest,
}

/// Text to print, with its newlines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Where.
    pub(crate) channel: Channel,
    /// What; not yet made harmless.
    pub(crate) text: String,
}

/// What is shown of the model's reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thinking {
    /// As it streams.
    Shown,
    /// Not at all.
    Hidden,
}

/// Turns events into text.
#[derive(Debug)]
pub(crate) struct Transcript {
    /// For the commands that answer what waits; `None` when the session denies by itself.
    hints: Option<inquiry::Hints>,
    thinking: Thinking,
    /// The item whose text is being printed, and what of it was.
    open: Option<Open>,
    /// What was printed of items that another one interrupted.
    aside: HashMap<ItemId, String>,
    /// The last item that was printed whole, to find one's place in a later snapshot.
    last: Option<ItemId>,
    pieces: Vec<Piece>,
}

#[derive(Debug)]
struct Open {
    item: ItemId,
    channel: Channel,
    printed: String,
    /// How much of it had been printed before it was opened, again, in bytes.
    before: usize,
}

impl Transcript {
    /// An empty transcript. Without hints, inquiries are not shown, only how they end.
    pub(crate) fn new(hints: Option<inquiry::Hints>, thinking: Thinking) -> Self {
        Self {
            hints,
            thinking,
            open: None,
            aside: HashMap::new(),
            last: None,
            pieces: Vec::new(),
        }
    }

    /// What an event adds.
    pub(crate) fn event(&mut self, event: &Event) -> Vec<Piece> {
        match event {
            Event::ItemStarted { item } => self.started(item),
            Event::ItemCompleted { item } | Event::NoteAdded { item } => self.completed(item),
            Event::ItemDelta {
                item, field, delta, ..
            } => {
                if *field == ItemField::Text
                    && self.open.as_ref().is_some_and(|open| open.item == *item)
                {
                    self.stream(delta);
                }
            }
            Event::ItemDiscarded { item, .. } => {
                if self.open.as_ref().is_some_and(|open| open.item == *item) {
                    self.end_open();
                    self.rest("- what was just shown does not count: the request is tried again");
                }
            }
            Event::RetryScheduled {
                attempt,
                delay_ms,
                cause,
            } => self.rest(&format!(
                "- attempt {attempt} in {:.1} s: {cause}",
                *delay_ms as f64 / 1000.0
            )),
            Event::ApprovalRequested { approval } => {
                self.inquiry(|hints| inquiry::approval(approval, hints));
            }
            Event::ApprovalResolved {
                id,
                decision,
                by,
                via,
            } => {
                let by = by
                    .as_ref()
                    .map_or_else(|| name_of(via), |by| by.name.clone());
                self.rest(&format!("- approval {id}: {} ({by})", name_of(decision)));
            }
            Event::QuestionRequested { question } => {
                self.inquiry(|hints| inquiry::question(question, hints));
            }
            Event::QuestionResolved { id, outcome, .. } => {
                self.rest(&format!("- question {id}: {}", name_of(outcome)));
            }
            Event::TurnCompleted(turn) => {
                self.end_open();
                self.aside.clear();
                if let Some(error) = &turn.error {
                    self.rest(&format!("! {}: {}", error.kind, error.message));
                }
                if turn.reason != TurnReason::Completed {
                    self.rest(&format!("- the turn ended: {}", name_of(&turn.reason)));
                }
            }
            Event::CompactionStarted { .. } => self.rest("- the conversation is being summarised"),
            Event::CompactionCompleted {
                error: Some(error), ..
            } => self.rest(&format!("! the summary failed: {error}")),
            Event::TaskStarted { task } => {
                self.rest(&format!("- task {} started: {}", task.id, task.command));
            }
            Event::TaskExited { task } => {
                self.rest(&format!("- task {}: {}", task.id, name_of(&task.state)));
            }
            Event::SessionClosed { reason } => {
                self.rest(&format!("- the session was closed: {reason}"));
            }
            Event::SessionUpdated { .. }
            | Event::TurnStarted { .. }
            | Event::ActivityChanged { .. }
            | Event::QueueChanged { .. }
            | Event::TaskOutput { .. }
            | Event::TodosChanged { .. }
            | Event::ImageAttached { .. }
            | Event::ImageChanged { .. }
            | Event::ImageDiscarded { .. }
            | Event::CompactionCompleted { .. }
            | Event::UsageChanged { .. }
            | Event::ClientAttached { .. }
            | Event::ClientDetached { .. } => {}
        }
        std::mem::take(&mut self.pieces)
    }

    /// What a snapshot adds: the items after the last one printed, at most the newest few, and what is open.
    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot) -> Vec<Piece> {
        let items = &snapshot.items;
        let known = self
            .last
            .as_ref()
            .and_then(|last| items.iter().position(|item| item.id == *last));
        let begin = known.map_or(0, |at| at + 1);
        let begin = begin.max(items.len().saturating_sub(SHOWN_ITEMS));
        for item in items.iter().skip(begin) {
            if item.is_completed() {
                self.completed(item);
            } else {
                self.started(item);
            }
        }
        for approval in &snapshot.approvals {
            self.inquiry(|hints| inquiry::approval(approval, hints));
        }
        for question in &snapshot.questions {
            self.inquiry(|hints| inquiry::question(question, hints));
        }
        std::mem::take(&mut self.pieces)
    }

    fn channel_of(&self, item: &Item) -> Option<Channel> {
        match &item.body {
            ItemBody::AssistantMessage { .. } => Some(Channel::Answer),
            ItemBody::Reasoning { .. } => {
                (self.thinking == Thinking::Shown).then_some(Channel::Rest)
            }
            _ => None,
        }
    }

    fn started(&mut self, item: &Item) {
        if let Some(channel) = self.channel_of(item) {
            if self.open.as_ref().is_some_and(|open| open.item == item.id) {
                return self.catch_up(item);
            }
            self.end_open();
            let printed = self.aside.remove(&item.id).unwrap_or_default();
            self.open = Some(Open {
                item: item.id.clone(),
                channel,
                before: printed.len(),
                printed,
            });
            self.catch_up(item);
        } else if let ItemBody::ToolCall(call) = &item.body
            && call.status == ToolCallStatus::Running
        {
            self.rest(&format!("> {} ...", title(call)));
        }
    }

    fn completed(&mut self, item: &Item) {
        self.last = Some(item.id.clone());
        match &item.body {
            ItemBody::AssistantMessage { .. } | ItemBody::Reasoning { .. } => {
                if self.channel_of(item).is_some() {
                    self.started(item);
                    self.end_open();
                    self.aside.remove(&item.id);
                }
            }
            ItemBody::UserMessage { spans, by, .. } => {
                let by = by.as_ref().map_or("", |by| by.name.as_str());
                let text = plain_text(spans).trim_end().replace('\n', "\n  ");
                self.rest(&format!("{by}> {text}"));
            }
            ItemBody::ToolCall(call) => self.tool_call(call),
            ItemBody::Note { level, text } => {
                let mark = match level {
                    NoteLevel::Info => "-",
                    NoteLevel::Warning | NoteLevel::Error => "!",
                };
                self.rest(&format!("{mark} {text}"));
            }
            ItemBody::Summary { text, items_folded } => {
                self.rest(&format!(
                    "- {items_folded} items are summed up:\n  {}",
                    text.replace('\n', "\n  ")
                ));
            }
        }
    }

    fn tool_call(&mut self, call: &ToolCall) {
        let mut line = format!("> {}: {}", title(call), name_of(&call.status));
        if let Some(code) = call.exit_code {
            line.push_str(&format!(", exit {code}"));
        }
        if let Some(duration) = call.duration_ms {
            line.push_str(&format!(", {:.1} s", duration as f64 / 1000.0));
        }
        if matches!(
            call.status,
            ToolCallStatus::Failed | ToolCallStatus::Rejected
        ) {
            let output = call.output.as_deref().unwrap_or_default();
            for text in output.lines().take(SHOWN_OUTPUT_LINES) {
                line.push_str("\n  ");
                line.push_str(text);
            }
        }
        self.rest(&line);
    }

    /// Prints what of an item's text was not printed yet.
    fn catch_up(&mut self, item: &Item) {
        let text = item.field(ItemField::Text).unwrap_or_default();
        let Some(open) = &self.open else { return };
        if let Some(more) = text.strip_prefix(open.printed.as_str()) {
            let more = more.to_owned();
            self.stream(&more);
        } else if item.is_completed() && item.cut.is_none() {
            // The finished form counts; what was streamed differs.
            self.put(open.channel, "\n".to_owned());
            if let Some(open) = &mut self.open {
                open.printed.clear();
                open.before = 0;
            }
            self.stream(text);
        }
    }

    fn stream(&mut self, text: &str) {
        if let Some(open) = &mut self.open
            && !text.is_empty()
        {
            open.printed.push_str(text);
            let channel = open.channel;
            self.put(channel, text.to_owned());
        }
    }

    fn end_open(&mut self) {
        if let Some(open) = self.open.take() {
            if open.printed.len() > open.before && !open.printed.ends_with('\n') {
                self.put(open.channel, "\n".to_owned());
            }
            self.aside.insert(open.item, open.printed);
        }
    }

    fn inquiry(&mut self, text: impl FnOnce(&inquiry::Hints) -> String) {
        if let Some(text) = self.hints.as_ref().map(text) {
            self.rest(&text);
        }
    }

    fn rest(&mut self, line: &str) {
        self.put(Channel::Rest, format!("{line}\n"));
    }

    fn put(&mut self, channel: Channel, text: String) {
        self.pieces.push(Piece { channel, text });
    }
}

fn title(call: &ToolCall) -> String {
    if call.title.is_empty() || call.title == call.name {
        call.name.clone()
    } else if call.title.starts_with(&call.name) {
        call.title.clone()
    } else {
        format!("{}: {}", call.name, call.title)
    }
}

#[cfg(test)]
mod tests;
