//! Walking a tree as a developer sees it: without what ignore files name, without build outputs and credentials.

use std::{
    collections::HashSet,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
};

use globset::{Glob, GlobBuilder, GlobMatcher};
use ignore::{WalkBuilder, WalkState};
use tokio_util::sync::CancellationToken;

use super::{Workspace, credentials};

/// Directories that are skipped although no ignore file names them.
const SKIPPED: &[&str] = &[
    ".git",
    ".hg",
    ".jj",
    ".svn",
    "node_modules",
    "target",
    "__pycache__",
    ".venv",
];

/// Files that one walk takes in; a bound on memory.
const MOST_FILES: usize = 500_000;

/// Files under way between the walkers and the collector.
const UNDER_WAY: usize = 1024;

/// What a walk found.
#[derive(Debug, Default)]
pub struct Found {
    /// The files and links below the start, in no order.
    pub files: Vec<PathBuf>,
    /// There are more files than one walk takes in.
    pub cut: bool,
    /// Directories and files that could not be looked at.
    pub unreadable: usize,
    /// Files that are closed to tools and were left out.
    pub closed: usize,
}

/// A pattern for paths below the start of a walk.
#[derive(Clone, Debug)]
pub struct PathPattern(GlobMatcher);

impl PathPattern {
    /// Compiles a pattern. One without `/` is matched against the name of a file in any directory.
    ///
    /// # Errors
    /// Says in a sentence what is wrong with it.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        if pattern.is_empty() {
            return Err("The pattern is empty.".to_owned());
        }
        if Path::new(pattern).has_root() || pattern.split('/').any(|part| part == "..") {
            return Err(format!(
                "The pattern `{pattern}` must be relative, without `..`; name the directory to look in with `path`."
            ));
        }
        let anywhere = if pattern.contains('/') {
            pattern.to_owned()
        } else {
            format!("**/{pattern}")
        };
        let glob: Glob = GlobBuilder::new(&anywhere)
            .literal_separator(true)
            .build()
            .map_err(|error| format!("The pattern `{pattern}` is wrong: {}.", error.kind()))?;
        Ok(Self(glob.compile_matcher()))
    }

    /// Whether a path, relative to the start of the walk, matches.
    pub fn matches(&self, relative: &Path) -> bool {
        self.0.is_match(relative)
    }
}

fn builder(start: &Path) -> WalkBuilder {
    let mut builder = WalkBuilder::new(start);
    builder
        .hidden(false)
        .require_git(false)
        .follow_links(false)
        .threads(std::thread::available_parallelism().map_or(1, usize::from));
    builder
}

fn is_skipped(name: &std::ffi::OsStr) -> bool {
    SKIPPED.iter().any(|skipped| name == *skipped)
}

/// The files below `start` that `keep` takes. `keep` gets the path and the path relative to `start`. Blocks; ends soon
/// after `cancel` fires.
pub fn files(
    start: &Path,
    workspace: &Arc<Workspace>,
    cancel: &CancellationToken,
    keep: impl Fn(&Path) -> bool + Sync,
) -> Found {
    let (sender, receiver) = mpsc::sync_channel::<Step>(UNDER_WAY);
    let mut builder = builder(start);
    builder.filter_entry(|entry| {
        let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
        entry.depth() == 0 || !(is_directory && is_skipped(entry.file_name()))
    });
    let walker = builder.build_parallel();
    let keep = &keep;
    let mut found = Found::default();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            walker.run(|| {
                let sender = sender.clone();
                Box::new(move |entry| {
                    if cancel.is_cancelled() {
                        return WalkState::Quit;
                    }
                    let step = match entry {
                        Ok(entry) => {
                            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
                            let closed = credentials::closed_by_name(entry.path(), &workspace.home)
                                .is_some();
                            match (closed, is_directory) {
                                (true, true) => return WalkState::Skip,
                                (true, false) => Step::Closed,
                                (false, true) => return WalkState::Continue,
                                (false, false) => {
                                    let relative =
                                        entry.path().strip_prefix(start).unwrap_or(entry.path());
                                    if !keep(relative) {
                                        return WalkState::Continue;
                                    }
                                    Step::File(entry.into_path())
                                }
                            }
                        }
                        Err(_) => Step::Unreadable,
                    };
                    // The collector hangs up when it has enough.
                    match sender.send(step) {
                        Ok(()) => WalkState::Continue,
                        Err(_) => WalkState::Quit,
                    }
                })
            });
        });
        for step in &receiver {
            match step {
                Step::File(_) if found.files.len() == MOST_FILES => {
                    found.cut = true;
                    break;
                }
                Step::File(path) => found.files.push(path),
                Step::Closed => found.closed += 1,
                Step::Unreadable => found.unreadable += 1,
            }
        }
        drop(receiver);
    });
    found
}

enum Step {
    File(PathBuf),
    Closed,
    Unreadable,
}

/// The names in a directory that no ignore file names and no rule skips. Blocks.
pub fn names_not_ignored(directory: &Path) -> HashSet<OsString> {
    builder(directory)
        .max_depth(Some(1))
        .build()
        .flatten()
        .filter(|entry| entry.depth() == 1)
        .filter(|entry| {
            !(entry.file_type().is_some_and(|kind| kind.is_dir()) && is_skipped(entry.file_name()))
        })
        .map(|entry| entry.file_name().to_owned())
        .collect()
}

/// A path for the model: relative to the workspace where it lies inside.
pub fn shown(path: &Path, workspace: &Workspace) -> String {
    let path = path.strip_prefix(&workspace.root).unwrap_or(path);
    crate::stdx::visible::escape_invisible(&path.to_string_lossy())
}

/// Sentences about what a walk left out, each on a line of its own.
pub fn remarks(found: &Found) -> String {
    let mut text = String::new();
    if found.cut {
        text.push_str(&format!(
            "(Only the first {MOST_FILES} files were looked at; narrow `path`.)\n"
        ));
    }
    if found.unreadable > 0 {
        text.push_str(&format!(
            "({} directories or files could not be looked at.)\n",
            found.unreadable
        ));
    }
    if found.closed > 0 {
        text.push_str(&format!(
            "({} credential files are closed to tools and were left out.)\n",
            found.closed
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_without_a_slash_matches_names_anywhere() {
        let pattern = PathPattern::new("*.rs").unwrap();
        assert!(pattern.matches(Path::new("a/b.rs")));
        let pattern = PathPattern::new("src/*.{rs,md}").unwrap();
        assert!(pattern.matches(Path::new("src/a.md")));
        assert!(!pattern.matches(Path::new("src/deep/a.md")));
    }

    #[test]
    fn a_bad_pattern_is_explained() {
        assert!(PathPattern::new("a[").unwrap_err().contains("a["));
        assert!(PathPattern::new("/etc/*").unwrap_err().contains("relative"));
        assert!(PathPattern::new("../*").unwrap_err().contains("relative"));
    }
}
