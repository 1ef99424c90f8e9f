//! The one reducer: folding events over a snapshot gives the next snapshot.
//!
//! The daemon's own state, every client and the tests use this function, so that they cannot disagree.
//! Source: protocol/README.md, "Events and their fold".

use crate::{
    event::Event,
    ids::{ItemId, Seq},
    item::{Item, ItemBody},
    session::Snapshot,
    time::Timestamp,
};

impl Snapshot {
    /// Folds one event into the state. `first_seq` matters to nobody here: a merged delta is one longer delta.
    pub fn apply(&mut self, seq: Seq, time: Timestamp, event: &Event) {
        self.apply_body(event);
        self.info.seq = seq;
        self.info.updated_at = time;
    }

    fn apply_body(&mut self, event: &Event) {
        match event {
            Event::SessionUpdated { info } => {
                let clients = std::mem::take(&mut self.info.clients);
                self.info = (**info).clone();
                self.info.clients = clients;
            }
            Event::SessionClosed { .. }
            | Event::RetryScheduled { .. }
            | Event::CompactionStarted { .. }
            | Event::CompactionCompleted { .. } => {}
            Event::TurnStarted { turn } => self.turn = Some(turn.clone()),
            Event::TurnCompleted(_) => self.turn = None,
            Event::ItemStarted { item }
            | Event::ItemCompleted { item }
            | Event::NoteAdded { item } => {
                put_item(&mut self.items, item.clone());
            }
            Event::ItemDelta {
                item, field, delta, ..
            } => {
                if let Some(text) =
                    find_item(&mut self.items, item).and_then(|item| item.field_mut(*field))
                {
                    text.push_str(delta);
                }
            }
            Event::ItemDiscarded { item, .. } => self.items.retain(|it| it.id != *item),
            Event::ActivityChanged { activity } => self.activity = activity.clone(),
            Event::ApprovalRequested { approval } => {
                put(&mut self.approvals, (**approval).clone(), |a, b| {
                    a.id == b.id
                });
            }
            Event::ApprovalResolved { id, .. } => self.approvals.retain(|a| a.id != *id),
            Event::QuestionRequested { question } => {
                put(&mut self.questions, question.clone(), |a, b| a.id == b.id);
            }
            Event::QuestionResolved { id, .. } => self.questions.retain(|q| q.id != *id),
            Event::QueueChanged { queue } => self.queue = queue.clone(),
            Event::TaskStarted { task } | Event::TaskExited { task } => {
                put(&mut self.tasks, task.clone(), |a, b| a.id == b.id);
            }
            Event::TaskOutput {
                task, offset, data, ..
            } => {
                if let Some(task) = self.tasks.iter_mut().find(|t| t.id == *task) {
                    task.output_bytes = offset + data.len() as u64;
                    task.dropped_bytes = task
                        .output_bytes
                        .saturating_sub(crate::limits::TASK_BUFFER_BYTES);
                }
            }
            Event::TodosChanged { todos } => self.todos = todos.clone(),
            Event::ImageAttached { image } | Event::ImageChanged { image } => {
                put(&mut self.images, image.clone(), |a, b| a.number == b.number);
            }
            Event::ImageDiscarded { number } => self.images.retain(|i| i.number != *number),
            Event::UsageChanged { usage } => self.usage = usage.clone(),
            Event::ClientAttached { client } => {
                put(&mut self.clients, client.clone(), |a, b| {
                    a.connection == b.connection
                });
                self.info.clients = self.clients.clone();
            }
            Event::ClientDetached { client } => {
                self.clients.retain(|c| c.connection != client.connection);
                self.info.clients = self.clients.clone();
            }
        }
    }
}

fn put<T>(list: &mut Vec<T>, value: T, same: impl Fn(&T, &T) -> bool) {
    match list.iter_mut().find(|other| same(other, &value)) {
        Some(place) => *place = value,
        None => list.push(value),
    }
}

/// Open items are the last ones, so the search goes from the end.
fn find_item<'a>(items: &'a mut [Item], id: &ItemId) -> Option<&'a mut Item> {
    items.iter_mut().rev().find(|item| item.id == *id)
}

fn put_item(items: &mut Vec<Item>, item: Item) {
    match find_item(items, &item.id) {
        Some(place) => *place = item,
        None => items.push(item),
    }
}

/// The text that a person reads of an item: the message, the reasoning, the note.
pub fn item_text(item: &Item) -> Option<&str> {
    match &item.body {
        ItemBody::AssistantMessage { text, .. }
        | ItemBody::Reasoning { text }
        | ItemBody::Note { text, .. }
        | ItemBody::Summary { text, .. } => Some(text),
        ItemBody::UserMessage { .. } | ItemBody::ToolCall(_) => None,
    }
}
