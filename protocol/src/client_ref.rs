//! Who did something: a client, as sessions and their items name it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::ConnectionId;

/// What a connection may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// Everything.
    #[default]
    Controller,
    /// Look, and nothing else.
    Observer,
}

/// A client that is, or was, attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientRef {
    /// Its connection.
    pub connection: ConnectionId,
    /// Its name, as it gave it in `initialize`.
    pub name: String,
    /// What it may do.
    pub role: Role,
}
