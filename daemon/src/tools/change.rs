//! A change of one file: what `edit` and `write` have in common.
//!
//! The change is worked out twice by the same code: when the call is planned, for the diff that is shown, and when it
//! runs. Unless both give the same change of the same file, nothing is written.

use std::{
    fs::Metadata,
    io::Read,
    path::{Path, PathBuf},
};

use crystal_protocol::approval::Preview;

use super::{
    Effects, FileVersion, ResolvedPath, ToolContext, ToolOutput, diff,
    fence::blocking,
    handle::{self, Directory, FileFault},
    text_file::{self, Encoding},
};
use crate::stdx::visible::escape_invisible;

/// How people read the path of a file that is changed.
pub fn shown(target: &ResolvedPath, cx: &ToolContext) -> String {
    escape_invisible(&target.display(&cx.workspace.root))
}

/// Runs a change off the async runtime: the sentence that says what was done, or why nothing was.
pub async fn output_of(
    work: impl FnOnce() -> Result<String, String> + Send + 'static,
) -> ToolOutput {
    match blocking(work).await {
        Ok(Ok(done)) => ToolOutput::success(done),
        Ok(Err(wrong)) => ToolOutput::failure(wrong),
        Err(broken) => broken,
    }
}

/// A file as it is.
#[derive(Debug)]
pub struct Current {
    /// What it holds.
    pub bytes: Vec<u8>,
    /// What it is.
    pub metadata: Metadata,
}

/// Reads the file at a resolved path; `None` when there is none. Blocks.
///
/// # Errors
/// Says in a sentence why it cannot be changed: it is too large, not regular, not writable, or has changed since this
/// session last saw it.
pub fn current(
    path: &Path,
    shown: &str,
    most_bytes: u64,
    cx: &ToolContext,
) -> Result<Option<Current>, String> {
    let (mut file, metadata) = match handle::open_file(path, &cx.workspace) {
        Ok(opened) => opened,
        Err(FileFault::Missing(_)) => return Ok(None),
        Err(fault) => return Err(format!("{fault}.")),
    };
    if cx
        .files
        .last_seen(path)
        .is_some_and(|seen| seen != FileVersion::from(&metadata))
    {
        return Err(format!(
            "{shown} has changed since it was last read or written here; read it again before changing it."
        ));
    }
    let io = |error| format!("{}.", FileFault::from_io(path, error));
    let fault = |fault: FileFault| format!("{fault}.");
    let (parent, name) = handle::split(path).map_err(fault)?;
    if !Directory::open(parent).map_err(fault)?.may_write(name) {
        return Err(format!(
            "{shown} may not be written: it is read-only for this user."
        ));
    }
    if metadata.len() > most_bytes {
        return Err(format!(
            "{shown} is too large to be changed here: {}, of at most {}.",
            text_file::in_bytes(metadata.len()),
            text_file::in_bytes(most_bytes)
        ));
    }
    let mut bytes = Vec::new();
    file.by_ref()
        .take(most_bytes + 1)
        .read_to_end(&mut bytes)
        .map_err(io)?;
    Ok(Some(Current { bytes, metadata }))
}

/// What a file would become.
#[derive(Debug)]
pub struct Change {
    path: PathBuf,
    old: Option<Current>,
    new: Vec<u8>,
    diff: String,
}

impl Change {
    /// A change of the file at a resolved path, and its diff.
    pub fn new(path: &Path, shown: &str, old: Option<Current>, new: Vec<u8>) -> Self {
        let diff = describe(shown, old.as_ref().map(|old| old.bytes.as_slice()), &new);
        Self {
            path: path.to_owned(),
            old,
            new,
            diff,
        }
    }

    /// The diff as the model gets it.
    pub fn diff(&self) -> &str {
        &self.diff
    }

    /// Whether there was a file.
    pub fn replaces(&self) -> bool {
        self.old.is_some()
    }

    /// The diff for whoever decides; which file it was made for is remembered.
    pub fn preview(&self, cx: &ToolContext) -> Preview {
        let diff = diff::for_people(&self.diff);
        cx.files
            .remember_planned(&self.path, &diff, self.old_version());
        Preview::Diff { diff }
    }

    /// Writes the change if it is the one that was shown. The caller holds `cx.files.writing()` since before it read the
    /// file. Blocks.
    ///
    /// # Errors
    /// Says in a sentence why nothing was written.
    pub fn apply(&self, effects: &Effects, shown: &str, cx: &ToolContext) -> Result<(), String> {
        if !self.was_shown(effects, cx) {
            return Err(format!(
                "{shown} has changed since this call was planned, so nothing was written; read it and repeat the call."
            ));
        }
        let fault = |fault: FileFault| format!("{fault}.");
        let (parent, name) = handle::split(&self.path).map_err(fault)?;
        let directory = match self.old {
            Some(_) => Directory::open(parent),
            None => Directory::open_or_create(parent),
        }
        .map_err(fault)?;
        let written = directory
            .replace(name, &self.new, self.old.as_ref().map(|old| &old.metadata))
            .map_err(fault)?;
        cx.files.remember(&self.path, FileVersion::from(&written));
        Ok(())
    }

    fn was_shown(&self, effects: &Effects, cx: &ToolContext) -> bool {
        let Some(Preview::Diff { diff: shown }) = &effects.preview else {
            return false;
        };
        let diff = diff::for_people(&self.diff);
        let version = self.old_version();
        match cx.files.planned(&self.path, shown) {
            // What this session wrote itself meanwhile does not count, as long as these lines are what they were.
            Some(planned) if planned != version => {
                version.is_some()
                    && version == cx.files.last_seen(&self.path)
                    && diff::same_change(shown, &diff)
            }
            _ => *shown == diff,
        }
    }

    fn old_version(&self) -> Option<FileVersion> {
        self.old
            .as_ref()
            .map(|old| FileVersion::from(&old.metadata))
    }
}

/// The diff, and before it in a sentence what a diff of lines does not show.
fn describe(shown: &str, old: Option<&[u8]>, new: &[u8]) -> String {
    let after = text_file::decode(new);
    let Some(old) = old else {
        return diff::unified(shown, None, &after);
    };
    if let Some(kind) = text_file::binary_kind(old) {
        let size = text_file::in_bytes(old.len() as u64);
        let diff = diff::unified(shown, None, &after);
        return format!("{shown} is {kind} of {size}; it becomes text:\n{diff}");
    }
    let diff = diff::unified(shown, Some(&text_file::decode(old)), &after);
    let (from, to) = (Encoding::of(old), Encoding::of(new));
    if from == to {
        return diff;
    }
    format!(
        "{shown} changes from {} to {}:\n{diff}",
        from.name(),
        to.name()
    )
}
