//! What can go wrong with session files, and what a person can do about it.

use std::{
    io,
    path::{Path, PathBuf},
};

use crystal_protocol::ids::SessionId;
use thiserror::Error;

/// Why something could not be written or read. What was on disk before is still there.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A write failed; no part of it counts.
    #[error("cannot write {}: {source}; {}", path.display(), remedy(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A read failed.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A session of that id has files already.
    #[error("{} exists already; choose another id", path.display())]
    Exists {
        /// The log.
        path: PathBuf,
    },
    /// So much waits to be written that no more can be kept. The records of this call were not.
    #[error("cannot write {}, and {bytes} bytes wait already; free some space or the rest of this session is lost when the daemon ends", path.display())]
    BacklogFull {
        /// The log.
        path: PathBuf,
        /// What waits.
        bytes: usize,
    },
    /// A value has no JSON form.
    #[error("cannot encode for {}: {source}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The daemon is going down; whether the work was done is not known.
    #[error("the daemon is going down; {} may lack its last bytes", path.display())]
    Stopped {
        /// The file.
        path: PathBuf,
    },
}

impl StoreError {
    pub(super) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn stopped(path: &Path) -> Self {
        Self::Stopped {
            path: path.to_owned(),
        }
    }
}

/// Why a session cannot be loaded. Its files are as they were.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Neither of its files exists.
    #[error("there is no session {id}")]
    NotFound {
        /// The id.
        id: SessionId,
    },
    /// Its files hold no whole session.
    #[error("session {id} is damaged: {reason}; its files in {} are left as they are", directory.display())]
    Damaged {
        /// The id.
        id: SessionId,
        /// Where its files are.
        directory: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A later version made it.
    #[error("session {id} was written in form {found}, this daemon knows {known}; update crystald")]
    Newer {
        /// The id.
        id: SessionId,
        /// The head's major number.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// The system would not let it be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The daemon is going down.
    #[error("the daemon is going down")]
    Stopped,
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => {
            "the disk is full: free some space; the session goes on in memory"
        }
        io::ErrorKind::QuotaExceeded => {
            "your disk quota is used up: free some space; the session goes on in memory"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "the file system is read-only: make it writable; the session goes on in memory"
        }
        io::ErrorKind::PermissionDenied => {
            "make the file and its directory writable for yourself; the session goes on in memory"
        }
        _ => "check the disk; the session goes on in memory",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_explained() {
        let error = StoreError::write(
            Path::new("/x/s.log"),
            io::Error::from(io::ErrorKind::StorageFull),
        );
        let text = error.to_string();
        assert!(text.contains("/x/s.log") && text.contains("free some space"));
    }
}
