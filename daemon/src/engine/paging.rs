//! What clients see of a session: attaching, snapshots, pages of items. Large fields are cut, pages are bounded.

use std::{collections::BTreeMap, time::Instant};

use crystal_protocol::{
    client_ref::Role,
    error::RpcError,
    event::Event,
    ids::{ConnectionId, ItemId},
    item::{Item, ItemBody, ItemField},
    limits::{ITEM_FIELD_BYTES, SNAPSHOT_ITEMS, SNAPSHOT_ITEMS_BYTES},
    session::Snapshot,
    span,
};

use super::{
    actor::Actor,
    command::{Attach, Attached, ItemPage, Reply, answer},
};
use crate::{
    stdx::truncate,
    store::{
        head::item_number,
        items::{ItemReader, PageBounds},
    },
};

/// Finished items kept in memory; older ones are read from the log.
const KEPT_ITEMS: usize = 2 * SNAPSHOT_ITEMS;

/// What an item costs in a page besides its text fields, in bytes.
const ITEM_OVERHEAD_BYTES: usize = 512;

impl Actor {
    /// Lets a connection follow the events; the answer is true at one event number.
    pub(super) fn attach(&mut self, attach: Attach) {
        let Attach {
            client: caller,
            after,
            items,
            wake,
            reply,
        } = attach;
        if caller.client.role == Role::Controller && self.environment.is_none() {
            self.environment.clone_from(&caller.environment);
        }
        let known = self
            .view
            .clients
            .iter()
            .any(|client| client.connection == caller.client.connection);
        let resumes = after.filter(|after| self.events.retains_after(*after));
        if !known {
            self.emit(Event::ClientAttached {
                client: caller.client.clone(),
            });
        }
        let seq = self.events.head();
        let attached = Attached {
            info: self.view.info.clone(),
            seq,
            snapshot: resumes.is_none().then(|| Box::new(self.snapshot(items))),
            cursor: resumes.unwrap_or(seq),
            events: self.events.clone(),
        };
        self.events.follow(caller.client.connection.clone(), wake);
        if let Err(Ok(attached)) = reply.send(Ok(attached)) {
            drop(attached);
            if !known {
                self.detach(&caller.client.connection);
            }
        }
    }

    /// Ends an attachment.
    pub(super) fn detach(&mut self, connection: &ConnectionId) {
        self.events.unfollow(connection);
        let client = self
            .view
            .clients
            .iter()
            .find(|client| client.connection == *connection)
            .cloned();
        if let Some(client) = client {
            if client.role == Role::Controller {
                self.unattended_since = Instant::now();
            }
            self.emit(Event::ClientDetached { client });
        }
    }

    fn snapshot(&self, items: usize) -> Snapshot {
        let mut snapshot = Snapshot {
            items: Vec::new(),
            ..light_clone(&self.view)
        };
        let mut page = last_items(&self.view.items, self.down_to_open_items(items));
        snapshot.has_more = self.view.has_more || page.has_more;
        snapshot.items = std::mem::take(&mut page.items);
        snapshot
    }

    /// How many of the last items a snapshot needs: as many as are wanted, and all behind the first that is open, since
    /// deltas of it may follow.
    fn down_to_open_items(&self, wanted: usize) -> usize {
        let items = &self.view.items;
        let open = items.iter().position(|item| !item.is_completed());
        wanted.max(open.map_or(0, |place| items.len() - place))
    }

    /// A page of items: from memory where it reaches, else from the log.
    pub(super) async fn page(&self, before: Option<ItemId>, limit: usize, reply: Reply<ItemPage>) {
        let end = match &before {
            None => Some(self.view.items.len()),
            Some(id) => self.view.items.iter().position(|item| item.id == *id),
        };
        let in_memory =
            end.map(|end| last_items(self.view.items.get(..end).unwrap_or_default(), limit));
        if let Some(mut page) = in_memory
            .filter(|page| page.items.len() == limit || page.has_more || !self.view.has_more)
        {
            page.has_more |= self.view.has_more;
            return answer(reply, Ok(page));
        }
        if before.as_ref().is_some_and(|id| item_number(id).is_none()) {
            return answer(reply, Err(unknown_item(before.as_ref())));
        }
        let reader = ItemReader::new(self.journal.log(), self.journal.head()).await;
        let head_items = match end {
            Some(end) => last_items(self.view.items.get(..end).unwrap_or_default(), limit).items,
            None => Vec::new(),
        };
        let boundary = head_items.first().map(|item| item.id.clone()).or(before);
        let missing = limit - head_items.len();
        // Finished items never change, so the page stays true while the session goes on.
        tokio::spawn(async move {
            let bounds = PageBounds {
                items: missing,
                bytes: SNAPSHOT_ITEMS_BYTES as u64,
            };
            let result = match reader.page(boundary.as_ref(), bounds).await {
                Ok(page) => {
                    let mut items: Vec<Item> = page
                        .items
                        .into_iter()
                        .map(|stored| cut(&stored.item))
                        .collect();
                    items.extend(head_items);
                    Ok(ItemPage {
                        items,
                        has_more: page.has_more,
                    })
                }
                Err(error) => Err(RpcError::new(
                    crystal_protocol::error::ErrorKind::Storage,
                    error.to_string(),
                )),
            };
            answer(reply, result);
        });
    }

    /// One item whole.
    pub(super) async fn item(&self, id: ItemId, reply: Reply<Item>) {
        if let Some(item) = self.view_item(&id) {
            return answer(reply, Ok(item));
        }
        if item_number(&id).is_none() {
            return answer(reply, Err(unknown_item(Some(&id))));
        }
        let reader = ItemReader::new(self.journal.log(), self.journal.head()).await;
        tokio::spawn(async move {
            let result = match reader.get(&id).await {
                Ok(Some(stored)) => Ok(stored.item),
                Ok(None) => Err(unknown_item(Some(&id))),
                Err(error) => Err(RpcError::new(
                    crystal_protocol::error::ErrorKind::Storage,
                    error.to_string(),
                )),
            };
            answer(reply, result);
        });
    }

    /// Forgets old finished items: they are in the log.
    pub(super) fn trim_view(&mut self) {
        if self.view.items.len() <= KEPT_ITEMS {
            return;
        }
        let surplus = self.view.items.len() - SNAPSHOT_ITEMS;
        let finished = self
            .view
            .items
            .iter()
            .take(surplus)
            .take_while(|item| item.is_completed())
            .count();
        if finished > 0 {
            self.view.items.drain(..finished);
            self.view.has_more = true;
        }
    }
}

fn unknown_item(id: Option<&ItemId>) -> RpcError {
    let id = id.map(ItemId::as_str).unwrap_or_default();
    RpcError::not_found(
        "item",
        format!("There is no item {id} in this session; list the items with session/items."),
    )
}

/// All of a snapshot but its items.
fn light_clone(view: &Snapshot) -> Snapshot {
    Snapshot {
        info: view.info.clone(),
        items: Vec::new(),
        has_more: view.has_more,
        turn: view.turn.clone(),
        approvals: view.approvals.clone(),
        questions: view.questions.clone(),
        queue: view.queue.clone(),
        tasks: view.tasks.clone(),
        todos: view.todos.clone(),
        images: view.images.clone(),
        usage: view.usage.clone(),
        clients: view.clients.clone(),
        activity: view.activity.clone(),
    }
}

/// The last items within the bounds of a page, each with its large fields cut.
fn last_items(items: &[Item], limit: usize) -> ItemPage {
    let mut bytes = 0;
    let mut page: Vec<Item> = Vec::new();
    for item in items.iter().rev().take(limit) {
        let item = cut(item);
        bytes += size(&item);
        if bytes > SNAPSHOT_ITEMS_BYTES && !page.is_empty() {
            break;
        }
        page.push(item);
    }
    page.reverse();
    ItemPage {
        has_more: page.len() < items.len(),
        items: page,
    }
}

fn size(item: &Item) -> usize {
    let fields = [ItemField::Text, ItemField::Arguments, ItemField::Output];
    let texts: usize = fields
        .into_iter()
        .filter_map(|field| item.field(field))
        .map(str::len)
        .sum();
    let spans = match &item.body {
        ItemBody::UserMessage { spans, .. } => span::bytes(spans),
        _ => 0,
    };
    ITEM_OVERHEAD_BYTES + texts + spans
}

/// An item with its large fields cut to their ends: deltas go on from there.
pub(super) fn cut(item: &Item) -> Item {
    let fields = [ItemField::Text, ItemField::Arguments, ItemField::Output];
    let long: Vec<ItemField> = fields
        .into_iter()
        .filter(|field| {
            item.field(*field)
                .is_some_and(|text| text.len() > ITEM_FIELD_BYTES)
        })
        .collect();
    let mut item = item.clone();
    let mut cut = BTreeMap::new();
    for field in long {
        if let Some(text) = item.field_mut(field) {
            cut.insert(field, text.len() as u64);
            *text = truncate::tail_bytes(text, ITEM_FIELD_BYTES).to_owned();
        }
    }
    if !cut.is_empty() {
        item.cut = Some(cut);
    }
    item
}

/// A snapshot with older items before its own, for a client that wants more than memory holds.
pub async fn with_older_items(
    attached: &mut Attached,
    wanted: usize,
    page: impl AsyncFnOnce(Option<ItemId>, usize) -> Result<ItemPage, RpcError>,
) -> Result<(), RpcError> {
    let Some(snapshot) = &mut attached.snapshot else {
        return Ok(());
    };
    let has = snapshot.items.len();
    let bytes: usize = snapshot.items.iter().map(size).sum();
    if !snapshot.has_more || has >= wanted || bytes >= SNAPSHOT_ITEMS_BYTES {
        return Ok(());
    }
    let before = snapshot.items.first().map(|item| item.id.clone());
    let mut older = page(before, wanted - has).await?;
    let mut room = SNAPSHOT_ITEMS_BYTES.saturating_sub(bytes);
    let fitting = older.items.iter().rev().take_while(|item| {
        let fits = size(item) <= room;
        room = room.saturating_sub(size(item));
        fits
    });
    let fitting = fitting.count();
    let left_out = older.items.len() - fitting;
    snapshot.has_more = older.has_more || left_out > 0;
    older.items.drain(..left_out);
    older.items.append(&mut snapshot.items);
    snapshot.items = older.items;
    Ok(())
}
