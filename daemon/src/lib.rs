//! `crystald`: the daemon that holds coding-agent sessions, and lets any number of clients work on one at once.
//!
//! Layers, each of which may use only what stands above it in this list:
//!
//! 1. [`stdx`], [`limits`], [`terms`], [`home`]: what could be in std; the numbers; shared words; every path under the home.
//! 2. [`config`]: configuration, credentials, the model catalog, workspace trust.
//! 3. [`providers`], [`store`], [`prompts`]: model wires; session files; system text. They do not know each other.
//! 4. [`tools`]: what a model may call.
//! 5. [`approvals`]: whether it may. Of tools it knows no more than what a call would do, [`tools::Effects`].
//! 6. [`engine`]: one actor a session, the turn loop.
//! 7. [`hub`]: the live sessions by id, and the list of all.
//! 8. [`rpc`]: the method table.
//! 9. [`transport`]: sockets, framing, connections.
//! 10. [`lifecycle`], [`wiring`]: start and end.

pub mod approvals;
pub mod config;
pub mod engine;
pub mod home;
pub mod hub;
pub mod lifecycle;
pub mod limits;
pub mod prompts;
pub mod providers;
pub mod rpc;
pub mod stdx;
pub mod store;
pub mod terms;
pub mod tools;
pub mod transport;
pub mod wiring;
