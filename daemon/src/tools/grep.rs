//! `grep`: file contents by regular expression.

mod report;

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use crystal_protocol::session::Mode;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use report::{Hits, Report, Searched, Shape};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    BuiltIn, Effects, ToolContext, ToolOutput,
    credentials::{self, CredentialFiles},
    fence::{self, Access, Scope, blocking},
    handle::{self, Directory, FileFault},
    walk::{self, Found, PathPattern},
};
use crate::{limits::GREP_FILE_BYTES, stdx::visible::escape_invisible};

/// Lines of context that a call may ask for.
const MOST_CONTEXT_LINES: usize = 50;

/// Files searched between two looks at whether there is enough; a multiple of what runs at once.
const BATCH_FILES: usize = 256;

/// The tool.
#[derive(Debug, Default)]
pub struct Grep;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GrepArgs {
    /// a regular expression in Rust syntax
    pattern: String,
    /// the directory or file to search; the workspace when left out
    path: Option<String>,
    /// only files whose path matches this pattern, as in `glob`
    glob: Option<String>,
    /// lines to show before and after each match, at most 50
    context: Option<usize>,
    /// ignore upper and lower case
    ignore_case: Option<bool>,
    /// what to show; `lines` when left out
    output: Option<Output>,
}

/// What a search shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// matching lines
    #[default]
    Lines,
    /// paths of files with a match
    Files,
    /// the number of matching lines of each file
    Count,
}

#[async_trait]
impl BuiltIn for Grep {
    type Args = GrepArgs;

    const NAME: &'static str = "grep";
    const TITLE: &'static str = "Search file contents";
    const DESCRIPTION: &'static str = include_str!("../../../prompts/tools/grep.md");
    const CATALOGS: &'static [Mode] = &[Mode::Plan, Mode::Work];

    async fn plan(&self, args: &GrepArgs, cx: &ToolContext) -> Result<Effects, ToolOutput> {
        Query::new(args).map_err(ToolOutput::failure)?;
        let target = fence::judge(cx, args.path.as_deref().unwrap_or("."), Access::Read).await?;
        let mut effects = target.effects(Self::NAME, Scope::Directory, None);
        effects.title = format!(
            "grep {} in {}",
            escape_invisible(&args.pattern),
            target.shown
        );
        effects.summary = effects.title.clone();
        Ok(effects)
    }

    async fn run(&self, args: GrepArgs, effects: &Effects, cx: &ToolContext) -> ToolOutput {
        let Some(target) = effects.paths.first().cloned() else {
            return ToolOutput::failure(
                "The call was never planned, so there is nothing to search.",
            );
        };
        let query = match Query::new(&args) {
            Ok(query) => query,
            Err(wrong) => return ToolOutput::failure(wrong),
        };
        let cx = cx.clone();
        match blocking(move || grep(&target.path, &query, &cx)).await {
            Ok(output) | Err(output) => output,
        }
    }
}

struct Query {
    matcher: RegexMatcher,
    spans_lines: bool,
    glob: Option<PathPattern>,
    shape: Shape,
}

impl Query {
    fn new(args: &GrepArgs) -> Result<Self, String> {
        let mut builder = RegexMatcherBuilder::new();
        builder
            .multi_line(true)
            .case_insensitive(args.ignore_case.unwrap_or(false));
        let across = builder.build(&args.pattern);
        builder.line_terminator(Some(b'\n')).crlf(true);
        // A pattern that names a line break is searched across lines; all others line by line, which is faster.
        let (matcher, spans_lines) = match (builder.build(&args.pattern), across) {
            (Ok(matcher), _) => (matcher, false),
            (Err(_), Ok(matcher)) => (matcher, true),
            (Err(error), Err(_)) => {
                return Err(format!(
                    "The regular expression is wrong: {error}. Special characters that are meant literally need a backslash."
                ));
            }
        };
        let output = args.output.unwrap_or_default();
        let context = match output {
            Output::Lines => args.context.unwrap_or(0).min(MOST_CONTEXT_LINES),
            Output::Files | Output::Count => 0,
        };
        Ok(Self {
            matcher,
            spans_lines,
            glob: args.glob.as_deref().map(PathPattern::new).transpose()?,
            shape: Shape { output, context },
        })
    }

    fn searcher(&self) -> Searcher {
        let mut builder = SearcherBuilder::new();
        builder
            .line_number(true)
            .multi_line(self.spans_lines)
            .before_context(self.shape.context)
            .after_context(self.shape.context)
            .binary_detection(BinaryDetection::quit(0));
        if !self.spans_lines {
            builder.line_terminator(LineTerminator::crlf());
        }
        builder.build()
    }
}

fn grep(start: &Path, query: &Query, cx: &ToolContext) -> ToolOutput {
    let is_directory = std::fs::symlink_metadata(start).is_ok_and(|metadata| metadata.is_dir());
    let opened = if is_directory {
        Directory::open(start).map(drop)
    } else {
        handle::open_file(start, &cx.workspace).map(drop)
    };
    if let Err(fault) = opened {
        return ToolOutput::failure(format!("{fault}."));
    }
    let mut found = if is_directory {
        walk::files(start, &cx.workspace, &cx.cancel, |relative| {
            query
                .glob
                .as_ref()
                .is_none_or(|glob| glob.matches(relative))
        })
    } else {
        Found {
            files: vec![start.to_owned()],
            ..Found::default()
        }
    };
    found.files.sort();
    let credentials = CredentialFiles::collect(&cx.workspace.home);
    let mut report = Report::default();
    for batch in found.files.chunks(BATCH_FILES) {
        for (path, searched) in batch
            .iter()
            .zip(search_batch(batch, query, &credentials, cx))
        {
            report.add(path, searched, query.shape, &cx.workspace);
        }
        if report.cut || cx.cancel.is_cancelled() {
            break;
        }
    }
    found.closed += report.closed;
    found.unreadable += report.unreadable;
    let text = report.into_text(&found);
    if cx.cancel.is_cancelled() {
        return ToolOutput::cancelled(text.0);
    }
    ToolOutput::success(&text.0).with_truncated(text.1)
}

/// Searches files side by side; results come in the order of the files.
fn search_batch(
    batch: &[PathBuf],
    query: &Query,
    credentials: &CredentialFiles,
    cx: &ToolContext,
) -> Vec<Searched> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Searched>> = batch
        .iter()
        .map(|_| Mutex::new(Searched::Nothing))
        .collect();
    let workers = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(batch.len());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut searcher = query.searcher();
                while !cx.cancel.is_cancelled() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let (Some(path), Some(result)) = (batch.get(at), results.get(at)) else {
                        break;
                    };
                    let searched = search_file(path, query, &mut searcher, credentials);
                    *result.lock().unwrap_or_else(PoisonError::into_inner) = searched;
                }
            });
        }
    });
    results
        .into_iter()
        .map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

fn search_file(
    path: &Path,
    query: &Query,
    searcher: &mut Searcher,
    credentials: &CredentialFiles,
) -> Searched {
    let opened = handle::split(path).and_then(|(parent, name)| {
        Directory::open(parent).and_then(|parent| parent.open_file(name))
    });
    let (file, metadata) = match opened {
        Ok(opened) => opened,
        // Links, pipes and devices are not searched, as walking does not follow them.
        Err(
            FileFault::LeadsElsewhere(_) | FileFault::NotRegular(_) | FileFault::IsDirectory(_),
        ) => {
            return Searched::Nothing;
        }
        Err(_) => return Searched::Unreadable,
    };
    if credentials::has_other_names(&metadata) && credentials.contains(&metadata) {
        return Searched::Closed;
    }
    if metadata.len() > GREP_FILE_BYTES {
        return Searched::TooLarge;
    }
    let mut hits = Hits::new(query.shape);
    match searcher.search_file(&query.matcher, &file, &mut hits) {
        Ok(()) if hits.binary || hits.matches == 0 => Searched::Nothing,
        Ok(()) => Searched::Hits(hits),
        Err(_) => Searched::Unreadable,
    }
}

#[cfg(test)]
#[path = "grep/tests.rs"]
mod tests;
