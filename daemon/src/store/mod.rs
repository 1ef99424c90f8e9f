//! Session files: an append-only log with every durable fact, and a head that is what folding the log gives.
//!
//! `sessions/<id>.log` holds one record a line, each with a checksum, and is never rewritten. `sessions/<id>.json`, the
//! [`head`], is the fold of the log up to a mark: loading reads the head and the log after the mark. A head that cannot
//! be read is rebuilt from the log.

pub mod head;
pub mod record;
