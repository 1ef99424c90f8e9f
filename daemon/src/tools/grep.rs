//! `grep`: file contents by regular expression.

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
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    BuiltIn, Effects, ToolContext, ToolOutput,
    credentials::{self, CredentialFiles},
    fence::{self, Access, Scope, blocking},
    handle::{self, Directory, FileFault},
    walk::{self, Found, PathPattern},
};
use crate::{
    limits::{GREP_FILE_BYTES, GREP_MATCHES},
    stdx::visible::escape_invisible,
};

/// A matching line is shown up to so many characters.
const SHOWN_LINE_CHARS: usize = 500;

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
    context: usize,
    output: Output,
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
        Ok(Self {
            matcher,
            spans_lines,
            glob: args.glob.as_deref().map(PathPattern::new).transpose()?,
            context: args.context.unwrap_or(0).min(MOST_CONTEXT_LINES),
            output: args.output.unwrap_or_default(),
        })
    }

    fn searcher(&self) -> Searcher {
        let context = if self.output == Output::Lines {
            self.context
        } else {
            0
        };
        let mut builder = SearcherBuilder::new();
        builder
            .line_number(true)
            .multi_line(self.spans_lines)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0));
        if !self.spans_lines {
            builder.line_terminator(LineTerminator::crlf());
        }
        builder.build()
    }
}

/// What was found in one file.
#[derive(Debug)]
enum Searched {
    Nothing,
    Hits(Hits),
    TooLarge,
    Closed,
    Unreadable,
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
            report.add(path, searched, query, cx);
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
    let mut hits = Hits {
        keep_lines: query.output == Output::Lines,
        ..Hits::default()
    };
    match searcher.search_file(&query.matcher, &file, &mut hits) {
        Ok(()) if hits.binary || hits.matches == 0 => Searched::Nothing,
        Ok(()) => Searched::Hits(hits),
        Err(_) => Searched::Unreadable,
    }
}

/// The matches of one file.
#[derive(Debug, Default)]
struct Hits {
    keep_lines: bool,
    lines: Vec<HitLine>,
    matches: usize,
    binary: bool,
}

#[derive(Debug)]
enum HitLine {
    Match(u64, String),
    Context(u64, String),
    Gap,
}

impl Sink for Hits {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        let first = found.line_number().unwrap_or_default();
        for (number, line) in (first..).zip(found.lines()) {
            self.matches += 1;
            if self.keep_lines {
                self.lines.push(HitLine::Match(number, shown_line(line)));
            }
        }
        // One more than may be shown, so that it is known that there are more.
        Ok(!self.keep_lines || self.matches <= GREP_MATCHES)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        let number = context.line_number().unwrap_or_default();
        self.lines
            .push(HitLine::Context(number, shown_line(context.bytes())));
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        self.lines.push(HitLine::Gap);
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), Self::Error> {
        self.binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}

fn shown_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches(['\n', '\r']);
    match text.char_indices().nth(SHOWN_LINE_CHARS) {
        Some((at, _)) => format!(
            "{} [... {} more characters]",
            &text[..at],
            text[at..].chars().count()
        ),
        None => text.to_owned(),
    }
}

/// The result as it grows.
#[derive(Debug, Default)]
struct Report {
    text: String,
    shown: usize,
    cut: bool,
    too_large: usize,
    closed: usize,
    unreadable: usize,
}

impl Report {
    fn add(&mut self, path: &Path, searched: Searched, query: &Query, cx: &ToolContext) {
        let hits = match searched {
            Searched::Nothing => return,
            Searched::TooLarge => {
                self.too_large += 1;
                return;
            }
            Searched::Closed => {
                self.closed += 1;
                return;
            }
            Searched::Unreadable => {
                self.unreadable += 1;
                return;
            }
            Searched::Hits(hits) => hits,
        };
        if self.shown == GREP_MATCHES {
            self.cut = true;
            return;
        }
        let path = walk::shown(path, &cx.workspace);
        match query.output {
            Output::Files => {
                self.shown += 1;
                self.text.push_str(&format!("{path}\n"));
            }
            Output::Count => {
                self.shown += 1;
                self.text.push_str(&format!("{path}: {}\n", hits.matches));
            }
            Output::Lines => self.add_lines(&path, &hits, query),
        }
    }

    fn add_lines(&mut self, path: &str, hits: &Hits, query: &Query) {
        if query.context > 0 && !self.text.is_empty() {
            self.text.push_str("--\n");
        }
        for line in &hits.lines {
            match line {
                HitLine::Match(_, _) if self.shown == GREP_MATCHES => {
                    self.cut = true;
                    return;
                }
                HitLine::Match(number, line) => {
                    self.shown += 1;
                    self.text.push_str(&format!("{path}:{number}: {line}\n"));
                }
                HitLine::Context(number, line) => {
                    self.text.push_str(&format!("{path}-{number}- {line}\n"));
                }
                HitLine::Gap => self.text.push_str("--\n"),
            }
        }
    }

    /// The whole text, and whether it is cut.
    fn into_text(self, found: &Found) -> (String, bool) {
        let mut text = self.text;
        if self.shown == 0 {
            text.push_str("(No match.)\n");
        }
        if self.cut {
            text.push_str(&format!(
                "(Only the first {GREP_MATCHES} matches, by path; narrow the search for the others.)\n"
            ));
        }
        if self.too_large > 0 {
            text.push_str(&format!(
                "({} files of more than {} MiB were skipped.)\n",
                self.too_large,
                GREP_FILE_BYTES / 1024 / 1024
            ));
        }
        text.push_str(&walk::remarks(found));
        (text, self.cut || found.cut)
    }
}

#[cfg(test)]
#[path = "grep/tests.rs"]
mod tests;
