//! The Crystal protocol, version 1: JSON-RPC 2.0, one message a line, over a local socket or stdio.
//!
//! A client connects, sends [`rpc::Initialize`], attaches to sessions and folds their events over a snapshot with
//! [`session::Snapshot::apply`]. In reading order:
//!
//! - [`ids`], [`time`], [`limits`], [`version`], [`error`]: the small words;
//! - [`client_ref`], [`span`], [`item`], [`turn`], [`approval`], [`question`], [`task`], [`session`]: the nouns;
//! - [`event`], [`view`]: what happens, and how it folds into a snapshot;
//! - [`rpc`]: the methods, each once;
//! - [`home`], [`frame`]: where the socket is and how lines travel on it;
//! - [`client`]: a typed client that finds or starts the daemon and re-attaches by itself.
#![warn(missing_docs)]

pub mod approval;
pub mod client;
pub mod client_ref;
pub mod error;
pub mod event;
pub mod frame;
pub mod home;
pub mod ids;
pub mod item;
pub mod limits;
pub mod question;
pub mod rpc;
pub mod session;
pub mod span;
pub mod task;
pub mod time;
pub mod turn;
pub mod version;
pub mod view;
