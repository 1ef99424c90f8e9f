//! `write`: a whole file at once.

use async_trait::async_trait;
use crystal_protocol::session::Mode;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    BuiltIn, Effects, ResolvedPath, ToolContext, ToolOutput,
    change::{self, Change, shown},
    fence::{self, Access, Scope, blocking},
    text_file::in_bytes,
};
use crate::limits::{EDIT_FILE_BYTES, WRITE_BYTES};

/// The tool.
#[derive(Debug, Default)]
pub struct Write;

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteArgs {
    /// the file, relative to the workspace or absolute
    path: String,
    /// everything that the file shall hold
    content: String,
}

#[async_trait]
impl BuiltIn for Write {
    type Args = WriteArgs;

    const NAME: &'static str = "write";
    const TITLE: &'static str = "Write a file";
    const DESCRIPTION: &'static str = include_str!("../../../prompts/tools/write.md");
    const CATALOGS: &'static [Mode] = &[Mode::Work];

    async fn plan(&self, args: &WriteArgs, cx: &ToolContext) -> Result<Effects, ToolOutput> {
        if args.content.len() > WRITE_BYTES {
            return Err(ToolOutput::failure(format!(
                "`content` is too long: {}, of at most {}. Write a part and add the rest with `edit`.",
                in_bytes(args.content.len() as u64),
                in_bytes(WRITE_BYTES as u64)
            )));
        }
        let target = fence::judge(cx, &args.path, Access::Write).await?;
        if target.forbidden.is_some() {
            return Ok(target.effects(Self::NAME, Scope::Parent, None));
        }
        let (work_args, work_cx, resolved) = (args.clone(), cx.clone(), target.resolved.clone());
        let preview = blocking(move || {
            work_out(&resolved, &work_args, &work_cx).map(|change| change.preview(&work_cx))
        })
        .await?
        .map_err(ToolOutput::failure)?;
        Ok(target.effects(Self::NAME, Scope::Parent, Some(preview)))
    }

    async fn run(&self, args: WriteArgs, effects: &Effects, cx: &ToolContext) -> ToolOutput {
        let Some(target) = effects.paths.first().cloned() else {
            return ToolOutput::failure(
                "The call was never planned, so there is no file to write.",
            );
        };
        if cx.cancel.is_cancelled() {
            return ToolOutput::cancelled("Nothing was written.");
        }
        let (cx, effects) = (cx.clone(), effects.clone());
        let work = move || {
            let _writing = cx.files.writing();
            let shown = shown(&target, &cx);
            let change = work_out(&target, &args, &cx)?;
            change.apply(&effects, &shown, &cx)?;
            let done = if change.replaces() {
                "Overwrote"
            } else {
                "Created"
            };
            let size = in_bytes(args.content.len() as u64);
            Ok::<_, String>(format!("{done} {shown}, {size}.\n{}", change.diff()))
        };
        change::output_of(work).await
    }
}

fn work_out(target: &ResolvedPath, args: &WriteArgs, cx: &ToolContext) -> Result<Change, String> {
    let shown = shown(target, cx);
    let old = change::current(&target.path, &shown, EDIT_FILE_BYTES, cx)?;
    Ok(Change::new(
        &target.path,
        &shown,
        old,
        args.content.clone().into_bytes(),
    ))
}

#[cfg(test)]
#[path = "write/tests.rs"]
mod tests;
