//! Support for the end-to-end tests: the real binaries on a private home, a raw client, a mock model server.
//!
//! Nothing here links the daemon or the product's own client, so that a fault there cannot hide itself. The types of
//! `crystal_protocol` are used for one thing only: folding events over a snapshot. A test waits for an event, never
//! for time to pass; the few sleeps here are the bounded polls for a process that has no way to tell us.
// Support code fails a test by panicking, as the tests themselves do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod attaching;
pub mod client;
pub mod ctl;
pub mod daemon;
pub mod driving;
pub mod home;
pub mod model_server;
pub mod raw;
pub mod watched;
pub mod workspace;

use std::{future::Future, pin::pin, time::Duration};

/// Longest a test may take unless it says otherwise.
pub const TEST_LIMIT: Duration = Duration::from_secs(60);

/// Longest a test waits for one thing to happen.
pub const WAIT_LIMIT: Duration = Duration::from_secs(20);

/// Runs one test to its end, at most [`TEST_LIMIT`].
///
/// # Panics
/// When the test does, or when it takes too long.
pub fn run_test(test: impl Future<Output = ()>) {
    run_test_within(TEST_LIMIT, test);
}

/// Runs one test to its end, at most `limit`.
///
/// # Panics
/// When the test does, or when it takes too long.
pub fn run_test_within(limit: Duration, test: impl Future<Output = ()>) {
    let runtime = Detached(Some(
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be built"),
    ));
    let Some(inner) = &runtime.0 else { return };
    inner.block_on(async {
        // The panic happens while the test is still alive, so that what it holds can print what it knows.
        let mut test = pin!(test);
        tokio::select! {
            () = &mut test => {}
            () = tokio::time::sleep(limit) => panic!("the test did not end within {limit:?}"),
        }
    });
}

/// A runtime that is left without waiting: a blocking open of a named pipe may never return.
struct Detached(Option<tokio::runtime::Runtime>);

impl Drop for Detached {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
