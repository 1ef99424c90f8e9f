//! The first moments: clients are greeted at once, and served when the sessions of the home are listed.
//!
//! Listing takes as long as the home is large; a client that only asks whether a daemon is there must not wait for it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use tokio::sync::Notify;

use super::Hub;
use crate::store::{error::StoreError, index::SessionIndex, open_turns};

/// Whether the sessions are listed.
#[derive(Debug, Default)]
pub(super) struct Opening {
    open: AtomicBool,
    opened: Notify,
}

impl Hub {
    /// Lists the sessions of the home, loads those that a crash left in a turn, and lets calls in.
    ///
    /// # Errors
    /// When the sessions cannot be listed; calls then wait for ever, so the daemon must end.
    pub async fn open(self: &Arc<Self>) -> Result<(), StoreError> {
        let began = Instant::now();
        let paths = &self.services.paths;
        let (index, turns) = tokio::join!(SessionIndex::load(paths), open_turns::open_turns(paths));
        let index = index?;
        let sessions = index.len();
        self.lock().index = index;
        self.load_all(turns.unwrap_or_else(|error| {
            tracing::warn!(%error, "sessions with open turns are set right when they are next used");
            Vec::new()
        }));
        self.opening.open.store(true, Ordering::Release);
        // Those who wait are let in in the order in which they came.
        self.opening.opened.notify_waiters();
        tracing::info!(sessions, elapsed = ?began.elapsed(), "the sessions are listed");
        Ok(())
    }

    /// Whether calls are let in.
    pub fn is_open(&self) -> bool {
        self.opening.open.load(Ordering::Acquire)
    }

    /// Waits until calls are let in.
    pub async fn opened(&self) {
        if self.is_open() {
            return;
        }
        let opened = self.opening.opened.notified();
        tokio::pin!(opened);
        opened.as_mut().enable();
        if !self.is_open() {
            opened.await;
        }
    }
}
