//! `list`: what is in one directory.

use std::{collections::HashSet, ffi::OsString, path::Path};

use async_trait::async_trait;
use crystal_protocol::session::Mode;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    BuiltIn, Effects, ToolContext, ToolOutput, credentials,
    fence::{self, Access, Scope, blocking},
    handle::{Directory, Entry, EntryKind, FileFault},
    text_file::in_bytes,
    walk,
};
use crate::{limits::LIST_ENTRIES, stdx::visible::escape_invisible};

/// Entries read for one call, of which the first by name are shown.
const MOST_ENTRIES: usize = 200_000;

/// The tool.
#[derive(Debug, Default)]
pub struct List;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListArgs {
    /// the directory, relative to the workspace or absolute; the workspace itself when left out
    path: Option<String>,
}

#[async_trait]
impl BuiltIn for List {
    type Args = ListArgs;

    const NAME: &'static str = "list";
    const TITLE: &'static str = "List a directory";
    const DESCRIPTION: &'static str = include_str!("../../../prompts/tools/list.md");
    const CATALOGS: &'static [Mode] = &[Mode::Plan, Mode::Work];

    async fn plan(&self, args: &ListArgs, cx: &ToolContext) -> Result<Effects, ToolOutput> {
        let target = fence::judge(cx, args.path.as_deref().unwrap_or("."), Access::Read).await?;
        Ok(target.effects(Self::NAME, Scope::Directory, None))
    }

    async fn run(&self, _: ListArgs, effects: &Effects, cx: &ToolContext) -> ToolOutput {
        let Some(target) = effects.paths.first().cloned() else {
            return ToolOutput::failure(
                "The call was never planned, so there is no directory to list.",
            );
        };
        let cx = cx.clone();
        match blocking(move || list(&target.path, &cx)).await {
            Ok(output) | Err(output) => output,
        }
    }
}

fn list(path: &Path, cx: &ToolContext) -> ToolOutput {
    let (mut entries, unread) =
        match Directory::open(path).and_then(|directory| directory.entries(MOST_ENTRIES)) {
            Ok(found) => found,
            Err(FileFault::Io { path, source })
                if source.kind() == std::io::ErrorKind::NotADirectory =>
            {
                return ToolOutput::failure(format!(
                    "{path} is not a directory; use `read` to see what a file holds."
                ));
            }
            Err(fault) => return ToolOutput::failure(format!("{fault}.")),
        };
    if entries.is_empty() {
        return ToolOutput::success("(The directory is empty.)");
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let kept = walk::names_not_ignored(path);
    let mut text = String::new();
    for entry in entries.iter().take(LIST_ENTRIES) {
        text.push_str(&describe(entry, path, &kept, cx));
        text.push('\n');
    }
    let left_out = entries.len().saturating_sub(LIST_ENTRIES);
    if left_out > 0 || unread {
        let at_least = if unread { "at least " } else { "" };
        text.push_str(&format!(
            "({at_least}{left_out} more entries are not shown.)\n"
        ));
    }
    ToolOutput::success(&text).with_truncated(left_out > 0 || unread)
}

fn describe(entry: &Entry, directory: &Path, kept: &HashSet<OsString>, cx: &ToolContext) -> String {
    let name = escape_invisible(&entry.name.to_string_lossy());
    let mut line = match &entry.kind {
        EntryKind::Directory => format!("dir   {name}/"),
        EntryKind::File(len) => format!("file  {name}  {}", in_bytes(*len)),
        EntryKind::Link(target) => {
            format!(
                "link  {name} -> {}",
                escape_invisible(&target.to_string_lossy())
            )
        }
        EntryKind::Other => format!("other {name}"),
    };
    if credentials::closed_by_name(&directory.join(&entry.name), &cx.workspace.home).is_some() {
        line.push_str(" (closed to tools)");
    }
    if !kept.contains(&entry.name) {
        line.push_str(" (ignored)");
    }
    line
}

#[cfg(test)]
#[path = "list/tests.rs"]
mod tests;
