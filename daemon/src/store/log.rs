//! The log's one writer.
//!
//! Every write goes to the tracked end of the file, so a write that failed half-way is taken back or written over and
//! never stands in the way of the next. What a crash tore is not ours to judge: the torn bytes stay, the first append
//! after them ends their line and goes on behind it. While the disk refuses, records can wait in memory: they already
//! have their place in the file, so heads and indexes count on it, and the next append writes them first.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crystal_protocol::ids::SessionId;
use tokio::{sync::Mutex, task::spawn_blocking};

use super::{error::StoreError, line, positioned, positioned::LogBytes, record::Record};
use crate::{home::HomePaths, stdx::atomic_file};

/// What may wait in memory while the disk refuses, in bytes.
pub const BACKLOG_BYTES: usize = 64 * 1024 * 1024;

/// While records wait, [`SessionLog::append_or_keep`] tries the disk this often and not at every call.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What must be true when an append returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The system has the bytes: they outlive this process.
    Written,
    /// The disk has the bytes: they outlive a power cut.
    Synced,
}

/// Where a record stands in the log, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Where it begins.
    pub offset: u64,
    /// Where it ends.
    pub end: u64,
}

/// What became of records that may wait.
#[derive(Debug)]
pub enum Appended {
    /// They are in the file.
    Written(Vec<Placed>),
    /// They wait in memory for a later append and will stand there.
    Kept {
        /// Their places to be.
        placed: Vec<Placed>,
        /// What the disk said.
        cause: StoreError,
    },
}

/// The log of one session, open for appending. A clone writes to the same log, in the order of the calls.
#[derive(Clone, Debug)]
pub struct SessionLog {
    path: Arc<Path>,
    /// The file's name is not durable yet.
    unsynced_name: Arc<AtomicBool>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    file: Arc<File>,
    writable: bool,
    /// Bytes of the file that count.
    end: u64,
    /// The last line has no newline.
    torn: bool,
    /// A failed write left bytes behind `end`.
    stray: bool,
    backlog: Vec<u8>,
    failure: Option<Failure>,
}

#[derive(Debug)]
struct Failure {
    at: Instant,
    kind: io::ErrorKind,
    code: Option<i32>,
}

/// An existing log as loading found it.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) file: Arc<File>,
    pub(super) writable: bool,
    pub(super) end: u64,
    pub(super) torn: bool,
}

impl SessionLog {
    /// Makes the log of a new session, empty, 0600. Its name is synced with the first sync.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when it is there, [`StoreError::Write`] when it cannot be made.
    pub async fn create(paths: &HomePaths, id: &SessionId) -> Result<Self, StoreError> {
        let (paths, path) = (paths.clone(), paths.session_log(id));
        let stopped = StoreError::stopped(&path);
        spawn_blocking(move || Self::create_now(&paths, path))
            .await
            .map_err(|_| stopped)?
    }

    pub(super) fn create_now(paths: &HomePaths, path: PathBuf) -> Result<Self, StoreError> {
        let refused = |error| StoreError::write(&path, error);
        let directory = paths.sessions();
        if !directory.is_dir() {
            paths.make(&directory).map_err(refused)?;
            atomic_file::sync_directory(&directory).map_err(refused)?;
        }
        let file = match options().create_new(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(StoreError::Exists { path });
            }
            Err(error) => return Err(refused(error)),
        };
        let log = Self::open(Opened {
            path,
            file: Arc::new(file),
            writable: true,
            end: 0,
            torn: false,
        });
        log.unsynced_name.store(true, Ordering::Relaxed);
        Ok(log)
    }

    pub(super) fn open(opened: Opened) -> Self {
        Self {
            path: opened.path.into(),
            unsynced_name: Arc::default(),
            state: Arc::new(Mutex::new(State {
                file: opened.file,
                writable: opened.writable,
                end: opened.end,
                torn: opened.torn,
                stray: false,
                backlog: Vec::new(),
                failure: None,
            })),
        }
    }

    /// Appends records together, behind what waits.
    ///
    /// # Errors
    /// Nothing of `records` is in the log then, and nothing is kept.
    ///
    /// # Cancel safety
    /// When dropped, the records may be written or not; later appends stand behind them.
    pub async fn append(
        &self,
        records: &[Record],
        durability: Durability,
    ) -> Result<Vec<Placed>, StoreError> {
        let batch = self.encode(records)?;
        self.blocking(move |log, state| {
            let placed = batch.placed_at(state.next_offset());
            let write = |state: &mut State| {
                state.write(&log.path, &batch.bytes)?;
                if durability == Durability::Synced
                    && let Err(error) = log.sync_file(&state.file)
                {
                    state.take_back(batch.bytes.len() as u64);
                    return Err(error);
                }
                Ok(())
            };
            state
                .note_failure(write)
                .map_err(|error| StoreError::write(&log.path, error))?;
            Ok(placed)
        })
        .await
    }

    /// Appends records that were told to clients already: when the disk refuses they wait in memory, at most
    /// [`BACKLOG_BYTES`].
    ///
    /// # Errors
    /// [`StoreError::BacklogFull`]: these records were not kept.
    ///
    /// # Cancel safety
    /// When dropped, the records may be written, kept or neither.
    pub async fn append_or_keep(&self, records: &[Record]) -> Result<Appended, StoreError> {
        let batch = self.encode(records)?;
        self.blocking(move |log, state| {
            let placed = batch.placed_at(state.next_offset());
            let result = match state.recent_failure() {
                Some(error) => Err(error),
                None => state.note_failure(|state| state.write(&log.path, &batch.bytes)),
            };
            let Err(error) = result else {
                return Ok(Appended::Written(placed));
            };
            let bytes = state.backlog.len();
            if bytes + batch.bytes.len() > BACKLOG_BYTES {
                return Err(StoreError::BacklogFull {
                    path: log.path.to_path_buf(),
                    bytes,
                });
            }
            state.backlog.extend_from_slice(&batch.bytes);
            Ok(Appended::Kept {
                placed,
                cause: StoreError::write(&log.path, error),
            })
        })
        .await
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// It still waits then.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.blocking(|log, state| {
            state
                .note_failure(|state| state.write(&log.path, &[]))
                .map_err(|error| StoreError::write(&log.path, error))
        })
        .await
    }

    /// Brings everything appended so far to the disk. Appends may go on meanwhile.
    ///
    /// # Errors
    /// Some of it may not be there then.
    pub async fn sync(&self) -> Result<(), StoreError> {
        self.flush().await?;
        let file = self.state.lock().await.file.clone();
        let log = self.clone();
        spawn_blocking(move || {
            log.sync_file(&file)
                .map_err(|error| StoreError::write(&log.path, error))
        })
        .await
        .map_err(|_| StoreError::stopped(&self.path))?
    }

    /// Bytes that wait to be written. While there are any, the head must not be saved: it would cover bytes that the
    /// log does not have.
    pub async fn backlog_bytes(&self) -> usize {
        self.state.lock().await.backlog.len()
    }

    /// The log's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) async fn bytes(&self) -> LogBytes {
        let state = self.state.lock().await;
        let mut unwritten = Vec::new();
        if !state.backlog.is_empty() {
            if state.torn {
                unwritten.push(b'\n');
            }
            unwritten.extend_from_slice(&state.backlog);
        }
        LogBytes::new(state.file.clone(), state.end, unwritten.into())
    }

    fn encode(&self, records: &[Record]) -> Result<Batch, StoreError> {
        Batch::of(records).map_err(|source| StoreError::Encode {
            path: self.path.to_path_buf(),
            source,
        })
    }

    /// The lock is taken before the work is handed over, so work is done in the order of the calls.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self, &mut State) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let mut state = self.state.clone().lock_owned().await;
        let log = self.clone();
        spawn_blocking(move || work(&log, &mut state))
            .await
            .map_err(|_| StoreError::stopped(&self.path))?
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        file.sync_data()?;
        if self.unsynced_name.load(Ordering::Relaxed) {
            atomic_file::sync_directory(&self.path)?;
            self.unsynced_name.store(false, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl State {
    fn next_offset(&self) -> u64 {
        self.end + u64::from(self.torn) + self.backlog.len() as u64
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.backlog.is_empty() && bytes.is_empty() {
            return Ok(());
        }
        if !self.writable {
            self.file = Arc::new(options().open(path)?);
            self.writable = true;
        }
        if self.stray {
            self.file.set_len(self.end)?;
            self.stray = false;
        }
        if self.torn {
            self.put(b"\n")?;
            self.torn = false;
        }
        if !self.backlog.is_empty() {
            let backlog = std::mem::take(&mut self.backlog);
            if let Err(error) = self.put(&backlog) {
                self.backlog = backlog;
                return Err(error);
            }
        }
        self.put(bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let result = positioned::write_all_at(&self.file, bytes, self.end);
        self.end += bytes.len() as u64;
        if result.is_err() {
            self.take_back(bytes.len() as u64);
        }
        result
    }

    /// Removes the last `bytes`, which are ours and do not count.
    fn take_back(&mut self, bytes: u64) {
        self.end -= bytes;
        self.stray = self.file.set_len(self.end).is_err();
    }

    fn recent_failure(&self) -> Option<io::Error> {
        let failure = self.failure.as_ref()?;
        (failure.at.elapsed() < RETRY_INTERVAL).then(|| match failure.code {
            Some(code) => io::Error::from_raw_os_error(code),
            None => failure.kind.into(),
        })
    }

    fn note_failure(&mut self, work: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        let result = work(self);
        self.failure = result.as_ref().err().map(|error| Failure {
            at: Instant::now(),
            kind: error.kind(),
            code: error.raw_os_error(),
        });
        result
    }
}

/// Lines to be written together.
struct Batch {
    bytes: Vec<u8>,
    ends: Vec<u64>,
}

impl Batch {
    fn of(records: &[Record]) -> Result<Self, serde_json::Error> {
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(records.len());
        for record in records {
            line::encode(record, &mut bytes)?;
            ends.push(bytes.len() as u64);
        }
        Ok(Self { bytes, ends })
    }

    fn placed_at(&self, begin: u64) -> Vec<Placed> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(offset, end)| Placed {
                offset: begin + offset,
                end: begin + end,
            })
            .collect()
    }
}

/// Reading and writing, owner only.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}

#[cfg(test)]
mod tests;
