//! `daemon/*`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Result of `daemon/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonStatusResult {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Its build.
    pub build: String,
    /// How long it runs, in milliseconds.
    pub uptime_ms: u64,
    /// Its data directory.
    pub home: String,
    /// Loaded sessions.
    pub sessions: u64,
    /// Connections.
    pub clients: u64,
    /// Running background tasks.
    pub tasks: u64,
    /// Resident memory, in bytes; 0 where the platform does not tell.
    pub resident_bytes: u64,
}

/// Parameters of `daemon/shutdown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonShutdownParams {
    /// In what way.
    pub mode: ShutdownMode,
}

/// Ways to end the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ShutdownMode {
    /// Interrupts turns, stops tasks, saves.
    Graceful,
    /// Only when no turn, task, open prompt or other connection is alive.
    IfIdle,
    /// At once; what is acknowledged is on disk all the same.
    Now,
}
