//! `glob`: paths that match a pattern, newest first.

use std::{cmp::Reverse, path::Path, time::SystemTime};

use async_trait::async_trait;
use crystal_protocol::session::Mode;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    BuiltIn, Effects, ToolContext, ToolOutput,
    fence::{self, Access, Scope, blocking},
    handle::Directory,
    walk::{self, PathPattern},
};
use crate::{limits::GLOB_PATHS, stdx::visible::escape_invisible};

/// The tool.
#[derive(Debug, Default)]
pub struct Glob;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GlobArgs {
    /// what the paths look like: `*.rs`, `src/**/*.{ts,tsx}`; without `/` it is matched against names in every directory
    pattern: String,
    /// the directory to look in; the workspace when left out
    path: Option<String>,
}

#[async_trait]
impl BuiltIn for Glob {
    type Args = GlobArgs;

    const NAME: &'static str = "glob";
    const TITLE: &'static str = "Find files by name";
    const DESCRIPTION: &'static str = include_str!("../../../prompts/tools/glob.md");
    const CATALOGS: &'static [Mode] = &[Mode::Plan, Mode::Work];

    async fn plan(&self, args: &GlobArgs, cx: &ToolContext) -> Result<Effects, ToolOutput> {
        PathPattern::new(&args.pattern).map_err(ToolOutput::failure)?;
        let target = fence::judge(cx, args.path.as_deref().unwrap_or("."), Access::Read).await?;
        let mut effects = target.effects(Self::NAME, Scope::Directory, None);
        effects.title = format!(
            "glob {} in {}",
            escape_invisible(&args.pattern),
            target.shown
        );
        effects.summary = effects.title.clone();
        Ok(effects)
    }

    async fn run(&self, args: GlobArgs, effects: &Effects, cx: &ToolContext) -> ToolOutput {
        let Some(target) = effects.paths.first().cloned() else {
            return ToolOutput::failure(
                "The call was never planned, so there is no directory to look in.",
            );
        };
        let pattern = match PathPattern::new(&args.pattern) {
            Ok(pattern) => pattern,
            Err(wrong) => return ToolOutput::failure(wrong),
        };
        let cx = cx.clone();
        match blocking(move || glob(&target.path, &pattern, &cx)).await {
            Ok(output) | Err(output) => output,
        }
    }
}

fn glob(start: &Path, pattern: &PathPattern, cx: &ToolContext) -> ToolOutput {
    if let Err(fault) = Directory::open(start) {
        return ToolOutput::failure(format!("{fault}."));
    }
    let found = walk::files(start, &cx.workspace, &cx.cancel, |relative| {
        pattern.matches(relative)
    });
    if cx.cancel.is_cancelled() {
        return ToolOutput::cancelled("The search was stopped.");
    }
    let mut dated: Vec<_> = found
        .files
        .iter()
        .map(|path| {
            let modified = std::fs::symlink_metadata(path)
                .and_then(|metadata| metadata.modified())
                .unwrap_or(SystemTime::UNIX_EPOCH);
            (Reverse(modified), path)
        })
        .collect();
    dated.sort();
    let mut text = String::new();
    for (_, path) in dated.iter().take(GLOB_PATHS) {
        text.push_str(&walk::shown(path, &cx.workspace));
        text.push('\n');
    }
    if dated.is_empty() {
        text.push_str("(No file matches.)\n");
    }
    let cut = dated.len() > GLOB_PATHS;
    if cut {
        text.push_str(&format!(
            "(The newest {GLOB_PATHS} of {} paths; narrow the pattern for the others.)\n",
            dated.len()
        ));
    }
    text.push_str(&walk::remarks(&found));
    ToolOutput::success(&text).with_truncated(cut || found.cut)
}

#[cfg(test)]
#[path = "glob/tests.rs"]
mod tests;
