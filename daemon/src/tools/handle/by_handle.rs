//! Directories by descriptor: what Unix offers.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, Metadata},
    io::{self, Write},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{Access, AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};

use super::{Entry, EntryKind, FileFault, regular};
use crate::stdx::atomic_file::temporary_beside;

/// A directory that was reached without following a link.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

#[cfg(target_os = "linux")]
const HANDLE: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const HANDLE: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Directory {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// [`FileFault::LeadsElsewhere`] when a link lies on the way.
    pub fn open(path: &Path) -> Result<Self, FileFault> {
        open_without_links(path)
            .map(|fd| Self {
                fd,
                path: path.to_owned(),
            })
            .map_err(|error| fault(path, error))
    }

    /// Opens a directory and makes it, and those above it, where they do not exist.
    ///
    /// # Errors
    /// [`FileFault::LeadsElsewhere`] when a link lies on the way.
    pub fn open_or_create(path: &Path) -> Result<Self, FileFault> {
        match Self::open(path) {
            Err(FileFault::Missing(_)) => {}
            opened => return opened,
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Self::open(path);
        };
        let parent = Self::open_or_create(parent)?;
        match rustix::fs::mkdirat(&parent.fd, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(fault(path, error)),
        }
        let fd = rustix::fs::openat(&parent.fd, name, HANDLE, Mode::empty())
            .map_err(|error| fault_of_last(path, error))?;
        Ok(Self {
            fd,
            path: path.to_owned(),
        })
    }

    /// Opens a regular file in it for reading.
    ///
    /// # Errors
    /// [`FileFault::LeadsElsewhere`] for a link.
    pub fn open_file(&self, name: &OsStr) -> Result<(File, Metadata), FileFault> {
        let path = self.path.join(name);
        // Not blocking: opening a pipe would wait for its other end.
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty())
            .map_err(|error| fault(&path, error))?;
        regular(&path, File::from(fd))
    }

    /// Whether the user may write a file in it.
    pub fn may_write(&self, name: &OsStr) -> bool {
        !matches!(
            rustix::fs::accessat(&self.fd, name, Access::WRITE_OK, AtFlags::empty()),
            Err(Errno::ACCESS | Errno::ROFS | Errno::PERM)
        )
    }

    /// Its entries, at most `most`, and whether there are more.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn entries(&self, most: usize) -> Result<(Vec<Entry>, bool), FileFault> {
        let failed = |error| fault(&self.path, error);
        let mut entries = Vec::new();
        let readable = self.open_to_read().map_err(failed)?;
        for entry in Dir::new(readable).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if entries.len() == most {
                return Ok((entries, true));
            }
            entries.push(Entry {
                kind: self.kind_of(name),
                name: name.to_owned(),
            });
        }
        Ok((entries, false))
    }

    fn kind_of(&self, name: &OsStr) -> EntryKind {
        let Ok(stat) = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return EntryKind::Other;
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => EntryKind::Directory,
            FileType::RegularFile => {
                EntryKind::File(u64::try_from(stat.st_size).unwrap_or_default())
            }
            FileType::Symlink => match rustix::fs::readlinkat(&self.fd, name, Vec::new()) {
                Ok(target) => {
                    EntryKind::Link(OsString::from(OsStr::from_bytes(target.as_bytes())).into())
                }
                Err(_) => EntryKind::Other,
            },
            _ => EntryKind::Other,
        }
    }

    /// Replaces a file in it, or makes it: a temporary file, synced, renamed over the old one. A reader sees the old
    /// file or the new one. `old` is the file that is replaced as it was when it was read; its mode and, where the
    /// system lets us, its owner are kept.
    ///
    /// # Errors
    /// [`FileFault::Changed`] when another file stands there by then. The old file is whole then.
    pub fn replace(
        &self,
        name: &OsStr,
        content: &[u8],
        old: Option<&Metadata>,
    ) -> Result<Metadata, FileFault> {
        let path = self.path.join(name);
        let failed = |error: io::Error| FileFault::from_io(&path, error);
        let temporary = temporary_beside(Path::new(name)).map_err(failed)?;
        let result = self
            .write_temporary(&temporary, content, old)
            .map_err(failed)
            .and_then(|metadata| {
                self.expect(name, old)?;
                rustix::fs::renameat(&self.fd, &temporary, &self.fd, name)
                    .map_err(|error| failed(error.into()))?;
                Ok(metadata)
            });
        if result.is_err() {
            // The error that matters is the first one; a leftover temporary file harms nobody.
            rustix::fs::unlinkat(&self.fd, &temporary, AtFlags::empty()).ok();
        }
        let metadata = result?;
        self.sync().map_err(failed)?;
        Ok(metadata)
    }

    fn write_temporary(
        &self,
        name: &Path,
        content: &[u8],
        old: Option<&Metadata>,
    ) -> io::Result<Metadata> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // A file that is not for all eyes must not be so for a moment.
        let mode = Mode::from_raw_mode(if old.is_some() { 0o600 } else { 0o666 });
        let mut file = File::from(rustix::fs::openat(&self.fd, name, flags, mode)?);
        file.write_all(content)?;
        if let Some(old) = old {
            let new = file.metadata()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                // Only a privileged process may give a file away; without, the content is what counts.
                drop(std::os::unix::fs::fchown(
                    &file,
                    Some(old.uid()),
                    Some(old.gid()),
                ));
            }
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()?;
        file.metadata()
    }

    /// Fails when what stands there is not the file that was read.
    fn expect(&self, name: &OsStr, old: Option<&Metadata>) -> Result<(), FileFault> {
        let path = self.path.join(name);
        let found = match rustix::fs::openat(
            &self.fd,
            name,
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Ok(fd) => Some(
                File::from(fd)
                    .metadata()
                    .map_err(|error| FileFault::from_io(&path, error))?,
            ),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(fault(&path, error)),
        };
        let same = match (&found, old) {
            (None, None) => true,
            (Some(found), Some(old)) => {
                (
                    found.dev(),
                    found.ino(),
                    found.len(),
                    found.mtime(),
                    found.mtime_nsec(),
                ) == (
                    old.dev(),
                    old.ino(),
                    old.len(),
                    old.mtime(),
                    old.mtime_nsec(),
                )
            }
            _ => false,
        };
        if same {
            Ok(())
        } else {
            Err(FileFault::changed(&path))
        }
    }

    /// The directory itself, not just a place to name files in.
    fn open_to_read(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.fd, ".", flags, Mode::empty())
    }

    /// Makes a rename durable.
    fn sync(&self) -> io::Result<()> {
        match self.open_to_read() {
            Ok(fd) => File::from(fd).sync_all(),
            // A directory that may be written but not read cannot be synced by its user.
            Err(Errno::ACCESS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(target_os = "linux")]
fn open_without_links(path: &Path) -> Result<OwnedFd, Errno> {
    use rustix::fs::{CWD, ResolveFlags, openat2};
    let refuse = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // Asked for a directory and told not to follow, the kernel would call a link "not a directory".
    let flags = HANDLE.difference(OFlags::NOFOLLOW);
    match openat2(CWD, path, flags, Mode::empty(), refuse) {
        // Old kernels do not know the call, and some sandboxes answer for it with a refusal.
        Err(Errno::NOSYS | Errno::PERM) => open_step_by_step(path),
        opened => opened,
    }
}

#[cfg(not(target_os = "linux"))]
fn open_without_links(path: &Path) -> Result<OwnedFd, Errno> {
    open_step_by_step(path)
}

/// One handle after the other from the root, none through a link.
fn open_step_by_step(path: &Path) -> Result<OwnedFd, Errno> {
    let mut reached = rustix::fs::open("/", HANDLE, Mode::empty())?;
    for part in path.components() {
        match part {
            Component::Normal(name) => {
                reached =
                    rustix::fs::openat(&reached, name, HANDLE, Mode::empty()).map_err(|error| {
                        // Systems differ in what they say of a link where a directory was asked for.
                        if error == Errno::NOTDIR && is_link(&reached, name) {
                            Errno::LOOP
                        } else {
                            error
                        }
                    })?;
            }
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::INVAL),
        }
    }
    Ok(reached)
}

fn is_link(directory: &OwnedFd, name: &OsStr) -> bool {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

fn fault(path: &Path, error: Errno) -> FileFault {
    match error {
        Errno::LOOP => FileFault::leads_elsewhere(path),
        // What opening a socket or a device without a driver gives.
        Errno::NXIO | Errno::NODEV => FileFault::NotRegular(path.display().to_string()),
        error => FileFault::from_io(path, error.into()),
    }
}

/// A directory that was just made, or found, is a link or a file by then.
fn fault_of_last(path: &Path, error: Errno) -> FileFault {
    match error {
        Errno::NOTDIR => FileFault::leads_elsewhere(path),
        error => fault(path, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_without_openat2_refuses_links_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let top = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir(top.join("real")).unwrap();
        std::os::unix::fs::symlink("real", top.join("link")).unwrap();
        assert!(open_step_by_step(&top.join("real")).is_ok());
        assert_eq!(
            open_step_by_step(&top.join("link")).unwrap_err(),
            Errno::LOOP
        );
        assert_eq!(
            open_step_by_step(&top.join("none")).unwrap_err(),
            Errno::NOENT
        );
    }
}
