//! What a search found, file by file, and how it is shown.

use std::path::Path;

use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use super::Output;
use crate::{
    limits::{GREP_FILE_BYTES, GREP_MATCHES},
    tools::{
        Workspace,
        walk::{self, Found},
    },
};

/// A matching line is shown up to so many characters.
const SHOWN_LINE_CHARS: usize = 500;

/// How a search is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// What is shown.
    pub(super) output: Output,
    /// Lines of context; only with lines.
    pub(super) context: usize,
}

/// What was found in one file.
#[derive(Debug)]
pub(super) enum Searched {
    Nothing,
    Hits(Hits),
    TooLarge,
    Closed,
    Unreadable,
}

/// The matches of one file.
#[derive(Debug, Default)]
pub(super) struct Hits {
    keep_lines: bool,
    lines: Vec<HitLine>,
    pub(super) matches: usize,
    pub(super) binary: bool,
}

#[derive(Debug)]
enum HitLine {
    Match(u64, String),
    Context(u64, String),
    Gap,
}

impl Hits {
    /// None yet.
    pub(super) fn new(shape: Shape) -> Self {
        Self {
            keep_lines: shape.output == Output::Lines,
            ..Self::default()
        }
    }
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
pub(super) struct Report {
    text: String,
    shown: usize,
    pub(super) cut: bool,
    too_large: usize,
    pub(super) closed: usize,
    pub(super) unreadable: usize,
}

impl Report {
    /// Adds what was found in the next file.
    pub(super) fn add(
        &mut self,
        path: &Path,
        searched: Searched,
        shape: Shape,
        workspace: &Workspace,
    ) {
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
        let path = walk::shown(path, workspace);
        match shape.output {
            Output::Files => {
                self.shown += 1;
                self.text.push_str(&format!("{path}\n"));
            }
            Output::Count => {
                self.shown += 1;
                self.text.push_str(&format!("{path}: {}\n", hits.matches));
            }
            Output::Lines => self.add_lines(&path, &hits, shape),
        }
    }

    fn add_lines(&mut self, path: &str, hits: &Hits, shape: Shape) {
        if shape.context > 0 && !self.text.is_empty() {
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
    pub(super) fn into_text(self, found: &Found) -> (String, bool) {
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
