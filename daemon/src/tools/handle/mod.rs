//! Opening what was judged, and nothing else.
//!
//! A resolved path holds no links. It is opened through a handle on its directory, and following a link on the way is an
//! error: whoever swaps a directory for a link between the decision and the call makes the call fail, not go astray.
//! All of it blocks.

#[cfg(unix)]
mod by_handle;
#[cfg(not(unix))]
mod by_path;

use std::{
    ffi::OsString,
    fs::{File, Metadata},
    io,
    path::{Path, PathBuf},
};

#[cfg(unix)]
pub use by_handle::Directory;
#[cfg(not(unix))]
pub use by_path::Directory;
use thiserror::Error;

use super::{Workspace, credentials};
use crate::stdx::visible::escape_invisible;

/// Why a file cannot be worked on.
#[derive(Debug, Error)]
pub enum FileFault {
    /// Something on the way was swapped.
    #[error(
        "{0} leads elsewhere than when this call was checked, so nothing was touched; look at it again and repeat the call"
    )]
    LeadsElsewhere(String),
    /// Somebody else wrote it meanwhile.
    #[error(
        "{0} changed while this call worked on it, so nothing was written; read it again and repeat the call"
    )]
    Changed(String),
    /// It is a directory.
    #[error("{0} is a directory")]
    IsDirectory(String),
    /// It is a device, a pipe or a socket.
    #[error("{0} is not a regular file")]
    NotRegular(String),
    /// It is closed to every tool.
    #[error("{path} is closed to every tool: {rule}")]
    Closed {
        /// The file.
        path: String,
        /// The rule that closes it.
        rule: String,
    },
    /// There is no such file.
    #[error("{0} does not exist")]
    Missing(String),
    /// The system says no.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
}

impl FileFault {
    /// What an error of the file system means for a path.
    pub fn from_io(path: &Path, source: io::Error) -> Self {
        let path = escape_invisible(&path.display().to_string());
        match source.kind() {
            io::ErrorKind::NotFound => Self::Missing(path),
            io::ErrorKind::IsADirectory => Self::IsDirectory(path),
            _ => Self::Io { path, source },
        }
    }

    fn leads_elsewhere(path: &Path) -> Self {
        Self::LeadsElsewhere(escape_invisible(&path.display().to_string()))
    }

    fn changed(path: &Path) -> Self {
        Self::Changed(escape_invisible(&path.display().to_string()))
    }
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// What it is.
    pub kind: EntryKind,
}

/// What an entry of a directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file of so many bytes.
    File(u64),
    /// A link and what it says.
    Link(PathBuf),
    /// A device, pipe or socket.
    Other,
}

/// The directory and the name of a file.
///
/// # Errors
/// When the path names no file.
pub fn split(path: &Path) -> Result<(&Path, &std::ffi::OsStr), FileFault> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(FileFault::IsDirectory(path.display().to_string())),
    }
}

/// Opens a regular file for reading, and looks once more whether it is closed to tools.
///
/// # Errors
/// Says why it cannot be read.
pub fn open_file(path: &Path, workspace: &Workspace) -> Result<(File, Metadata), FileFault> {
    let (parent, name) = split(path)?;
    let opened = Directory::open(parent)?.open_file(name)?;
    let closed = credentials::closed_by_name(path, &workspace.home)
        .or_else(|| credentials::closed_by_identity(&opened.1, &workspace.home));
    match closed {
        Some(rule) => Err(FileFault::Closed {
            path: escape_invisible(&path.display().to_string()),
            rule,
        }),
        None => Ok(opened),
    }
}

/// Refuses what is not a regular file.
fn regular(path: &Path, file: File) -> Result<(File, Metadata), FileFault> {
    let metadata = file
        .metadata()
        .map_err(|error| FileFault::from_io(path, error))?;
    let shown = || escape_invisible(&path.display().to_string());
    if metadata.is_dir() {
        return Err(FileFault::IsDirectory(shown()));
    }
    if !metadata.is_file() {
        return Err(FileFault::NotRegular(shown()));
    }
    Ok((file, metadata))
}

#[cfg(test)]
mod tests;
