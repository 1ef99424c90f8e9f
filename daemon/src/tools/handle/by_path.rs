//! Directories by path, for systems without directory handles: each step looks anew where the path leads.

use std::{
    ffi::OsStr,
    fs::{self, File, Metadata},
    path::{Path, PathBuf},
};

use super::{Entry, EntryKind, FileFault, regular};
use crate::{
    stdx::atomic_file::{self, Visibility},
    tools::FileVersion,
};

/// A directory whose path holds no link.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// [`FileFault::LeadsElsewhere`] when a link lies on the way.
    pub fn open(path: &Path) -> Result<Self, FileFault> {
        let real = fs::canonicalize(path).map_err(|error| FileFault::from_io(path, error))?;
        let given = path.to_string_lossy();
        let real = real.to_string_lossy();
        let plain = |text: &str| text.trim_start_matches(r"\\?\").to_lowercase();
        if plain(&real) != plain(&given) {
            return Err(FileFault::leads_elsewhere(path));
        }
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Opens a directory and makes it, and those above it, where they do not exist.
    ///
    /// # Errors
    /// [`FileFault::LeadsElsewhere`] when a link lies on the way.
    pub fn open_or_create(path: &Path) -> Result<Self, FileFault> {
        fs::create_dir_all(path).map_err(|error| FileFault::from_io(path, error))?;
        Self::open(path)
    }

    /// Opens a regular file in it for reading.
    ///
    /// # Errors
    /// [`FileFault::LeadsElsewhere`] for a link.
    pub fn open_file(&self, name: &OsStr) -> Result<(File, Metadata), FileFault> {
        let path = self.path.join(name);
        let found =
            fs::symlink_metadata(&path).map_err(|error| FileFault::from_io(&path, error))?;
        if found.is_symlink() {
            return Err(FileFault::leads_elsewhere(&path));
        }
        if found.is_dir() {
            return Err(FileFault::IsDirectory(path.display().to_string()));
        }
        let file = File::open(&path).map_err(|error| FileFault::from_io(&path, error))?;
        regular(&path, file)
    }

    /// Whether the user may write a file in it.
    pub fn may_write(&self, name: &OsStr) -> bool {
        fs::metadata(self.path.join(name))
            .map_or(true, |metadata| !metadata.permissions().readonly())
    }

    /// Its entries, at most `most`, and whether there are more.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn entries(&self, most: usize) -> Result<(Vec<Entry>, bool), FileFault> {
        let failed = |error| FileFault::from_io(&self.path, error);
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entries.len() == most {
                return Ok((entries, true));
            }
            let kind = match fs::symlink_metadata(entry.path()) {
                Ok(found) if found.is_symlink() => {
                    fs::read_link(entry.path()).map_or(EntryKind::Other, EntryKind::Link)
                }
                Ok(found) if found.is_dir() => EntryKind::Directory,
                Ok(found) if found.is_file() => EntryKind::File(found.len()),
                _ => EntryKind::Other,
            };
            entries.push(Entry {
                name: entry.file_name(),
                kind,
            });
        }
        Ok((entries, false))
    }

    /// Replaces a file in it, or makes it. `old` is the file that is replaced as it was when it was read.
    ///
    /// # Errors
    /// [`FileFault::Changed`] when another file stands there by then.
    pub fn replace(
        &self,
        name: &OsStr,
        content: &[u8],
        old: Option<&Metadata>,
    ) -> Result<Metadata, FileFault> {
        let path = self.path.join(name);
        let found = fs::symlink_metadata(&path).ok();
        if found.as_ref().map(FileVersion::from) != old.map(FileVersion::from) {
            return Err(FileFault::changed(&path));
        }
        atomic_file::replace(&path, content, Visibility::Default)
            .and_then(|()| fs::metadata(&path))
            .map_err(|error| FileFault::from_io(&path, error))
    }
}
