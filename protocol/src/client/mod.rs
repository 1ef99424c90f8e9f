//! The typed client: calls by method type, events in order, and a daemon found or started when it is needed.
//!
//! - [`connection`]: [`Client`] over any byte stream, and its [`Notifications`];
//! - [`connect`]: from a home to an initialized [`Connection`], over the local socket or a child's stdio;
//! - [`spawn`]: how an absent daemon is started;
//! - [`events`]: [`SessionStream`], which re-attaches by itself when a connection is lost.
//!
//! One task a connection reads and writes; it ends with the last handle. What a consumer does not take pauses
//! reading, so nothing is dropped and nothing grows. There is no time limit on calls: waiting calls may take hours.

pub mod connect;
pub mod connection;
pub mod events;
pub mod spawn;

use std::{io, path::PathBuf, sync::Arc};

pub use connect::{ConnectOptions, Connection, StartPolicy};
pub use connection::{Client, Notification, Notifications};
pub use events::{LocalReconnect, NoReconnect, RawUpdate, Reconnect, SessionStream, Update};

use crate::error::RpcError;

/// Why a call, or a connection, did not come to a good end.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// The daemon answered with an error; its message says what to do.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The connection ended, here or there, before the answer came.
    #[error("the connection to the daemon ended before the answer came")]
    Closed,
    /// The connection failed.
    #[error("the connection to the daemon failed: {0}")]
    Io(Arc<io::Error>),
    /// The message was not sent: it is longer than the daemon takes.
    #[error("the message has {bytes} bytes; at most {bound} can be sent")]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
        /// The bound in force, in bytes.
        bound: usize,
    },
    /// The parameters could not be written as JSON; nothing was sent.
    #[error("the parameters of {method} cannot be written as JSON: {source}")]
    Encode {
        /// The method.
        method: String,
        /// Why.
        source: Arc<serde_json::Error>,
    },
    /// What the daemon sent does not have the form that this version knows.
    #[error("the daemon's {what} cannot be read: {source}")]
    Decode {
        /// The method, or the notification.
        what: String,
        /// Why.
        source: Arc<serde_json::Error>,
    },
    /// No daemon runs on this home, and none was to be started.
    #[error("no daemon runs on {home}")]
    NotRunning {
        /// The home.
        home: PathBuf,
    },
    /// The daemon could not be started, or did not answer; the text says what to do.
    #[error("{0}")]
    Start(String),
    /// The connection was lost and could not be had again in time.
    #[error("the connection to the daemon was lost and did not come back: {0}")]
    Lost(Box<ClientError>),
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl ClientError {
    /// The daemon's own error, where it is one.
    pub fn rpc(&self) -> Option<&RpcError> {
        match self {
            Self::Rpc(error) => Some(error),
            _ => None,
        }
    }

    /// Whether it was the connection that ended, so that another one may do better.
    pub fn is_disconnect(&self) -> bool {
        matches!(self, Self::Closed | Self::Io(_))
    }
}
