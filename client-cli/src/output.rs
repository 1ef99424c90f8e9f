//! What reaches stdout and stderr: text for people, made harmless, or JSON, one value a line.

use std::io;

use serde::Serialize;
use tokio::io::AsyncWriteExt as _;

use crate::escape::{harmless, harmless_json};

/// Exit code of a command that did what was asked.
pub(crate) const SUCCESS: u8 = 0;

/// Exit code of a command that did not.
pub(crate) const FAILURE: u8 = 1;

/// Prints in the form that the user chose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// `--json`: machine-readable results on stdout.
    pub(crate) json: bool,
}

impl Output {
    /// Text for people on stdout, as it is but harmless.
    pub(crate) async fn text(self, text: &str) -> io::Result<()> {
        write(tokio::io::stdout(), harmless(text).as_bytes()).await
    }

    /// A line for people on stdout.
    pub(crate) async fn line(self, text: &str) -> io::Result<()> {
        self.text(&format!("{text}\n")).await
    }

    /// Text for people on stderr.
    pub(crate) async fn aside(self, text: &str) -> io::Result<()> {
        write(tokio::io::stderr(), harmless(text).as_bytes()).await
    }

    /// A line for people on stderr.
    pub(crate) async fn note(self, text: &str) -> io::Result<()> {
        self.aside(&format!("{text}\n")).await
    }

    /// A JSON value on a line of its own on stdout, whatever form was chosen.
    pub(crate) async fn json_line<T: Serialize + ?Sized>(self, value: &T) -> io::Result<()> {
        self.json_text(&serde_json::to_string(value)?).await
    }

    /// JSON text and a newline on stdout: the same value, with what a terminal would obey or hide as escapes.
    pub(crate) async fn json_text(self, json: &str) -> io::Result<()> {
        let line = format!("{}\n", harmless_json(json));
        self.bytes(line.as_bytes()).await
    }

    /// JSON text and a newline on stderr, like [`Output::json_text`].
    pub(crate) async fn json_note(self, json: &str) -> io::Result<()> {
        let line = format!("{}\n", harmless_json(json));
        write(tokio::io::stderr(), line.as_bytes()).await
    }

    /// A result: as JSON when that was chosen, else the text that `human` gives.
    pub(crate) async fn result<T: Serialize + ?Sized>(
        self,
        value: &T,
        human: impl FnOnce(&T) -> String,
    ) -> io::Result<()> {
        if self.json {
            return self.json_line(value).await;
        }
        let text = human(value);
        if text.is_empty() {
            return Ok(());
        }
        self.line(text.trim_end_matches('\n')).await
    }

    /// Bytes on stdout, unchanged.
    pub(crate) async fn bytes(self, bytes: &[u8]) -> io::Result<()> {
        write(tokio::io::stdout(), bytes).await
    }
}

async fn write(mut to: impl tokio::io::AsyncWrite + Unpin, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

/// Whether a command failed only because its reader went away.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// An error with its causes, those left out that the text before them says already.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// Rows in columns, two spaces between them; the last column is as wide as it likes.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let pad = width.saturating_sub(cell.chars().count());
            line.push_str(cell);
            line.push_str(&" ".repeat(pad + 2));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let rows = [
            vec!["a".to_owned(), "long".to_owned(), "x".to_owned()],
            vec!["bbb".to_owned(), "s".to_owned(), String::new()],
        ];
        assert_eq!(table(&rows), "a    long  x\nbbb  s\n");
    }
}
