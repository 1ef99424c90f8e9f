//! Finished items, read back from the log without reading the rest of it.
//!
//! The head's marks cut the log into stretches and tell the numbers of the items in each. Stretches are read from the
//! end backwards until no earlier one can hold an item that belongs on the page. An item recorded twice counts as it was
//! recorded last. Only what is asked for is parsed whole.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crystal_protocol::ids::ItemId;
use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::{
    error::StoreError,
    head::{Head, ItemMark, StoredItem, item_number},
    line::{self, Line, LineReader, Shape},
    log::SessionLog,
    positioned::LogBytes,
    record::Record,
};

/// Items, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The items.
    pub items: Vec<StoredItem>,
    /// Older ones exist.
    pub has_more: bool,
}

/// How much a page may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageBounds {
    /// Items.
    pub items: usize,
    /// Bytes of JSON; one item is given whatever its size.
    pub bytes: u64,
}

/// Reads the finished items of one session as they were when the reader was made; cheap to make and to clone.
#[derive(Clone, Debug)]
pub struct ItemReader {
    path: Arc<Path>,
    log: LogBytes,
    marks: Arc<[ItemMark]>,
    end: u64,
    damaged: Arc<AtomicU64>,
}

impl ItemReader {
    /// A reader of what `head` covers, in the file or still waiting to be written.
    pub async fn new(log: &SessionLog, head: &Head) -> Self {
        Self {
            path: log.path().into(),
            log: log.bytes().await,
            marks: head.item_index.as_slice().into(),
            end: head.log_bytes,
            damaged: Arc::default(),
        }
    }

    /// The last items before `before`, or the last of all.
    ///
    /// # Errors
    /// [`StoreError::Read`]. An id that is no item's counts as the beginning: the page is empty.
    pub async fn page(
        &self,
        before: Option<&ItemId>,
        bounds: PageBounds,
    ) -> Result<Page, StoreError> {
        let below = before.map_or(u64::MAX, |id| item_number(id).unwrap_or(0));
        self.blocking(move |reader| reader.page_now(below, bounds))
            .await
    }

    /// Records of items that this reader, or a clone of it, had to pass over so far: their checksums do not fit.
    pub fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    /// One item.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub async fn get(&self, id: &ItemId) -> Result<Option<StoredItem>, StoreError> {
        let Some(number) = item_number(id) else {
            return Ok(None);
        };
        self.blocking(move |reader| reader.get_now(number)).await
    }

    /// All items whose number is `first` or greater, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub async fn since(&self, first: u64) -> Result<Vec<StoredItem>, StoreError> {
        self.blocking(move |reader| reader.since_now(first)).await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> io::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reader = self.clone();
        spawn_blocking(move || work(&reader).map_err(|error| StoreError::read(&reader.path, error)))
            .await
            .map_err(|_| StoreError::stopped(&self.path))?
    }

    fn page_now(&self, below: u64, bounds: PageBounds) -> io::Result<Page> {
        // The greatest number in each stretch and those before it: what reading further back may still bring.
        let mut greatest = 0;
        let reach: Vec<u64> = self
            .marks
            .iter()
            .map(|mark| {
                greatest = mark.last.max(greatest);
                greatest
            })
            .collect();

        let mut found: BTreeMap<u64, Place> = BTreeMap::new();
        let mut unread = self.marks.len();
        while let Some(index) = unread.checked_sub(1) {
            let settled = bounds.items.checked_sub(1).is_none_or(|last| {
                found
                    .keys()
                    .rev()
                    .nth(last)
                    .is_some_and(|number| reach[index] < *number)
            });
            if settled {
                break;
            }
            unread = index;
            if self.marks[index].first < below {
                for (number, place) in self.places(index)? {
                    if number < below {
                        found.entry(number).or_insert(place);
                    }
                }
            }
        }

        let mut items = Vec::new();
        let mut bytes = 0;
        for place in found.values().rev().take(bounds.items) {
            bytes += place.bytes();
            if bytes > bounds.bytes && !items.is_empty() {
                break;
            }
            items.push(*place);
        }
        let has_more =
            items.len() < found.len() || self.marks[..unread].iter().any(|mark| mark.first < below);
        items.reverse();
        Ok(Page {
            items: self.read(items)?,
            has_more,
        })
    }

    fn get_now(&self, number: u64) -> io::Result<Option<StoredItem>> {
        for (index, mark) in self.marks.iter().enumerate().rev() {
            if (mark.first..=mark.last).contains(&number)
                && let Some(place) = self.places(index)?.remove(&number)
            {
                return Ok(self.read([place])?.pop());
            }
        }
        Ok(None)
    }

    fn since_now(&self, first: u64) -> io::Result<Vec<StoredItem>> {
        let mut found = BTreeMap::new();
        for (index, mark) in self.marks.iter().enumerate() {
            if mark.last >= first {
                let mut places = self.places(index)?;
                found.append(&mut places.split_off(&first));
            }
        }
        self.read(found.into_values())
    }

    /// Where the items of a stretch stand, by number.
    fn places(&self, index: usize) -> io::Result<BTreeMap<u64, Place>> {
        let begin = self.marks[index].offset;
        let end = self
            .marks
            .get(index + 1)
            .map_or(self.end, |next| next.offset);
        let mut places = BTreeMap::new();
        let mut lines = LineReader::new(self.log.range(begin, end), begin);
        while let Some(found) = lines.next_line()? {
            if found.shape == Shape::TooLong || !line::may_be_item(found.bytes) {
                continue;
            }
            let Some(json) = line::checked_json(found.bytes) else {
                self.damaged.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let number = serde_json::from_slice::<FinishedItem>(json)
                .ok()
                .and_then(|finished| item_number(&finished.item.id));
            if let Some(number) = number {
                let place = Place {
                    offset: found.offset,
                    end: found.end,
                };
                places.insert(number, place);
            }
        }
        Ok(places)
    }

    fn read(&self, places: impl IntoIterator<Item = Place>) -> io::Result<Vec<StoredItem>> {
        let mut items = Vec::new();
        let mut bytes = Vec::new();
        for place in places {
            bytes.clear();
            self.log
                .range(place.offset, place.end)
                .read_to_end(&mut bytes)?;
            if let Line::Record(record) = line::decode(&bytes)
                && let Record::ItemFinished {
                    item,
                    round,
                    replay,
                } = *record
            {
                items.push(StoredItem {
                    item,
                    round,
                    replay,
                });
            }
        }
        Ok(items)
    }
}

#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    end: u64,
}

impl Place {
    fn bytes(self) -> u64 {
        self.end - self.offset
    }
}

/// Of a record just enough to know its item; other kinds that name one by its id alone do not fit.
#[derive(Deserialize)]
struct FinishedItem {
    #[serde(rename = "record")]
    _kind: FinishedKind,
    item: IdOnly,
}

#[derive(Deserialize)]
enum FinishedKind {
    #[serde(rename = "itemFinished")]
    ItemFinished,
}

#[derive(Deserialize)]
struct IdOnly {
    id: ItemId,
}

#[cfg(test)]
mod tests;
