//! Framing: one message a line, `\n`, UTF-8, with a bound on the line's length.
//!
//! The reader never holds more than the bound: of a longer line it keeps the beginning (where a request's id
//! is looked for), skips the rest, and goes on with the next line. An optional [`Budget`] bounds what all readers
//! of a process hold together; while it is used up, reading pauses.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use crate::limits;

/// Granularity of a [`Budget`], in bytes: semaphore permits are 32 bit.
const BUDGET_UNIT: usize = 1024;

/// The beginning of a line is not budgeted, so that small calls pass when large ones have used the budget up.
const UNBUDGETED_BYTES: usize = 64 * 1024;

/// A buffer that a long line made larger than this goes with it, so that a connection at rest holds little.
const KEPT_BUFFER_BYTES: usize = 256 * 1024;

/// Bytes asked of the stream at a time.
const READ_BYTES: usize = 16 * 1024;

/// A line, or the beginning of one that was too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A whole line without its newline; empty lines are never reported.
    Message(Bytes),
    /// A line over the bound: its first [`limits::ID_SALVAGE_BYTES`].
    TooLong(Bytes),
}

/// What all readers of a process may hold of unfinished lines together.
#[derive(Clone, Debug)]
pub struct Budget {
    bytes: Arc<Semaphore>,
    /// One reader at a time may go over the budget, so that some line always gets whole and gives back what it took.
    overdraft: Arc<Semaphore>,
}

impl Budget {
    /// A budget of so many bytes, rounded down to whole KiB.
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes: Arc::new(Semaphore::new(bytes / BUDGET_UNIT)),
            overdraft: Arc::new(Semaphore::new(1)),
        }
    }
}

/// What a reader has of a budget.
#[derive(Debug, Default)]
struct Held {
    bytes: Option<OwnedSemaphorePermit>,
    overdraft: Option<OwnedSemaphorePermit>,
}

/// Reads lines from a byte stream.
#[derive(Debug)]
pub struct LineReader<R> {
    stream: R,
    buffer: BytesMut,
    /// How far the buffer was searched for a newline.
    searched: usize,
    /// The beginning of an oversize line whose rest is being skipped.
    skipping: Option<Bytes>,
    bound: Arc<AtomicUsize>,
    budget: Option<(Budget, Held)>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// A reader whose lines are at most `bound` bytes. The bound may be changed through the returned handle's atomic.
    pub fn new(stream: R, bound: usize) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
            searched: 0,
            skipping: None,
            bound: Arc::new(AtomicUsize::new(bound)),
            budget: None,
        }
    }

    /// Shares a budget with other readers.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = Some((budget, Held::default()));
        self
    }

    /// The bound, to be changed while reading goes on.
    pub fn bound(&self) -> Arc<AtomicUsize> {
        self.bound.clone()
    }

    /// The next line; `None` at the end of the stream, where an unfinished line counts as finished.
    ///
    /// # Errors
    /// Those of the stream.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> std::io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.take_line() {
                self.settle_budget();
                return Ok(Some(line));
            }
            self.enforce_bound();
            self.claim_budget().await;
            self.buffer.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Ok(self.take_rest());
            }
        }
    }

    fn take_line(&mut self) -> Option<Line> {
        loop {
            let newline = self.buffer[self.searched..]
                .iter()
                .position(|b| *b == b'\n');
            let Some(at) = newline.map(|at| at + self.searched) else {
                self.searched = self.buffer.len();
                return None;
            };
            let mut line = self.buffer.split_to(at + 1).freeze();
            self.searched = 0;
            if line.len() > KEPT_BUFFER_BYTES {
                // What is behind the line would keep its memory.
                self.buffer = BytesMut::from(&self.buffer[..]);
            }
            line.truncate(without_return(&line[..at]).len());
            if let Some(head) = self.skipping.take() {
                return Some(Line::TooLong(head));
            }
            if line.len() > self.bound.load(Ordering::Relaxed) {
                return Some(Line::TooLong(salvage(&line)));
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(Line::Message(line));
            }
        }
    }

    fn take_rest(&mut self) -> Option<Line> {
        let mut rest = self.buffer.split().freeze();
        self.searched = 0;
        rest.truncate(without_return(&rest).len());
        if let Some(head) = self.skipping.take() {
            return Some(Line::TooLong(head));
        }
        (!rest.iter().all(u8::is_ascii_whitespace)).then_some(Line::Message(rest))
    }

    /// Begins, or goes on, skipping a line that is already over the bound.
    fn enforce_bound(&mut self) {
        if self.skipping.is_some() {
            self.buffer.clear();
            self.searched = 0;
        } else if without_return(&self.buffer).len() > self.bound.load(Ordering::Relaxed) {
            self.skipping = Some(salvage(&self.buffer));
            self.buffer = BytesMut::new();
            self.searched = 0;
            self.settle_budget();
        }
    }

    async fn claim_budget(&mut self) {
        let Some((budget, held)) = &mut self.budget else {
            return;
        };
        if self.buffer.len() < UNBUDGETED_BYTES || held.overdraft.is_some() {
            return;
        }
        let needed = (self.buffer.len() + READ_BYTES) / BUDGET_UNIT;
        let has = held
            .bytes
            .as_ref()
            .map_or(0, OwnedSemaphorePermit::num_permits);
        if needed <= has {
            return;
        }
        let more = u32::try_from(needed - has).unwrap_or(u32::MAX);
        // The semaphores are never closed; were they, reading would go on unbudgeted.
        tokio::select! {
            biased;
            claimed = budget.bytes.clone().acquire_many_owned(more) => match (&mut held.bytes, claimed) {
                (Some(held), Ok(permit)) => held.merge(permit),
                (held, Ok(permit)) => *held = Some(permit),
                (_, Err(_)) => {}
            },
            overdraft = budget.overdraft.clone().acquire_owned() => held.overdraft = overdraft.ok(),
        }
    }

    /// Gives back what the last line took.
    fn settle_budget(&mut self) {
        if let Some((_, held)) = &mut self.budget
            && self.buffer.len() < READ_BYTES
        {
            *held = Held::default();
        }
    }
}

/// A carriage return before the newline, which may not have come yet, is no part of the line.
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn salvage(line: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&line[..line.len().min(limits::ID_SALVAGE_BYTES)])
}

/// Writes one message and its newline. Newlines inside (a raw JSON value may hold some between tokens) become spaces.
///
/// # Errors
/// Those of the stream.
pub async fn write_line<W: AsyncWrite + Unpin>(
    stream: &mut W,
    message: &[u8],
) -> std::io::Result<()> {
    stream.write_all(&line_of(message)).await?;
    stream.flush().await
}

/// A message as it goes over the wire: on one line, its newline at the end.
pub fn line_of(message: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(message.len() + 1);
    line.extend_from_slice(message);
    for byte in line.iter_mut() {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line.extend_from_slice(b"\n");
    line.freeze()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn lines(chunks: Vec<Vec<u8>>, bound: usize) -> Vec<Line> {
        let (mut tx, rx) = tokio::io::duplex(64);
        let writer = tokio::spawn(async move {
            for chunk in chunks {
                tx.write_all(&chunk).await.unwrap();
            }
        });
        let mut reader = LineReader::new(rx, bound).with_budget(Budget::new(1024 * 1024));
        let mut out = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            out.push(line);
        }
        writer.await.unwrap();
        out
    }

    #[tokio::test]
    async fn an_oversize_line_is_reported_once_and_the_next_line_is_read() {
        let mut input = b"{\"id\":7,\"x\":\"".to_vec();
        input.extend(vec![b'a'; 100_000]);
        input.extend(b"\"}\n{\"ok\":1}\n");
        let got = lines(vec![input], 1000).await;
        assert_eq!(got.len(), 2);
        assert!(matches!(&got[0], Line::TooLong(head) if head.starts_with(b"{\"id\":7")));
        assert_eq!(got[1], Line::Message(Bytes::from_static(b"{\"ok\":1}")));
    }

    #[tokio::test]
    async fn a_line_of_just_the_bound_passes_wherever_its_end_is_cut() {
        for end in ["\n", "\r\n", "\r", ""] {
            for cut in 0..=end.len() {
                let (begin, rest) = end.split_at(cut);
                let chunks = vec![
                    format!("12345{begin}").into_bytes(),
                    rest.as_bytes().to_vec(),
                ];
                assert_eq!(
                    lines(chunks, 5).await,
                    [Line::Message(Bytes::from_static(b"12345"))],
                    "{end:?} cut at {cut}"
                );
            }
        }
    }

    #[tokio::test]
    async fn blank_lines_are_no_messages_and_a_last_line_needs_no_newline() {
        let got = lines(vec![b"\n  \r\na\r\nb".to_vec()], 10).await;
        assert_eq!(
            got,
            [
                Line::Message(Bytes::from_static(b"a")),
                Line::Message(Bytes::from_static(b"b"))
            ]
        );
    }

    #[tokio::test]
    async fn unfinished_lines_that_use_the_budget_up_do_not_stop_each_other_for_ever() {
        let budget = Budget::new(1024 * 1024);
        let line = vec![b'a'; 400 * 1024];
        let mut readers = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (mut tx, rx) = tokio::io::duplex(64 * 1024);
            let mut reader = LineReader::new(rx, 1024 * 1024).with_budget(budget.clone());
            let line = line.clone();
            readers.spawn(async move { reader.next().await.unwrap().is_some() });
            tokio::spawn(async move {
                tx.write_all(&line).await.unwrap();
                tx.write_all(b"\n").await.unwrap();
            });
        }
        assert!(readers.join_all().await.into_iter().all(|whole| whole));
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_the_bytes_are_cut(
            texts in prop::collection::vec("[a-z]{1,40}", 1..20),
            cuts in prop::collection::vec(1usize..30, 1..40),
        ) {
            let all: Vec<u8> = texts.iter().flat_map(|t| format!("{t}\n").into_bytes()).collect();
            let mut chunks = Vec::new();
            let mut rest = &all[..];
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let n = (*cuts.next().unwrap()).min(rest.len());
                chunks.push(rest[..n].to_vec());
                rest = &rest[n..];
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let got = runtime.block_on(lines(chunks, 30));
            let expected: Vec<Line> = texts.iter().map(|t| if t.len() > 30 {
                Line::TooLong(Bytes::copy_from_slice(t.as_bytes()))
            } else {
                Line::Message(Bytes::copy_from_slice(t.as_bytes()))
            }).collect();
            // Of a line over the bound only the beginning is promised.
            prop_assert_eq!(got.len(), expected.len());
            for (got, expected) in got.iter().zip(&expected) {
                match (got, expected) {
                    (Line::TooLong(a), Line::TooLong(b)) => prop_assert!(b.starts_with(a)),
                    (a, b) => prop_assert_eq!(a, b),
                }
            }
        }
    }
}
