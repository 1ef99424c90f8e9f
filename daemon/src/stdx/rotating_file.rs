//! A log file that begins anew each day, and when it is full, and of which only the last few are kept. Owner only.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Which files to write, and how many to keep.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// Where they are.
    pub directory: PathBuf,
    /// What their names begin with.
    pub prefix: String,
    /// Largest file, in bytes.
    pub max_bytes: u64,
    /// Files that are kept.
    pub keep: usize,
}

/// The file that is being written. Blocks; for a thread of its own.
#[derive(Debug)]
pub struct RotatingFile {
    rotation: Rotation,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    day: String,
    bytes: u64,
    file: File,
}

impl RotatingFile {
    /// Opens today's file.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(rotation: Rotation) -> io::Result<Self> {
        let mut file = Self {
            rotation,
            current: None,
        };
        file.begin(today())?;
        Ok(file)
    }

    /// Goes on with the last file of the day, or begins the next when that is full.
    fn begin(&mut self, day: String) -> io::Result<()> {
        let Rotation {
            directory,
            prefix,
            max_bytes,
            ..
        } = &self.rotation;
        let of_day = format!("{prefix}.{day}.");
        let parts = self.files()?.into_iter().filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            name.strip_prefix(&of_day)?
                .strip_suffix(".log")?
                .parse::<u32>()
                .ok()
        });
        let mut part = parts.max().unwrap_or_default();
        loop {
            let file = open_private(&directory.join(format!("{of_day}{part:06}.log")))?;
            let bytes = file.metadata()?.len();
            if bytes < *max_bytes || part == u32::MAX {
                self.current = Some(Current { day, bytes, file });
                return self.prune();
            }
            part += 1;
        }
    }

    /// Our files, oldest first: names sort by day and part.
    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = fs::read_dir(&self.rotation.directory)?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| self.is_ours(path))
            .collect();
        files.sort();
        Ok(files)
    }

    fn prune(&self) -> io::Result<()> {
        let files = self.files()?;
        let surplus = files.len().saturating_sub(self.rotation.keep);
        files.iter().take(surplus).try_for_each(fs::remove_file)
    }

    fn is_ours(&self, path: &Path) -> bool {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        name.starts_with(&format!("{}.", self.rotation.prefix)) && name.ends_with(".log")
    }
}

impl Write for RotatingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let day = today();
        let fits =
            |current: &Current| current.day == day && current.bytes < self.rotation.max_bytes;
        if !self.current.as_ref().is_some_and(fits) {
            self.begin(day)?;
        }
        let Some(current) = &mut self.current else {
            return Ok(0);
        };
        let written = current.file.write(bytes)?;
        current.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.current
            .as_mut()
            .map_or(Ok(()), |current| current.file.flush())
    }
}

/// The day in UTC, as log lines have it.
fn today() -> String {
    jiff::Timestamp::now()
        .to_string()
        .chars()
        .take(10)
        .collect()
}

fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_followed_by_another_and_old_ones_go() {
        let dir = tempfile::tempdir().unwrap();
        let rotation = Rotation {
            directory: dir.path().to_owned(),
            prefix: "x".to_owned(),
            max_bytes: 10,
            keep: 2,
        };
        fs::write(dir.path().join("other.log"), "stays").unwrap();
        let mut file = RotatingFile::open(rotation.clone()).unwrap();
        for _ in 0..5 {
            file.write_all(b"0123456789").unwrap();
        }
        drop(file);
        let mut names: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(
            names[1].ends_with(".000003.log") && names[2].ends_with(".000004.log"),
            "{names:?}"
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(dir.path().join(&names[2]))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
