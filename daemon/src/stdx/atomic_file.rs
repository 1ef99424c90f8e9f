//! Replacing a file so that a reader, or a crash, sees the old one or the new one and nothing between.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Only its owner: 0600.
    Private,
    /// As the process's umask says.
    Default,
}

/// Replaces `path` with `content`: a temporary file in the same directory, synced, renamed over the old one,
/// the directory synced. Blocks; call it off the runtime.
///
/// # Errors
/// Those of the file system; the old file is whole then and the temporary one removed.
pub fn replace(path: &Path, content: &[u8], visibility: Visibility) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    let result =
        write_synced(&temporary, content, visibility).and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        // The error that matters is the first one; a leftover temporary file harms nobody.
        drop(fs::remove_file(&temporary));
    }
    result?;
    sync_directory(path)
}

fn write_synced(path: &Path, content: &[u8], visibility: Visibility) -> io::Result<()> {
    let mut file = create(path, visibility)?;
    file.write_all(content)?;
    file.sync_data()
}

fn create(path: &Path, visibility: Visibility) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if visibility == Visibility::Private {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    #[cfg(not(unix))]
    let _: Visibility = visibility;
    options.open(path)
}

/// A name beside `path` that no other writer uses.
pub fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(
        ".{}-{:08x}.tmp",
        std::process::id(),
        fastrand::u32(..)
    ));
    Ok(path.with_file_name(temporary))
}

/// Makes a rename durable.
#[cfg(unix)]
pub fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

/// Makes a rename durable: Windows does so by itself.
#[cfg(not(unix))]
pub fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Makes a directory, and those above it, readable by the owner only (0700) where they did not exist.
///
/// # Errors
/// Those of the file system.
pub fn private_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_is_private_and_leaves_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.json");
        replace(&path, b"1", Visibility::Private).unwrap();
        replace(&path, b"2", Visibility::Private).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"2");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
    }
}
