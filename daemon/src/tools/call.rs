//! What a running call gets from its session.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The directories of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Where it works: absolute, links resolved.
    pub root: PathBuf,
    /// Directories that count as workspace for reads: absolute, links resolved.
    pub add_directories: Vec<PathBuf>,
    /// The daemon's home: some files in it are closed to every tool.
    pub home: PathBuf,
}

impl Workspace {
    /// Whether a resolved path lies in the workspace.
    pub fn contains(&self, path: &Path) -> bool {
        path.starts_with(&self.root)
    }

    /// Whether a resolved path may be read as if it lay in the workspace.
    pub fn contains_for_reading(&self, path: &Path) -> bool {
        self.contains(path)
            || self
                .add_directories
                .iter()
                .any(|directory| path.starts_with(directory))
    }
}

/// What a call gets: cheap to clone.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The session's directories.
    pub workspace: Arc<Workspace>,
    /// The environment for processes: the client's, free of provider keys and of Crystal's own variables.
    pub environment: Arc<BTreeMap<String, String>>,
    /// How long a foreground command may run; `None` for no limit.
    pub bash_timeout: Option<Duration>,
    /// What the session knows of the files it has read or written.
    pub files: Arc<FileVersions>,
    /// What the call prints while it runs. Bounded: a full channel slows the producer down, never the session.
    pub output: mpsc::Sender<String>,
    /// Fires when the call must end.
    pub cancel: CancellationToken,
}

/// A file as a session last saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// Size in bytes.
    pub len: u64,
    /// Time of last change.
    pub modified: Option<SystemTime>,
}

/// The files that a session has read or written, as they were then, so that an edit of a file that has changed since is
/// refused. Files the session has never seen are not in it.
#[derive(Debug, Default)]
pub struct FileVersions {
    seen: Mutex<HashMap<PathBuf, FileVersion>>,
    planned: Mutex<HashMap<PlannedChange, Option<FileVersion>>>,
    writer: Mutex<()>,
}

/// A change of a file that was shown to whoever decides: the file and the diff.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PlannedChange {
    path: PathBuf,
    diff_hash: u64,
}

impl PlannedChange {
    fn new(path: &Path, diff: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        diff.hash(&mut hasher);
        Self {
            path: path.to_owned(),
            diff_hash: hasher.finish(),
        }
    }
}

/// Files remembered; beyond it the memory starts afresh.
const REMEMBERED_FILES: usize = 10_000;

impl FileVersions {
    /// Remembers a file as it is now.
    pub fn remember(&self, path: &Path, version: FileVersion) {
        put(&self.seen, path.to_owned(), version);
    }

    /// How the session last saw a file.
    pub fn last_seen(&self, path: &Path) -> Option<FileVersion> {
        get(&self.seen, path)
    }

    /// Remembers the file that a shown change was made for; `None` when there was none.
    pub fn remember_planned(&self, path: &Path, diff: &str, version: Option<FileVersion>) {
        put(&self.planned, PlannedChange::new(path, diff), version);
    }

    /// The file that a shown change was made for; the outer `None` when that is not remembered.
    pub fn planned(&self, path: &Path, diff: &str) -> Option<Option<FileVersion>> {
        get(&self.planned, &PlannedChange::new(path, diff))
    }

    /// Held while a file is read, changed and put back, so that changes of one batch do not undo each other. Blocks;
    /// never held across an await.
    pub fn writing(&self) -> MutexGuard<'_, ()> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put<K: Hash + Eq, V>(map: &Mutex<HashMap<K, V>>, key: K, value: V) {
    let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
    if map.len() >= REMEMBERED_FILES && !map.contains_key(&key) {
        map.clear();
    }
    map.insert(key, value);
}

fn get<K: Hash + Eq + Borrow<Q>, Q: Hash + Eq + ?Sized, V: Copy>(
    map: &Mutex<HashMap<K, V>>,
    key: &Q,
) -> Option<V> {
    map.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(key)
        .copied()
}

impl From<&std::fs::Metadata> for FileVersion {
    fn from(metadata: &std::fs::Metadata) -> Self {
        Self {
            len: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }
}
