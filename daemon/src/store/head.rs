//! The head: what folding a session's log gives, and what is needed to go on without reading all of it.

use std::collections::VecDeque;

use crystal_protocol::{
    approval::Approval,
    ids::{ItemId, SessionId},
    item::{CallApproval, Item, ItemBody},
    limits::KEPT_TURNS,
    task::Todo,
    time::Timestamp,
    turn::{QueuedPrompt, Turn, TurnCompleted, Usage},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::record::{Decided, Options, Record, Settings};
use crate::terms::{Replay, Rule};

/// The newest form of the head; a head with a greater major number is left alone.
pub const FORMAT: Format = Format { major: 1, minor: 0 };

/// Approval decisions kept; generous, since one turn may hold many.
const KEPT_DECISIONS: usize = 1_000;

/// Version of a head's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    /// Rises when an older daemon could not read it.
    pub major: u32,
    /// Rises with each new field.
    pub minor: u32,
}

/// The head of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    /// The form of this document.
    pub format: Format,
    /// Image markers in texts carry the host's prefix.
    #[serde(default)]
    pub marker_provenance: bool,
    /// The session.
    pub id: SessionId,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// What it keeps for good.
    pub settings: Settings,
    /// What belongs to the loaded session.
    #[serde(default)]
    pub options: Options,
    /// Turns so far.
    pub turns: u64,
    /// Items so far.
    pub items: u64,
    /// The first unused event number.
    pub next_seq: u64,
    /// The first unused number for ids.
    pub next_id: u64,
    /// Prompts that wait.
    #[serde(default)]
    pub queue: Vec<QueuedPrompt>,
    /// The todo list.
    #[serde(default)]
    pub todos: Vec<Todo>,
    /// Tokens and cost.
    #[serde(default)]
    pub usage: Usage,
    /// Where the model's context begins, when a summary stands for what was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextStart>,
    /// Rules that pass for the rest of the session.
    #[serde(default)]
    pub grants: Vec<Rule>,
    /// The turn that has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_turn: Option<OpenTurn>,
    /// Approvals that wait, of the open turn and of operators' calls.
    #[serde(default)]
    pub approvals: Vec<OpenApproval>,
    /// How the last approvals were decided.
    #[serde(default)]
    pub decisions: VecDeque<Decided>,
    /// How the last turns ended.
    #[serde(default)]
    pub results: VecDeque<KeptResult>,
    /// Bytes of the log that this head covers.
    pub log_bytes: u64,
    /// Where to begin reading the log for an item, sparsely.
    #[serde(default)]
    pub item_index: Vec<ItemMark>,
    /// Fields of a later minor version, kept.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// How a turn ended, and which queued prompts it took up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptResult {
    /// How it ended.
    pub result: TurnCompleted,
    /// The queued prompts that it took up.
    #[serde(default)]
    pub took: Vec<crystal_protocol::ids::QueuedId>,
}

/// A turn that has not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenTurn {
    /// The turn.
    pub turn: Turn,
    /// Model rounds begun or finished, as far as the log tells.
    pub rounds: u64,
    /// Tool calls made.
    pub calls: u64,
    /// Items that have not finished.
    pub open_items: Vec<OpenItem>,
}

/// An item that has not finished.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenItem {
    /// With what it has streamed so far.
    pub item: Item,
    /// The model round it belongs to.
    pub round: u64,
    /// Its tool began to run.
    #[serde(default)]
    pub running: bool,
}

/// Where the model's context begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextStart {
    /// The item of the summary that stands for what was before.
    pub summary: ItemId,
    /// Items from this number on are known as they are.
    pub kept_from: u64,
}

/// An approval that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenApproval {
    /// What is asked.
    pub approval: Approval,
    /// The call's item.
    pub item: ItemId,
    /// What a lasting yes would cover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
}

/// A stretch of the log, from `offset` to the next mark, and which items' ends are recorded in it. Calls that run together
/// end out of order, so the numbers of neighbouring stretches may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemMark {
    /// Smallest id number in it.
    pub first: u64,
    /// Greatest id number in it.
    pub last: u64,
    /// Bytes from the beginning of the log.
    pub offset: u64,
    /// Items before it.
    pub items: u64,
}

/// An item as the log has it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredItem {
    /// The item.
    pub item: Item,
    /// The model round it belongs to; 0 for what a user or the daemon wrote.
    pub round: u64,
    /// What its provider wants back.
    pub replay: Option<Replay>,
}

impl Head {
    /// The head of a session that was just made.
    pub fn new(id: SessionId, at: Timestamp, settings: Settings) -> Self {
        Self {
            format: FORMAT,
            marker_provenance: true,
            id,
            created_at: at,
            updated_at: at,
            settings,
            options: Options::default(),
            turns: 0,
            items: 0,
            next_seq: 1,
            next_id: 1,
            queue: Vec::new(),
            todos: Vec::new(),
            usage: Usage::default(),
            context: None,
            grants: Vec::new(),
            open_turn: None,
            approvals: Vec::new(),
            decisions: VecDeque::new(),
            results: VecDeque::new(),
            log_bytes: 0,
            item_index: Vec::new(),
            unknown: Map::new(),
        }
    }

    /// Folds one record that begins at `offset` in the log and ends at `end`.
    pub fn apply(&mut self, record: &Record, offset: u64, end: u64) {
        self.log_bytes = end;
        match record {
            Record::Created { id, at, settings } => {
                self.id = id.clone();
                self.created_at = *at;
                self.updated_at = *at;
                self.settings = settings.clone();
            }
            Record::SettingsChanged { settings } => {
                if settings.workspace != self.settings.workspace {
                    // A yes was for the workspace in which it was given.
                    self.grants.clear();
                }
                self.settings = settings.clone();
            }
            Record::OptionsChanged { options } => self.options = (**options).clone(),
            Record::Reserved { seq, id } => {
                self.next_seq = self.next_seq.max(*seq);
                self.next_id = self.next_id.max(*id);
            }
            Record::QueueChanged { queue } => self.queue = queue.clone(),
            Record::TurnStarted { turn } => {
                // Nothing of an earlier turn can still be asked, even if the record of its end was lost.
                self.approvals.retain(|open| {
                    let of = open.approval.turn.as_ref();
                    of.is_none_or(|of| *of == turn.id)
                });
                self.turns += 1;
                self.updated_at = turn.started_at;
                self.open_turn = Some(OpenTurn {
                    turn: turn.clone(),
                    rounds: 0,
                    calls: 0,
                    open_items: Vec::new(),
                });
            }
            Record::ItemFinished { item, round, .. } => self.finish_item(item, *round, offset),
            Record::CallOpened { item, round } => {
                if let Some(turn) = &mut self.open_turn {
                    turn.calls += 1;
                }
                self.open_item(item.clone(), *round);
            }
            Record::CallStarted {
                item,
                title,
                approval,
            } => self.start_call(item, title.as_deref(), approval.as_ref()),
            Record::Progress {
                started,
                item,
                round,
                field,
                delta,
            } => {
                if let Some(started) = started {
                    self.open_item((**started).clone(), *round);
                }
                if let Some(text) = self
                    .open_item_mut(item)
                    .and_then(|open| open.item.field_mut(*field))
                {
                    text.push_str(delta);
                }
            }
            Record::ItemDiscarded { item } => self.drop_open_item(item),
            Record::ApprovalOpened {
                approval,
                item,
                rule,
            } => self.approvals.push(OpenApproval {
                approval: (**approval).clone(),
                item: item.clone(),
                rule: rule.clone(),
            }),
            Record::ApprovalDecided { decided } => {
                self.approvals.retain(|open| open.approval.id != decided.id);
                self.decisions.push_back(decided.clone());
                while self.decisions.len() > KEPT_DECISIONS {
                    self.decisions.pop_front();
                }
            }
            Record::Granted { rule } => {
                if !self.grants.contains(rule) {
                    self.grants.push(rule.clone());
                }
            }
            Record::Compacted { summary, kept_from } => {
                self.context = Some(ContextStart {
                    summary: summary.clone(),
                    kept_from: *kept_from,
                });
            }
            Record::UsageChanged { usage } => self.usage = usage.clone(),
            Record::TodosChanged { todos } => self.todos = todos.clone(),
            Record::TurnEnded { result, took, at } => {
                self.open_turn = None;
                self.approvals
                    .retain(|open| open.approval.turn.as_ref() != Some(&result.turn));
                self.updated_at = *at;
                self.results.push_back(KeptResult {
                    result: result.clone(),
                    took: took.clone(),
                });
                while self.results.len() > KEPT_TURNS {
                    self.results.pop_front();
                }
            }
        }
    }

    fn finish_item(&mut self, item: &Item, round: u64, offset: u64) {
        self.drop_open_item(&item.id);
        if let Some(number) = item_number(&item.id) {
            match self.item_index.last_mut() {
                Some(mark)
                    if self.items < mark.items + ITEMS_PER_MARK
                        && offset < mark.offset + BYTES_PER_MARK =>
                {
                    mark.first = mark.first.min(number);
                    mark.last = mark.last.max(number);
                }
                _ => self.item_index.push(ItemMark {
                    first: number,
                    last: number,
                    offset,
                    items: self.items,
                }),
            }
            self.next_id = self.next_id.max(number + 1);
        }
        self.items += 1;
        if let Some(turn) = &mut self.open_turn {
            turn.rounds = turn.rounds.max(round);
        }
    }

    fn open_item(&mut self, item: Item, round: u64) {
        if let Some(turn) = &mut self.open_turn {
            turn.rounds = turn.rounds.max(round);
            match turn
                .open_items
                .iter_mut()
                .find(|open| open.item.id == item.id)
            {
                Some(open) => open.item = item,
                None => turn.open_items.push(OpenItem {
                    item,
                    round,
                    running: false,
                }),
            }
        }
    }

    fn start_call(&mut self, item: &ItemId, title: Option<&str>, approval: Option<&CallApproval>) {
        let Some(open) = self.open_item_mut(item) else {
            return;
        };
        open.running = true;
        if let ItemBody::ToolCall(call) = &mut open.item.body {
            if let Some(title) = title {
                title.clone_into(&mut call.title);
            }
            call.approval = approval.cloned();
        }
    }

    fn open_item_mut(&mut self, id: &ItemId) -> Option<&mut OpenItem> {
        self.open_turn
            .as_mut()?
            .open_items
            .iter_mut()
            .find(|open| open.item.id == *id)
    }

    fn drop_open_item(&mut self, id: &ItemId) {
        if let Some(turn) = &mut self.open_turn {
            turn.open_items.retain(|open| open.item.id != *id);
        }
    }
}

/// Items between two marks of the index.
pub const ITEMS_PER_MARK: u64 = 256;

/// Bytes after which a mark is due with fewer items, so that large items do not make a page costly.
const BYTES_PER_MARK: u64 = 4 * 1024 * 1024;

/// The number in an item's id: ids of items are `i` and a number that rises.
pub fn item_number(id: &ItemId) -> Option<u64> {
    id.as_str().strip_prefix('i')?.parse().ok()
}

/// An item's id from its number.
pub fn item_id(number: u64) -> ItemId {
    ItemId::new(format!("i{number}"))
}

#[cfg(test)]
mod tests;
