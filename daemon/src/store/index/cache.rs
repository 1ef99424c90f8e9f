//! The cached index, and bringing it up to date.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    path::Path,
    sync::Arc,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use crystal_protocol::ids::SessionId;
use serde::{Deserialize, Serialize};

use super::{Files, IndexEntry, SessionIndex, Stamp};
use crate::{
    home::HomePaths,
    stdx::atomic_file::{self, Visibility},
    store::{
        error::{LoadError, StoreError},
        load::{fold, names_a_file},
    },
};

/// The form of the cache; one of another form is not read but made anew.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Cache {
    format: u32,
    sessions: Vec<Arc<IndexEntry>>,
}

/// The index: the cache, brought up to date with the files. Blocks.
pub(super) fn load(paths: &HomePaths) -> Result<SessionIndex, StoreError> {
    let directory = paths.sessions();
    // Parsing the cache and looking at the files take about as long, so they go side by side.
    let (cached, found) = thread::scope(|scope| {
        let cached = scope.spawn(|| read(&paths.session_index()));
        let found = scan(&directory);
        (cached.join().unwrap_or_default(), found)
    });
    let found = found.map_err(|error| StoreError::read(&directory, error))?;
    let mut cached: HashMap<SessionId, Arc<IndexEntry>> = cached
        .into_iter()
        .map(|entry| (entry.id.clone(), entry))
        .collect();

    let mut sessions = BTreeMap::new();
    let mut changed = false;
    for (id, files) in found {
        let kept = cached.remove(&id).filter(|entry| entry.files == files);
        let entry = match kept {
            Some(entry) => entry,
            None => {
                changed = true;
                match read_entry(paths, &id, files) {
                    Some(entry) => Arc::new(entry),
                    None => continue,
                }
            }
        };
        sessions.insert(id, entry);
    }
    Ok(SessionIndex {
        newest_first: sessions.values().map(|entry| entry.place()).collect(),
        sessions,
        changed: changed || !cached.is_empty(),
    })
}

/// What a session's files say; nothing when they went away.
fn read_entry(paths: &HomePaths, id: &SessionId, files: Files) -> Option<IndexEntry> {
    match fold(paths, id) {
        Ok(folded) => Some(IndexEntry::of(&folded.head, files)),
        Err(LoadError::NotFound { .. } | LoadError::Stopped) => None,
        Err(error @ LoadError::Read { .. }) => {
            // What the system refuses today it may grant tomorrow: without stamps the next start tries again.
            let mut entry = IndexEntry::damaged(id.clone(), files, error.to_string());
            entry.files = Files::default();
            Some(entry)
        }
        Err(error @ (LoadError::Damaged { .. } | LoadError::Newer { .. })) => {
            Some(IndexEntry::damaged(id.clone(), files, error.to_string()))
        }
    }
}

/// The session files of a directory.
fn scan(directory: &Path) -> io::Result<HashMap<SessionId, Files>> {
    let mut found: HashMap<SessionId, Files> = HashMap::new();
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let parts = name.to_str().and_then(|name| name.rsplit_once('.'));
        let Some((id, extension @ ("json" | "log"))) = parts else {
            continue;
        };
        if name == "index.json" || !names_a_file(id) {
            continue;
        }
        let Ok(metadata) = entry.metadata() else {
            // It went away since the directory was read.
            continue;
        };
        let files = found.entry(SessionId::new(id)).or_default();
        let place = match extension {
            "json" => &mut files.head,
            _ => &mut files.log,
        };
        *place = Some(stamp_of(&metadata));
    }
    Ok(found)
}

fn read(path: &Path) -> Vec<Arc<IndexEntry>> {
    fs::read(path)
        .ok()
        .and_then(|content| serde_json::from_slice::<Cache>(&content).ok())
        .filter(|cache| cache.format == FORMAT)
        .map_or_else(Vec::new, |cache| cache.sessions)
}

/// The stamp of a file that is there.
pub(super) fn stamp(path: &Path) -> Option<Stamp> {
    fs::metadata(path).ok().map(|metadata| stamp_of(&metadata))
}

fn stamp_of(metadata: &fs::Metadata) -> Stamp {
    let since_epoch = metadata
        .modified()
        .unwrap_or(SystemTime::UNIX_EPOCH)
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Stamp {
        bytes: metadata.len(),
        modified_nanos: i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX),
    }
}

/// Replaces the cache. Blocks.
pub(super) fn replace(paths: &HomePaths, sessions: Vec<Arc<IndexEntry>>) -> Result<(), StoreError> {
    let path = paths.session_index();
    let cache = Cache {
        format: FORMAT,
        sessions,
    };
    let content = serde_json::to_vec(&cache).map_err(|source| StoreError::Encode {
        path: path.clone(),
        source,
    })?;
    paths
        .make(&paths.sessions())
        .and_then(|()| atomic_file::replace(&path, &content, Visibility::Private))
        .map_err(|error| StoreError::write(&path, error))
}
