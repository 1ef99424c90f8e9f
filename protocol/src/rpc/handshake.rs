//! `initialize`: who calls, and in which version of the protocol.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{client_ref::Role, ids::ConnectionId, time::Timestamp};

/// Parameters of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The versions the client speaks.
    pub protocol: ProtocolRange,
    /// Who calls.
    pub client: ClientInfo,
    /// What it wants to do; a controller unless it says otherwise.
    #[serde(default)]
    pub role: Role,
    /// The client's process environment, for the sessions that it creates. Kept in memory, never on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
}

/// A range of protocol versions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProtocolRange {
    /// Lowest.
    pub min: u32,
    /// Highest.
    pub max: u32,
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientInfo {
    /// The program's name.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// A process environment. Its `Debug` shows names only: values may be secrets.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Environment(pub BTreeMap<String, String>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Environment {
    /// This process's own environment; variables that are not UTF-8 are left out.
    pub fn of_this_process() -> Self {
        Self(
            std::env::vars_os()
                .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
                .collect(),
        )
    }
}

/// Result of `initialize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The version both speak from here on.
    pub protocol: u32,
    /// Who answers.
    pub server: ServerInfo,
    /// The data directory.
    pub home: String,
    /// This connection's id.
    pub connection: ConnectionId,
    /// The bounds in force.
    pub limits: WireLimits,
    /// What this daemon can do.
    pub capabilities: Capabilities,
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    /// `crystald`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its build: version, and the source revision where it is known.
    pub build: String,
    /// Its process.
    pub pid: u32,
    /// When it started.
    pub started_at: Timestamp,
}

/// The bounds of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WireLimits {
    /// Longest message, in bytes.
    pub message_bytes: u64,
    /// Largest image, in bytes.
    pub image_bytes: u64,
    /// Background tasks active in one session.
    pub active_tasks: u64,
    /// Requests in flight on one connection.
    pub requests_in_flight: u64,
    /// Retained events of a session, in bytes.
    pub event_window_bytes: u64,
}

impl Default for WireLimits {
    fn default() -> Self {
        use crate::limits;
        Self {
            message_bytes: limits::MESSAGE_BYTES as u64,
            image_bytes: limits::IMAGE_BYTES as u64,
            active_tasks: limits::ACTIVE_TASKS as u64,
            requests_in_flight: limits::REQUESTS_IN_FLIGHT as u64,
            event_window_bytes: limits::EVENT_WINDOW_BYTES as u64,
        }
    }
}

/// What a daemon can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// It serves stdio.
    pub stdio: bool,
    /// It serves WebSocket.
    pub websocket: bool,
    /// How it can confine programs.
    pub sandbox: SandboxCapability,
}

/// How a daemon can confine programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxCapability {
    /// `none`, `landlock` or `seatbelt`.
    pub kind: String,
    /// The kernel's Landlock ABI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landlock_abi: Option<u32>,
    /// Whether it can hold programs off the network.
    pub net: bool,
}
