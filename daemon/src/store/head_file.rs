//! The head's file: replaced whole, read with suspicion.

use std::{fs, io, path::Path};

use crystal_protocol::ids::SessionId;
use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::{
    error::{LoadError, StoreError},
    head::{FORMAT, Format, Head},
};
use crate::{
    home::HomePaths,
    stdx::atomic_file::{self, Visibility},
};

/// Largest head that is read, in bytes.
const HEAD_BYTES: u64 = 512 * 1024 * 1024;

/// From which numbers a session that is loaded from this head goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// From the last reservation: for a session that stays loaded and may use numbers that no later head tells of.
    Reserved,
    /// From the first unused ones: for a session that is closed or unloaded and uses no more.
    Exact {
        /// The first unused event number.
        next_seq: u64,
        /// The first unused number for ids.
        next_id: u64,
    },
}

/// Replaces a session's head. The log must be synced up to `head.log_bytes` and nothing may wait to be written to it,
/// else a power cut leaves a head that its log does not bear out, and loading rebuilds it.
///
/// # Errors
/// [`StoreError::Write`]; the old head is whole then.
pub async fn save_head(
    paths: &HomePaths,
    mut head: Head,
    numbering: Numbering,
) -> Result<(), StoreError> {
    if let Numbering::Exact { next_seq, next_id } = numbering {
        head.next_seq = next_seq;
        head.next_id = next_id;
    }
    let path = paths.session_head(&head.id);
    let (paths, stopped) = (paths.clone(), StoreError::stopped(&path));
    spawn_blocking(move || {
        let content = serde_json::to_vec(&head).map_err(|source| StoreError::Encode {
            path: path.clone(),
            source,
        })?;
        let directory = paths.sessions();
        if !directory.is_dir() {
            paths
                .make(&directory)
                .map_err(|error| StoreError::write(&path, error))?;
        }
        atomic_file::replace(&path, &content, Visibility::Private)
            .map_err(|error| StoreError::write(&path, error))
    })
    .await
    .map_err(|_| stopped)?
}

/// What stands where a head should be.
pub(super) enum Stored {
    /// Nothing.
    Missing,
    /// No head; the text says why.
    Unreadable(String),
    /// A head.
    Head(Box<Head>),
}

/// Reads a head. One of a later major version is an error, so that it is never rebuilt.
pub(super) fn read(path: &Path, id: &SessionId) -> Result<Stored, LoadError> {
    let content = match fs::metadata(path) {
        Ok(metadata) if metadata.len() > HEAD_BYTES => {
            return Ok(Stored::Unreadable("it is too large".to_owned()));
        }
        Ok(_) => fs::read(path),
        Err(error) => Err(error),
    };
    let content = match content {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Stored::Missing),
        Err(error) => return Ok(Stored::Unreadable(error.to_string())),
    };
    match serde_json::from_slice::<FormatOnly>(&content) {
        Ok(FormatOnly { format }) if format.major > FORMAT.major => Err(LoadError::Newer {
            id: id.clone(),
            found: format.major,
            known: FORMAT.major,
        }),
        _ => Ok(match serde_json::from_slice(&content) {
            Ok(head) => Stored::Head(Box::new(head)),
            Err(error) => Stored::Unreadable(error.to_string()),
        }),
    }
}

#[derive(Deserialize)]
struct FormatOnly {
    format: Format,
}
