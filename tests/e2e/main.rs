//! End-to-end tests of the real binaries over the real socket, one module a chapter.
// Helpers of tests fail a test by panicking, as the tests themselves do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod approvals;
mod attach;
mod bash;
mod compaction;
mod ctl;
mod ctl_run;
mod daemon;
mod examples;
mod openai;
mod openai_failures;
mod protocol;
mod queue;
mod recordings;
mod recovery;
mod refusals;
mod sessions;
mod slow_readers;
mod tools;
mod transcript;
mod trust;
mod turns;
