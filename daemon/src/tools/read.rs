//! `read`: lines of a text file, numbered.

use std::{
    io::{self, BufReader, Read as _, Seek, SeekFrom},
    num::NonZeroUsize,
    path::Path,
};

use async_trait::async_trait;
use crystal_protocol::session::Mode;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    BuiltIn, Effects, FileVersion, ToolContext, ToolOutput, ToolStatus,
    fence::{self, Access, Scope, blocking},
    handle::{self, Directory, EntryKind, FileFault},
    lines::Lines,
    text_file::{Encoding, PROBE_BYTES, binary_kind, in_bytes},
};
use crate::{
    limits::{READ_LINE_CHARS, READ_LINES},
    stdx::visible::escape_invisible,
};

/// Text collected for one call; the result is cut far below it.
const MOST_TEXT_BYTES: usize = 4 * 1024 * 1024;

/// Bytes looked through for the number of lines behind those that were asked for.
const COUNTED_BYTES: u64 = 64 * 1024 * 1024;

/// Names compared to find those like a missing one.
const COMPARED_NAMES: usize = 10_000;

/// Names offered for a missing one, and how like it they must be.
const OFFERED_NAMES: usize = 3;
const LIKENESS: f32 = 0.5;

/// The tool.
#[derive(Debug, Default)]
pub struct Read;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadArgs {
    /// the file, relative to the workspace or absolute
    path: String,
    /// first line to show, counted from 1
    offset: Option<NonZeroUsize>,
    /// how many lines to show
    limit: Option<NonZeroUsize>,
}

#[async_trait]
impl BuiltIn for Read {
    type Args = ReadArgs;

    const NAME: &'static str = "read";
    const TITLE: &'static str = "Read a file";
    const DESCRIPTION: &'static str = include_str!("../../../prompts/tools/read.md");
    const CATALOGS: &'static [Mode] = &[Mode::Plan, Mode::Work];

    async fn plan(&self, args: &ReadArgs, cx: &ToolContext) -> Result<Effects, ToolOutput> {
        let target = fence::judge(cx, &args.path, Access::Read).await?;
        Ok(target.effects(Self::NAME, Scope::Parent, None))
    }

    async fn run(&self, args: ReadArgs, effects: &Effects, cx: &ToolContext) -> ToolOutput {
        let Some(target) = effects.paths.first().cloned() else {
            return ToolOutput::failure("The call was never planned, so there is no file to read.");
        };
        let cx = cx.clone();
        let work = move || read(&target.path, &args, &cx);
        match blocking(work).await {
            Ok(output) | Err(output) => output,
        }
    }
}

fn read(path: &Path, args: &ReadArgs, cx: &ToolContext) -> ToolOutput {
    match handle::open_file(path, &cx.workspace) {
        Ok((mut file, metadata)) => match show(&mut file, metadata.len(), args, cx) {
            Ok(output) => {
                if output.status == ToolStatus::Succeeded {
                    cx.files.remember(path, FileVersion::from(&metadata));
                }
                output
            }
            Err(error) => ToolOutput::failure(format!("{}.", FileFault::from_io(path, error))),
        },
        Err(FileFault::IsDirectory(shown)) => ToolOutput::failure(format!(
            "{shown} is a directory; use `list` to see what is in it."
        )),
        Err(FileFault::Missing(shown)) => {
            ToolOutput::failure(format!("{shown} does not exist.{}", similar_names(path)))
        }
        Err(fault) => ToolOutput::failure(format!("{fault}.")),
    }
}

fn show(
    file: &mut std::fs::File,
    len: u64,
    args: &ReadArgs,
    cx: &ToolContext,
) -> io::Result<ToolOutput> {
    let mut head = Vec::new();
    file.by_ref()
        .take(PROBE_BYTES as u64)
        .read_to_end(&mut head)?;
    if let Some(kind) = binary_kind(&head) {
        return Ok(ToolOutput::failure(format!(
            "The file is {kind} of {}, not text, so it is not shown.",
            in_bytes(len)
        )));
    }
    let encoding = Encoding::of(&head);
    file.seek(SeekFrom::Start(encoding.mark_bytes() as u64))?;
    let reader = BufReader::with_capacity(64 * 1024, file);
    let mut lines = Lines::new(reader, encoding, READ_LINE_CHARS);

    let first = args.offset.map_or(1, NonZeroUsize::get);
    let asked = args.limit.map_or(READ_LINES, NonZeroUsize::get);
    let most = asked.min(READ_LINES);
    let mut text = String::new();
    let mut number = 0;
    let mut shown = 0;
    let mut lossy = false;
    let mut counted_bytes = 0;
    while let Some(line) = lines.next_line()? {
        if cx.cancel.is_cancelled() {
            return Ok(ToolOutput::cancelled(text));
        }
        number += 1;
        if number < first {
            continue;
        }
        if shown == most || text.len() > MOST_TEXT_BYTES {
            counted_bytes += line.text.len() as u64 + line.cut_chars as u64 + 1;
            if counted_bytes > COUNTED_BYTES {
                break;
            }
            continue;
        }
        shown += 1;
        lossy |= line.lossy;
        push_line(&mut text, number, &line.text);
        if line.cut_chars > 0 {
            text.push_str(&format!(
                " [... {} more characters in this line]",
                line.cut_chars
            ));
        }
        text.push('\n');
    }
    if number == 0 {
        return Ok(ToolOutput::success("(The file is empty.)"));
    }
    if shown == 0 {
        return Ok(ToolOutput::failure(format!(
            "`offset` is {first}, but the file has only {number} lines."
        )));
    }
    let last = first + shown - 1;
    let more = number > last;
    if more {
        let total = if counted_bytes > COUNTED_BYTES {
            format!("more than {number}")
        } else {
            number.to_string()
        };
        text.push_str(&format!(
            "(Lines {first} to {last} of {total}; go on with offset {}.)\n",
            last + 1
        ));
    }
    if lossy {
        text.push_str("(Some bytes are not valid text and are shown as \u{fffd}.)\n");
    }
    Ok(ToolOutput::success(&text).with_truncated(more && shown < asked))
}

/// Adds a line as `read` numbers it, without its end.
pub fn push_line(text: &mut String, number: usize, line: &str) {
    text.push_str(&format!("{number:>6}\t{line}"));
}

/// A sentence with the names in the directory that are most like the missing one.
fn similar_names(path: &Path) -> String {
    let Ok((parent, name)) = handle::split(path) else {
        return String::new();
    };
    let Ok((entries, _)) =
        Directory::open(parent).and_then(|parent| parent.entries(COMPARED_NAMES))
    else {
        return String::new();
    };
    let wanted = name.to_string_lossy().to_lowercase();
    let known: Vec<(String, String)> = entries
        .iter()
        .filter(|entry| entry.kind != EntryKind::Other)
        .map(|entry| entry.name.to_string_lossy().into_owned())
        .map(|name| (name.to_lowercase(), name))
        .collect();
    let lowered: Vec<&str> = known.iter().map(|(lowered, _)| lowered.as_str()).collect();
    let close = similar::get_close_matches(wanted.as_str(), &lowered, OFFERED_NAMES, LIKENESS);
    let names: Vec<String> = close
        .iter()
        .filter_map(|close| known.iter().find(|(lowered, _)| lowered == *close))
        .map(|(_, name)| escape_invisible(name))
        .collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        " Names like it in the same directory: {}.",
        names.join(", ")
    )
}

#[cfg(test)]
#[path = "read/tests.rs"]
mod tests;
