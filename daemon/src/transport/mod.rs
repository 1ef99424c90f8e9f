//! Transports: byte streams in, calls of the method table out, events back. Decides nothing.
//!
//! Each connection has two tasks: [`connection`] reads lines and drives calls, `writer` sends answers and events. The writer follows
//! sessions by cursor; a client that does not read stops its own writer and nothing else.

pub mod connection;
mod dispatch;
mod half;
mod message;
mod outbox;
mod peer;
pub mod socket;
pub mod stdio;
mod writer;

pub use peer::is_same_user;
