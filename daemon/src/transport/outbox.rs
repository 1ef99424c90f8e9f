//! Answers on their way to a client: in order, bounded in bytes, so that a client that asks and does not read costs little.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::rpc::Then;

/// Answers that may wait, by number.
const ANSWERS: usize = 1024;

/// Answers that may wait, in KiB; one larger than this waits alone.
const ANSWER_KIB: usize = 8 * 1024;

/// An answer, and what follows it.
pub(super) struct Answer {
    /// The line; absent for a notification's work.
    pub(super) line: Option<Bytes>,
    /// What happens right after it.
    pub(super) then: Vec<Then>,
    _room: Option<OwnedSemaphorePermit>,
}

/// The way in.
#[derive(Clone)]
pub(super) struct Outbox {
    answers: mpsc::Sender<Answer>,
    room: Arc<Semaphore>,
}

impl Outbox {
    /// A way in, and the end that the writer has.
    pub(super) fn new() -> (Self, mpsc::Receiver<Answer>) {
        let (answers, queue) = mpsc::channel(ANSWERS);
        (
            Self {
                answers,
                room: Arc::new(Semaphore::new(ANSWER_KIB)),
            },
            queue,
        )
    }

    /// Puts an answer in line, waiting for room. False when the writer is gone.
    pub(super) async fn send(&self, line: Option<Bytes>, then: Vec<Then>) -> bool {
        let kib = line
            .as_ref()
            .map_or(0, |line| line.len() / 1024)
            .min(ANSWER_KIB);
        let room = match u32::try_from(kib) {
            Ok(0) | Err(_) => None,
            Ok(kib) => self.room.clone().acquire_many_owned(kib).await.ok(),
        };
        self.answers
            .send(Answer {
                line,
                then,
                _room: room,
            })
            .await
            .is_ok()
    }
}
