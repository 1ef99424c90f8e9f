//! `edit`: replaces a text in a file and touches nothing else in it.

use async_trait::async_trait;
use crystal_protocol::{approval::Authority, session::Mode};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    BuiltIn, Effects, ResolvedPath, ToolContext, ToolOutput,
    change::{self, Change, shown},
    fence::{self, Access, Scope, blocking},
    nearest,
    replace::{Places, ReplaceFault, replace},
    text_file::{self, binary_kind},
};
use crate::limits::EDIT_FILE_BYTES;

/// Line numbers named when a text occurs more than once.
const NAMED_LINES: usize = 20;

/// The tool.
#[derive(Debug, Default)]
pub struct Edit;

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditArgs {
    /// the file, relative to the workspace or absolute
    path: String,
    /// the exact text to replace, without line numbers
    old_string: String,
    /// the text to put there
    new_string: String,
    /// replace every occurrence instead of the only one
    replace_all: Option<bool>,
}

#[async_trait]
impl BuiltIn for Edit {
    type Args = EditArgs;

    const NAME: &'static str = "edit";
    const TITLE: &'static str = "Edit a file";
    const DESCRIPTION: &'static str = include_str!("../../../prompts/tools/edit.md");
    const CATALOGS: &'static [Mode] = &[Mode::Work];

    async fn plan(&self, args: &EditArgs, cx: &ToolContext) -> Result<Effects, ToolOutput> {
        if args.old_string.is_empty() {
            return Err(ToolOutput::failure(
                "`old_string` is empty; name the text to replace, or use `write` for a whole file.",
            ));
        }
        if args.old_string == args.new_string {
            return Err(ToolOutput::failure(
                "`old_string` and `new_string` are the same, so there is nothing to change.",
            ));
        }
        let target = fence::judge(cx, &args.path, Access::Write).await?;
        if target.forbidden.is_some() {
            return Ok(target.effects(Self::NAME, Scope::Parent, None));
        }
        let (work_args, work_cx, resolved) = (args.clone(), cx.clone(), target.resolved.clone());
        let preview = blocking(move || {
            work_out(&resolved, &work_args, &work_cx).map(|(change, _)| change.preview(&work_cx))
        })
        .await?;
        match (preview, target.authority) {
            (Ok(preview), _) => Ok(target.effects(Self::NAME, Scope::Parent, Some(preview))),
            (Err(wrong), Authority::Workspace) => Err(ToolOutput::failure(wrong)),
            // What is in a file elsewhere is not told before somebody has agreed that it be touched.
            (Err(_), _) => Ok(target.effects(Self::NAME, Scope::Parent, None)),
        }
    }

    async fn run(&self, args: EditArgs, effects: &Effects, cx: &ToolContext) -> ToolOutput {
        let Some(target) = effects.paths.first().cloned() else {
            return ToolOutput::failure("The call was never planned, so there is no file to edit.");
        };
        if cx.cancel.is_cancelled() {
            return ToolOutput::cancelled("Nothing was changed.");
        }
        let (cx, effects) = (cx.clone(), effects.clone());
        let work = move || {
            let _writing = cx.files.writing();
            let shown = shown(&target, &cx);
            let (change, count) = work_out(&target, &args, &cx)?;
            change.apply(&effects, &shown, &cx)?;
            let places = if count == 1 {
                "one place".to_owned()
            } else {
                format!("{count} places")
            };
            Ok::<_, String>(format!("Edited {shown} in {places}.\n{}", change.diff()))
        };
        change::output_of(work).await
    }
}

/// The change and in how many places it is.
fn work_out(
    target: &ResolvedPath,
    args: &EditArgs,
    cx: &ToolContext,
) -> Result<(Change, usize), String> {
    let shown = shown(target, cx);
    let Some(old) = change::current(&target.path, &shown, EDIT_FILE_BYTES, cx)? else {
        return Err(format!("{shown} does not exist; use `write` to make it."));
    };
    if let Some(kind) = binary_kind(&old.bytes) {
        return Err(format!("{shown} is {kind}, not text, so it is not edited."));
    }
    let places = if args.replace_all == Some(true) {
        Places::All
    } else {
        Places::One
    };
    match replace(&old.bytes, &args.old_string, &args.new_string, places) {
        Ok(replaced) => {
            let change = Change::new(&target.path, &shown, Some(old), replaced.bytes);
            Ok((change, replaced.count))
        }
        Err(fault) => Err(explain(fault, &shown, &old.bytes, &args.old_string)),
    }
}

fn explain(fault: ReplaceFault, shown: &str, bytes: &[u8], old: &str) -> String {
    match fault {
        ReplaceFault::NoMatch => {
            let near = nearest::describe(&text_file::decode(bytes), &old.replace("\r\n", "\n"));
            format!("`old_string` does not occur in {shown}.{near}")
        }
        ReplaceFault::Several(lines) => {
            let named: Vec<String> = lines
                .iter()
                .take(NAMED_LINES)
                .map(ToString::to_string)
                .collect();
            let more = if lines.len() > NAMED_LINES {
                " and more"
            } else {
                ""
            };
            format!(
                "`old_string` occurs {} times in {shown}, at lines {}{more}. Give more of the text around the one you mean, or set `replace_all`.",
                lines.len(),
                named.join(", ")
            )
        }
        ReplaceFault::NoChange => format!("{shown} already is as this edit would make it."),
    }
}

#[cfg(test)]
#[path = "edit/tests.rs"]
mod tests;
