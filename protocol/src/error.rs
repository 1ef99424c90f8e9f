//! Errors on the wire: the only place with numbers. Source: protocol/README.md, "Errors".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What kind of error it is. Each has one JSON-RPC code; `data.kind` carries the name for the codes of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ErrorKind {
    /// The text is not JSON.
    ParseError,
    /// It is JSON, but no request.
    InvalidRequest,
    /// No method of that name.
    MethodNotFound,
    /// A parameter is missing or of the wrong type.
    InvalidParams,
    /// A fault of the daemon's own.
    InternalError,
    /// `initialize` has not succeeded on this connection.
    NotInitialized,
    /// The ranges of protocol versions do not meet.
    UnsupportedProtocol,
    /// No session of that id.
    SessionNotFound,
    /// The prefix fits more than one session.
    SessionAmbiguous,
    /// The session is busy.
    SessionBusy,
    /// Somebody answered first.
    AlreadyResolved,
    /// No such thing; `data.what` names the kind of thing.
    NotFound,
    /// Larger than the bound.
    TooLarge,
    /// A limit is reached; `data.limit` names it.
    LimitReached,
    /// Not allowed, or not to be had; `data.why` says which.
    Refused,
    /// The workspace is not trusted; `data.root` is the directory to trust.
    WorkspaceNotTrusted,
    /// The model provider failed; `data.cause` says how.
    Provider,
    /// The disk failed.
    Storage,
    /// The daemon is going down.
    ShuttingDown,
    /// Too much at once; try again.
    Overloaded,
}

impl ErrorKind {
    /// All kinds, in the order of the table in protocol/README.md.
    pub const ALL: &[Self] = &[
        Self::ParseError,
        Self::InvalidRequest,
        Self::MethodNotFound,
        Self::InvalidParams,
        Self::InternalError,
        Self::NotInitialized,
        Self::UnsupportedProtocol,
        Self::SessionNotFound,
        Self::SessionAmbiguous,
        Self::SessionBusy,
        Self::AlreadyResolved,
        Self::NotFound,
        Self::TooLarge,
        Self::LimitReached,
        Self::Refused,
        Self::WorkspaceNotTrusted,
        Self::Provider,
        Self::Storage,
        Self::ShuttingDown,
        Self::Overloaded,
    ];

    /// The JSON-RPC code.
    pub const fn code(self) -> i32 {
        match self {
            Self::ParseError => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::InternalError => -32603,
            Self::NotInitialized => -32000,
            Self::UnsupportedProtocol => -32001,
            Self::SessionNotFound | Self::SessionAmbiguous => -32002,
            Self::SessionBusy => -32003,
            Self::AlreadyResolved => -32005,
            Self::NotFound => -32006,
            Self::TooLarge => -32007,
            Self::LimitReached => -32008,
            Self::Refused => -32009,
            Self::WorkspaceNotTrusted => -32010,
            Self::Provider => -32011,
            Self::Storage => -32012,
            Self::ShuttingDown => -32013,
            Self::Overloaded => -32014,
        }
    }
}

/// An error as it travels: `{code, message, data: {kind, ...}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// The JSON-RPC code.
    pub code: i32,
    /// An English sentence that says what to do.
    pub message: String,
    /// `kind` and what else the kind brings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// An error of a kind, its name in `data.kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let mut data = Map::new();
        data.insert(
            "kind".to_owned(),
            serde_json::to_value(kind).unwrap_or(Value::Null),
        );
        Self {
            code: kind.code(),
            message: message.into(),
            data: Some(Value::Object(data)),
        }
    }

    /// Adds a field to `data`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        match &mut self.data {
            Some(Value::Object(map)) => {
                map.insert(key.to_owned(), value.into());
            }
            data => {
                let mut map = Map::new();
                map.insert(key.to_owned(), value.into());
                *data = Some(Value::Object(map));
            }
        }
        self
    }

    /// The kind that `data.kind` names, where this version knows it.
    pub fn kind(&self) -> Option<ErrorKind> {
        self.data
            .as_ref()
            .and_then(|data| data.get("kind"))
            .and_then(|kind| ErrorKind::deserialize(kind).ok())
            .or_else(|| {
                ErrorKind::ALL
                    .iter()
                    .copied()
                    .find(|kind| kind.code() == self.code)
            })
    }

    /// `invalidParams` with a message that names the field.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidParams, message)
    }

    /// `refused` with its reason.
    pub fn refused(why: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message).with("why", why)
    }

    /// `notFound` with the kind of thing that was looked for.
    pub fn not_found(what: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message).with("what", what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_again_by_the_name_in_data() {
        for kind in ErrorKind::ALL {
            assert_eq!(RpcError::new(*kind, "x").kind(), Some(*kind));
        }
    }
}
