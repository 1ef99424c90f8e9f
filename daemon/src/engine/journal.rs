//! What must survive: to the log first, then into the head, then to the clients.
//!
//! Two strengths. [`Journal::commit`] is for what a caller is told is on disk (prompts, decisions): written and synced, or
//! refused with the reason and nothing changed. [`Journal::record`] is for what has happened anyway: written at once; when the
//! disk refuses, the session goes on in memory and the records are tried again before the next ones.

use crystal_protocol::{
    error::{ErrorKind, RpcError},
    ids::Seq,
    time::Timestamp,
};

use crate::{
    home::HomePaths,
    limits::RESERVED_AHEAD,
    store::{
        error::StoreError,
        head::Head,
        head_file::{Numbering, save_head},
        log::{Appended, Durability, Placed, SessionLog},
        record::Record,
    },
};

/// Fewer reserved numbers than this, and the next block is reserved. More than one step of the actor can use.
const RESERVE_BELOW: u64 = RESERVED_AHEAD / 2;

/// The durable side of a session.
pub(super) struct Journal {
    paths: HomePaths,
    head: Head,
    log: SessionLog,
    next_seq: Seq,
    next_id: u64,
    reserved_seq: Seq,
    reserved_id: u64,
    has_backlog: bool,
    failed: Option<String>,
}

impl Journal {
    /// The journal of a session whose files are open; numbers go on where the head says.
    pub(super) fn new(paths: HomePaths, head: Head, log: SessionLog) -> Self {
        let (next_seq, next_id) = (head.next_seq, head.next_id);
        Self {
            paths,
            head,
            log,
            next_seq,
            next_id,
            reserved_seq: next_seq,
            reserved_id: next_id,
            has_backlog: false,
            failed: None,
        }
    }

    /// The fold of all that was recorded.
    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// Makes sure that enough numbers are reserved for the next step.
    pub(super) async fn reserve(&mut self) {
        let short = |next: u64, reserved: u64| next + RESERVE_BELOW > reserved;
        if short(self.next_seq, self.reserved_seq) || short(self.next_id, self.reserved_id) {
            self.reserved_seq = self.next_seq + RESERVED_AHEAD;
            self.reserved_id = self.next_id + RESERVED_AHEAD;
            let reserved = Record::Reserved {
                seq: self.reserved_seq,
                id: self.reserved_id,
            };
            self.record(vec![reserved]).await;
        }
    }

    /// The next event's number.
    pub(super) fn take_seq(&mut self) -> Seq {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    /// The next number for an id.
    pub(super) fn take_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Writes and syncs records that a caller will be told are on disk.
    ///
    /// # Errors
    /// `storage`; nothing is recorded then.
    pub(super) async fn commit(&mut self, records: Vec<Record>) -> Result<(), RpcError> {
        match self.log.append(&records, Durability::Synced).await {
            Ok(placed) => {
                self.fold(&records, &placed);
                Ok(())
            }
            Err(error) => Err(RpcError::new(ErrorKind::Storage, error.to_string())),
        }
    }

    /// Writes records of what has happened; kept and tried again when the disk refuses.
    pub(super) async fn record(&mut self, records: Vec<Record>) {
        match self.log.append_or_keep(&records).await {
            Ok(Appended::Written(placed)) => {
                self.has_backlog = false;
                self.fold(&records, &placed);
            }
            Ok(Appended::Kept { placed, cause }) => {
                self.fold(&records, &placed);
                if !std::mem::replace(&mut self.has_backlog, true) {
                    tracing::error!(session = %self.head.id, error = %cause, "records wait in memory for the disk");
                    self.failed = Some(cause.to_string());
                }
            }
            Err(error) => {
                tracing::error!(session = %self.head.id, %error, "records were lost");
                self.failed = Some(error.to_string());
            }
        }
    }

    fn fold(&mut self, records: &[Record], placed: &[Placed]) {
        for (record, place) in records.iter().zip(placed) {
            self.head.apply(record, place.offset, place.end);
        }
    }

    /// What the disk said when it first refused, once.
    pub(super) fn take_failure(&mut self) -> Option<String> {
        self.failed.take()
    }

    /// Tries again to write what the disk refused; true when nothing is left.
    pub(super) async fn retry(&mut self) -> bool {
        let written = self.log.flush().await.is_ok();
        self.has_backlog &= !written;
        written
    }

    /// Whether records wait for the disk.
    pub(super) fn has_backlog(&self) -> bool {
        self.has_backlog
    }

    /// The log, for those who read it or sync it.
    pub(super) fn log(&self) -> &SessionLog {
        &self.log
    }

    /// Saves the head of a session that is being unloaded: numbering goes on without a gap.
    pub(super) async fn save_final(&mut self, updated_at: Timestamp) -> Result<Head, StoreError> {
        self.head.updated_at = updated_at;
        self.log.sync().await?;
        let numbering = Numbering::Exact {
            next_seq: self.next_seq,
            next_id: self.next_id,
        };
        save_head(&self.paths, self.head.clone(), numbering).await?;
        Ok(Head {
            next_seq: self.next_seq,
            next_id: self.next_id,
            ..self.head.clone()
        })
    }

    /// The session's paths.
    pub(super) fn paths(&self) -> &HomePaths {
        &self.paths
    }
}
