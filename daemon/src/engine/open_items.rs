//! What the actor knows of items that have not finished, besides what everybody sees of them.

use std::collections::HashMap;

use crystal_protocol::{
    ids::ItemId,
    item::{Item, ItemField},
};

use crate::terms::Replay;

/// Items that have not finished: what the visible state does not say of them.
#[derive(Debug, Default)]
pub(super) struct OpenItems {
    pub(super) items: Vec<OpenItem>,
    pub(super) unsaved: bool,
}

#[derive(Debug)]
pub(super) struct OpenItem {
    pub(super) id: ItemId,
    pub(super) round: u64,
    /// The call's place in the model's answer.
    pub(super) index: Option<usize>,
    /// The log knows the item.
    pub(super) started_saved: bool,
    /// Bytes of each field that the log has.
    pub(super) saved: HashMap<ItemField, usize>,
    pub(super) replay: Option<Replay>,
    pub(super) running: bool,
}

impl OpenItems {
    /// Whether text has streamed that the log does not have.
    pub(super) fn has_unsaved(&self) -> bool {
        self.unsaved
    }

    /// The open items, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &OpenItem> {
        self.items.iter()
    }

    pub(super) fn get_mut(&mut self, id: &ItemId) -> Option<&mut OpenItem> {
        self.items.iter_mut().find(|open| open.id == *id)
    }

    pub(super) fn remove(&mut self, id: &ItemId) -> Option<OpenItem> {
        let place = self.items.iter().position(|open| open.id == *id)?;
        Some(self.items.remove(place))
    }

    /// An item that the log already has, with its text, from before a restart.
    pub(super) fn adopt(&mut self, item: &Item, round: u64) {
        let saved = [ItemField::Text, ItemField::Arguments, ItemField::Output]
            .into_iter()
            .filter_map(|field| Some((field, item.field(field)?.len())))
            .collect();
        self.items.push(OpenItem {
            id: item.id.clone(),
            round,
            index: None,
            started_saved: true,
            saved,
            replay: None,
            running: false,
        });
    }
}
