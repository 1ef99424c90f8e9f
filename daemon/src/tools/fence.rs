//! The path fence: what a path in a call really names, and how far that reaches.
//!
//! A path is taken as written (`~` is a name like any other), relative to the workspace, and walked part by part as the
//! kernel would: links are followed, `..` leaves the directory that was really reached. Parts that do not exist are
//! normalised by text. The result decides; the same result is what is opened later, through
//! [`handle`](super::handle), where a path that leads elsewhere by then fails.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs, io,
    path::{Component, Path, PathBuf},
};

use crystal_protocol::approval::{Authority, Preview, Risk};
use thiserror::Error;

use super::{Effects, ResolvedPath, ToolContext, ToolOutput, Workspace, credentials};
use crate::{stdx::visible::escape_invisible, terms::Rule};

/// Links followed in one path; as many as the kernel does.
const MOST_LINKS: usize = 40;

/// What a call wants of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To look.
    Read,
    /// To change.
    Write,
}

/// What a lasting yes to a call on a path would cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The directory that the path names.
    Directory,
    /// The directory that holds the file that the path names.
    Parent,
}

/// Why a path names nothing.
#[derive(Debug, Error)]
pub enum PathError {
    /// Nothing was given.
    #[error("`path` is empty; name a file or directory")]
    Empty,
    /// No file system takes it.
    #[error("`path` holds a NUL character")]
    Nul,
    /// The links go round in circles.
    #[error("{0} leads through too many links")]
    TooManyLinks(String),
    /// A part of it cannot be looked at.
    #[error("{path} cannot be looked at: {source}")]
    Closed {
        /// The part.
        path: String,
        /// Why.
        source: io::Error,
    },
}

/// A path that has been judged.
#[derive(Clone, Debug)]
pub struct Target {
    /// What it names.
    pub resolved: ResolvedPath,
    /// How people read it: relative where it lies in the workspace, nothing invisible in it.
    pub shown: String,
    /// What the call wants of it.
    pub access: Access,
    /// How far it reaches.
    pub authority: Authority,
    /// The rule that closes it to every tool.
    pub forbidden: Option<String>,
}

impl Target {
    /// What a call on this path would do: `verb` is the tool's word for it (`read`, `edit`).
    pub fn effects(&self, verb: &str, scope: Scope, preview: Option<Preview>) -> Effects {
        let title = format!("{verb} {}", self.shown);
        let (risk, reason) = match (&self.forbidden, self.access) {
            (Some(rule), _) => (
                Risk::Forbidden,
                format!("{} is closed to every tool: {rule}.", self.shown),
            ),
            (None, Access::Read) => (Risk::Read, self.where_it_lies()),
            (None, Access::Write) => (Risk::Write, self.where_it_lies()),
        };
        let directory = match scope {
            Scope::Directory => self.resolved.path.clone(),
            Scope::Parent => self
                .resolved
                .path
                .parent()
                .unwrap_or(&self.resolved.path)
                .to_owned(),
        };
        let rule = match (risk, self.access) {
            (Risk::Forbidden, _) => None,
            (_, Access::Read) => Some(Rule::ReadsBelow { directory }),
            (_, Access::Write) => Some(Rule::EditsBelow { directory }),
        };
        Effects {
            summary: title.clone(),
            title,
            risk,
            authority: self.authority,
            reason,
            preview,
            rule,
            paths: vec![self.resolved.clone()],
        }
    }

    fn where_it_lies(&self) -> String {
        match self.authority {
            Authority::Workspace => format!("{} lies in the workspace.", self.shown),
            _ => format!("{} lies outside the workspace.", self.shown),
        }
    }
}

/// Resolves and judges a path as a call wrote it.
///
/// # Errors
/// The failed output for the model when the path names nothing.
pub async fn judge(cx: &ToolContext, given: &str, access: Access) -> Result<Target, ToolOutput> {
    let workspace = cx.workspace.clone();
    let given = given.to_owned();
    blocking(move || judge_blocking(&workspace, &given, access))
        .await?
        .map_err(|error| ToolOutput::failure(format!("{error}.")))
}

/// As [`judge`], on the thread of the caller. Blocks.
///
/// # Errors
/// Says why the path names nothing.
pub fn judge_blocking(
    workspace: &Workspace,
    given: &str,
    access: Access,
) -> Result<Target, PathError> {
    let path = resolve(&workspace.root, given)?;
    let forbidden = credentials::closed_by_name(&path, &workspace.home).or_else(|| {
        let metadata = fs::symlink_metadata(&path).ok()?;
        credentials::closed_by_identity(&metadata, &workspace.home)
    });
    let inside = workspace.contains(&path);
    let counts_as_workspace = match access {
        Access::Read => workspace.contains_for_reading(&path),
        Access::Write => inside,
    };
    let resolved = ResolvedPath {
        given: given.to_owned(),
        path,
        inside,
    };
    Ok(Target {
        shown: escape_invisible(&resolved.display(&workspace.root)),
        resolved,
        access,
        authority: if counts_as_workspace {
            Authority::Workspace
        } else {
            Authority::OutsideWorkspace
        },
        forbidden,
    })
}

/// Follows a path from `root`, which is absolute and free of links. Blocks.
///
/// # Errors
/// Says why the path names nothing. A path that does not exist is no error.
pub fn resolve(root: &Path, given: &str) -> Result<PathBuf, PathError> {
    if given.is_empty() {
        return Err(PathError::Empty);
    }
    if given.contains('\0') {
        return Err(PathError::Nul);
    }
    let mut reached = root.to_owned();
    let mut ahead = parts(Path::new(given));
    let mut links = 0;
    while let Some(part) = ahead.pop_front() {
        let part = match part {
            Part::Root(root) => {
                reached.push(root);
                continue;
            }
            Part::Up => {
                reached.pop();
                continue;
            }
            Part::Name(name) => name,
        };
        reached.push(&part);
        let is_link = match fs::symlink_metadata(&reached) {
            Ok(metadata) => metadata.is_symlink(),
            Err(error) if is_missing(&error) => false,
            Err(source) => {
                return Err(PathError::Closed {
                    path: escape_invisible(&reached.display().to_string()),
                    source,
                });
            }
        };
        if !is_link {
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(PathError::TooManyLinks(escape_invisible(given)));
        }
        let target = fs::read_link(&reached).map_err(|source| PathError::Closed {
            path: escape_invisible(&reached.display().to_string()),
            source,
        })?;
        reached.pop();
        let mut through = parts(&target);
        through.append(&mut ahead);
        ahead = through;
    }
    Ok(reached)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename
    )
}

enum Part {
    Root(PathBuf),
    Up,
    Name(OsString),
}

fn parts(path: &Path) -> VecDeque<Part> {
    path.components()
        .filter_map(|component| match component {
            Component::Prefix(_) | Component::RootDir => {
                Some(Part::Root(PathBuf::from(component.as_os_str())))
            }
            Component::CurDir => None,
            Component::ParentDir => Some(Part::Up),
            Component::Normal(name) => Some(Part::Name(name.to_owned())),
        })
        .collect()
}

/// Runs file work off the async runtime.
///
/// # Errors
/// The failed output for the model when the work broke off.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolOutput> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "file work broke off");
        ToolOutput::failure(
            "The tool broke off because of a fault inside Crystal; its log says more.",
        )
    })
}

#[cfg(test)]
#[path = "fence/tests.rs"]
mod tests;
