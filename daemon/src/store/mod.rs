//! Session files: an append-only log with every durable fact, and a head that is what folding the log gives.
//!
//! `sessions/<id>.log` holds one record a line, each with a checksum, and is never rewritten. `sessions/<id>.json`, the
//! [`head`], is the fold of the log up to a mark: [`load`] reads the head and the log after the mark. A head that cannot
//! be read is rebuilt from the log. One [`log::SessionLog`] a session writes; [`items`] reads finished items back without
//! reading the rest. [`index`] lists all sessions; [`open_turns`] names those that a crash may have caught in a turn.

pub mod error;
pub mod head;
pub mod head_file;
pub mod index;
pub mod items;
pub mod line;
pub mod load;
pub mod log;
pub mod open_turns;
mod positioned;
pub mod record;
pub mod remove;
#[cfg(test)]
mod samples;
