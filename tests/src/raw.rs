//! Lines of JSON over a byte stream, and nothing more: the lowest layer of the tests' own client.

use std::{collections::VecDeque, path::Path};

use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::UnixStream,
};

/// Received messages that are shown when a test fails.
const SHOWN_MESSAGES: usize = 30;

/// Characters of a received message that are shown.
const SHOWN_CHARS: usize = 600;

/// A connection that reads only when it is asked to: one that is not asked is a stopped reader.
pub struct RawConnection {
    reader: Box<dyn AsyncRead + Unpin>,
    writer: Box<dyn AsyncWrite + Unpin>,
    buffer: Vec<u8>,
    /// Where the next line begins in the buffer.
    start: usize,
    /// How far the buffer was searched for a newline.
    searched: usize,
    recent: VecDeque<String>,
}

impl std::fmt::Debug for RawConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawConnection").finish_non_exhaustive()
    }
}

impl RawConnection {
    /// Connects to a local socket.
    ///
    /// # Panics
    /// When nobody listens there.
    pub async fn open(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket)
            .await
            .unwrap_or_else(|error| panic!("cannot connect to {}: {error}", socket.display()));
        let (reader, writer) = stream.into_split();
        Self::over(reader, writer)
    }

    /// Uses any pair of streams.
    pub fn over(
        reader: impl AsyncRead + Unpin + 'static,
        writer: impl AsyncWrite + Unpin + 'static,
    ) -> Self {
        Self {
            reader: Box::new(reader),
            writer: Box::new(writer),
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            recent: VecDeque::new(),
        }
    }

    /// Sends bytes and a newline.
    ///
    /// # Panics
    /// When the other side is gone.
    pub async fn send_line(&mut self, line: &[u8]) {
        self.try_send_line(line)
            .await
            .unwrap_or_else(|error| panic!("the daemon is gone: {error}; {}", self.history()));
    }

    /// Sends bytes and a newline.
    ///
    /// # Errors
    /// When the other side is gone.
    pub async fn try_send_line(&mut self, line: &[u8]) -> std::io::Result<()> {
        self.writer.write_all(line).await?;
        self.writer.write_all(b"\n").await?;
        self.writer.flush().await
    }

    /// Says that nothing more will be sent.
    pub async fn close_writer(&mut self) {
        self.writer = Box::new(tokio::io::sink());
    }

    /// The next message; `None` at the end of the stream. Nothing is lost when the future is dropped.
    ///
    /// # Panics
    /// When a line is not UTF-8 JSON, which no server may send.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(line) = self.take_line() {
                let text = String::from_utf8(line).expect("the daemon sends UTF-8");
                self.remember(&text);
                let value = serde_json::from_str(&text);
                return Some(value.unwrap_or_else(|error| panic!("not JSON: {error}: {text}")));
            }
            match self.reader.read_buf(&mut self.buffer).await {
                Ok(0) => {
                    assert!(
                        self.start == self.buffer.len(),
                        "the stream ended within a line"
                    );
                    return None;
                }
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("reading failed: {error}"),
            }
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let from = self.searched;
        let Some(at) = self.buffer[from..].iter().position(|byte| *byte == b'\n') else {
            // The buffer is moved to its front only here, so that many short lines cost one move.
            self.buffer.drain(..self.start);
            self.start = 0;
            self.searched = self.buffer.len();
            self.buffer.reserve(64 * 1024);
            return None;
        };
        let end = from + at;
        let line = self.buffer[self.start..end].to_vec();
        self.start = end + 1;
        self.searched = end + 1;
        Some(line)
    }

    fn remember(&mut self, text: &str) {
        if self.recent.len() == SHOWN_MESSAGES {
            self.recent.pop_front();
        }
        self.recent
            .push_back(text.chars().take(SHOWN_CHARS).collect());
    }

    /// The last messages that came, for the report of a failure.
    pub fn history(&self) -> String {
        let lines: Vec<&str> = self.recent.iter().map(String::as_str).collect();
        format!("the last messages received:\n{}", lines.join("\n"))
    }
}
