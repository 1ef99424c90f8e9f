//! All sessions of a home, in memory: listing and finding them touches no file.
//!
//! `sessions/index.json` is a cache of it. At the start each entry is kept if the session's two files have the size and
//! time that the entry remembers; only the others are read. Whoever owns the index puts entries as sessions change, and
//! saves now and then; what it failed to save is found stale at the next start.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    path::Path,
    sync::Arc,
};

use crystal_protocol::{
    ids::{Seq, SessionId},
    limits::SESSION_PREFIX_CHARS,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::task::spawn_blocking;

use super::{error::StoreError, head::Head, record::Settings};
use crate::home::HomePaths;

mod cache;

/// What a list says of a saved session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexEntry {
    /// The session.
    pub id: SessionId,
    /// When it was made; of a damaged one the time of its files.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// What else is known.
    pub state: EntryState,
    /// Its files when this was true.
    #[serde(default)]
    pub files: Files,
}

/// Whether a session can be loaded, as far as reading its head tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum EntryState {
    /// It can.
    Saved {
        /// What it keeps for good.
        settings: Settings,
        /// Turns so far.
        turns: u64,
        /// The last event's number.
        seq: Seq,
    },
    /// It cannot, and its files are left alone.
    Damaged {
        /// Why, in words.
        reason: String,
    },
}

/// What tells whether a session's files changed. A file that is absent, or was not looked at, has no stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// The head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Stamp>,
    /// The log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Stamp>,
}

/// Size and time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stamp {
    /// Its bytes.
    pub bytes: u64,
    /// When it was last written, in nanoseconds since the epoch.
    pub modified_nanos: i64,
}

/// A stretch of the list, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// The sessions.
    pub entries: Vec<Arc<IndexEntry>>,
    /// Where the next stretch begins; absent at the end.
    pub next: Option<String>,
}

/// What a prefix of an id names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// One session.
    Unique(SessionId),
    /// More than one.
    Ambiguous,
    /// None, or the prefix is too short.
    Unknown,
}

/// A cursor that no listing gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the cursor is not one that a list gave; begin again without it")]
pub struct BadCursor;

/// The index itself; no call blocks or waits.
#[derive(Debug, Default)]
pub struct SessionIndex {
    sessions: BTreeMap<SessionId, Arc<IndexEntry>>,
    newest_first: BTreeSet<Place>,
    changed: bool,
}

type Place = (Reverse<i64>, SessionId);

/// The index at one moment, to be saved.
#[derive(Debug)]
pub struct IndexSnapshot(Vec<Arc<IndexEntry>>);

impl IndexEntry {
    /// The entry of a session that is loaded: its files still change, so the next start reads them again.
    pub fn loaded(head: &Head) -> Self {
        Self::of(head, Files::default())
    }

    /// The entry of a session that was just saved and will not change until it is loaded again. Blocks for two `stat`
    /// calls.
    pub fn saved(paths: &HomePaths, head: &Head) -> Self {
        let files = Files {
            head: cache::stamp(&paths.session_head(&head.id)),
            log: cache::stamp(&paths.session_log(&head.id)),
        };
        Self::of(head, files)
    }

    fn of(head: &Head, files: Files) -> Self {
        Self {
            id: head.id.clone(),
            created_at: head.created_at,
            updated_at: head.updated_at,
            state: EntryState::Saved {
                settings: head.settings.clone(),
                turns: head.turns,
                seq: head.next_seq.saturating_sub(1),
            },
            files,
        }
    }

    fn damaged(id: SessionId, files: Files, reason: String) -> Self {
        let nanos = [files.head, files.log]
            .into_iter()
            .flatten()
            .map(|stamp| stamp.modified_nanos)
            .max();
        let at = Timestamp::from_millis(nanos.unwrap_or_default() / 1_000_000);
        Self {
            id,
            created_at: at,
            updated_at: at,
            state: EntryState::Damaged { reason },
            files,
        }
    }

    fn place(&self) -> Place {
        (Reverse(self.updated_at.as_millis()), self.id.clone())
    }

    fn is_in(&self, directory: &Path) -> bool {
        matches!(&self.state, EntryState::Saved { settings, .. } if settings.workspace == directory)
    }
}

impl SessionIndex {
    /// The index of a home: the cache, brought up to date with the files.
    ///
    /// # Errors
    /// [`StoreError::Read`] when the directory cannot be read. A cache that cannot be read is no error.
    pub async fn load(paths: &HomePaths) -> Result<Self, StoreError> {
        let (paths, directory) = (paths.clone(), paths.sessions());
        spawn_blocking(move || cache::load(&paths))
            .await
            .map_err(|_| StoreError::stopped(&directory))?
    }

    /// One session.
    pub fn get(&self, id: &SessionId) -> Option<&Arc<IndexEntry>> {
        self.sessions.get(id)
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Adds a session, or replaces what was known of it.
    pub fn put(&mut self, entry: IndexEntry) {
        let place = entry.place();
        let entry = Arc::new(entry);
        if let Some(old) = self.sessions.insert(entry.id.clone(), entry.clone()) {
            self.changed |= old != entry;
            self.newest_first.remove(&old.place());
        } else {
            self.changed = true;
        }
        self.newest_first.insert(place);
    }

    /// Moves a session to where its last change puts it.
    pub fn touch(&mut self, id: &SessionId, updated_at: Timestamp) {
        let moved = self
            .sessions
            .get(id)
            .filter(|entry| entry.updated_at != updated_at);
        if let Some(moved) = moved.map(|entry| IndexEntry {
            updated_at,
            ..(**entry).clone()
        }) {
            self.put(moved);
        }
    }

    /// Forgets a session.
    pub fn remove(&mut self, id: &SessionId) {
        if let Some(old) = self.sessions.remove(id) {
            self.newest_first.remove(&old.place());
            self.changed = true;
        }
    }

    /// At most `limit` sessions behind `cursor`, the last changed first; with `workspace` only those that work there.
    ///
    /// # Errors
    /// [`BadCursor`].
    pub fn list(
        &self,
        workspace: Option<&Path>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Listing, BadCursor> {
        let after = cursor.map(parse_cursor).transpose()?;
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut matching = self
            .newest_first
            .range((begin, Bound::Unbounded))
            .filter_map(|(_, id)| self.sessions.get(id))
            .filter(|entry| workspace.is_none_or(|directory| entry.is_in(directory)));
        let entries: Vec<_> = matching.by_ref().take(limit).cloned().collect();
        let next = match (matching.next(), entries.last()) {
            (Some(_), Some(last)) => Some(cursor_behind(last)),
            _ => None,
        };
        Ok(Listing { entries, next })
    }

    /// Finds the session that an id or a prefix of at least [`SESSION_PREFIX_CHARS`] characters names.
    pub fn resolve(&self, prefix: &str) -> Resolved {
        let id = SessionId::new(prefix);
        if self.sessions.contains_key(&id) {
            return Resolved::Unique(id);
        }
        if prefix.chars().count() < SESSION_PREFIX_CHARS {
            return Resolved::Unknown;
        }
        let mut fitting = self
            .sessions
            .range(id..)
            .map(|(id, _)| id)
            .take_while(|id| id.as_str().starts_with(prefix));
        match (fitting.next(), fitting.next()) {
            (None, _) => Resolved::Unknown,
            (Some(id), None) => Resolved::Unique(id.clone()),
            (Some(_), Some(_)) => Resolved::Ambiguous,
        }
    }

    /// What to save, if anything changed since the last call. After a failed save call [`Self::mark_changed`].
    pub fn take_changed(&mut self) -> Option<IndexSnapshot> {
        std::mem::take(&mut self.changed)
            .then(|| IndexSnapshot(self.sessions.values().cloned().collect()))
    }

    /// Makes the next [`Self::take_changed`] give a snapshot.
    pub fn mark_changed(&mut self) {
        self.changed = true;
    }
}

impl IndexSnapshot {
    /// Replaces the cache.
    ///
    /// # Errors
    /// [`StoreError::Write`]; the old cache is whole then.
    pub async fn save(self, paths: &HomePaths) -> Result<(), StoreError> {
        let stopped = StoreError::stopped(&paths.session_index());
        let paths = paths.clone();
        spawn_blocking(move || cache::replace(&paths, self.0))
            .await
            .map_err(|_| stopped)?
    }
}

fn cursor_behind(entry: &IndexEntry) -> String {
    format!("{}.{}", entry.updated_at.as_millis(), entry.id)
}

fn parse_cursor(cursor: &str) -> Result<Place, BadCursor> {
    let (millis, id) = cursor.split_once('.').ok_or(BadCursor)?;
    let millis = millis.parse().map_err(|_| BadCursor)?;
    Ok((Reverse(millis), SessionId::new(id)))
}

#[cfg(test)]
mod tests;
