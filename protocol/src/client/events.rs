//! A session's events as one stream that outlives the connection.
//!
//! When the connection is lost, the stream asks its [`Reconnect`] for another one and attaches after the last event
//! it has seen: what was missed follows, or a snapshot stands for it. One stream has a connection to itself, since
//! whatever is not taken from it pauses the whole connection.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{
    Client, ClientError, ConnectOptions, Connection, Notification, StartPolicy,
    connect::{connect_local, connect_or_start, is_absent},
};
use crate::{
    error::ErrorKind,
    event::{Resync, SESSION_EVENT, SESSION_RESYNC, SessionEvent},
    home::Home,
    ids::{Seq, SessionId},
    rpc::{SessionAttach, SessionAttachParams, SessionAttachResult},
    session::{SessionInfo, Snapshot},
};

/// How long a lost connection is tried to be had again.
const RECONNECT_WITHIN: Duration = Duration::from_secs(30);

/// First wait between two attempts; it doubles up to [`LONGEST_WAIT`].
const SHORTEST_WAIT: Duration = Duration::from_millis(20);

/// Longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Where a stream gets another connection from.
pub trait Reconnect: Send {
    /// One attempt. Its failures are tried again as long as [`is_worth_another_try`] says so.
    fn reconnect(&mut self) -> BoxFuture<'_, Result<Connection, ClientError>>;
}

/// Reconnects to the home's daemon. One that has crashed is started again; one that was stopped is waited for, not
/// started: whoever stopped it meant it. The socket tells the two apart, since only a clean end removes it.
#[derive(Clone, Debug)]
pub struct LocalReconnect {
    /// The home.
    pub home: Home,
    /// Who connects; `start` says whether a crashed daemon may be started.
    pub options: ConnectOptions,
}

impl Reconnect for LocalReconnect {
    fn reconnect(&mut self) -> BoxFuture<'_, Result<Connection, ClientError>> {
        Box::pin(async move {
            match connect_local(&self.home).await {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    Err(ClientError::NotRunning {
                        home: self.home.path().to_owned(),
                    })
                }
                Err(error) if is_absent(&error) => {
                    connect_or_start(&self.home, &self.options).await
                }
                Err(error) => Err(error.into()),
                Ok(_) => {
                    let options = ConnectOptions {
                        start: StartPolicy::Never,
                        ..self.options.clone()
                    };
                    connect_or_start(&self.home, &options).await
                }
            }
        })
    }
}

/// Gives up at once, for connections that cannot be had twice.
#[derive(Clone, Copy, Debug)]
pub struct NoReconnect;

impl Reconnect for NoReconnect {
    fn reconnect(&mut self) -> BoxFuture<'_, Result<Connection, ClientError>> {
        Box::pin(std::future::ready(Err(ClientError::Start(
            "this connection cannot be made again".to_owned(),
        ))))
    }
}

/// What happens on a stream.
#[derive(Clone, Debug)]
pub enum Update {
    /// The state at `seq`, to begin from.
    Snapshot(Box<Snapshot>, Seq),
    /// The next event.
    Event(Box<SessionEvent>),
    /// The client was too far behind; its state is to be replaced.
    Resync(Resync),
    /// The connection was lost; the next call tries to have it back.
    Disconnected,
    /// The connection is back. Without a snapshot the missed events follow.
    Reattached {
        /// The state to replace one's own with, when the missed events are no longer there.
        snapshot: Option<Box<Snapshot>>,
        /// The head of the session's log.
        seq: Seq,
    },
}

/// As [`Update`], with events as they came, so that those of a later version pass through unchanged.
#[derive(Clone, Debug)]
pub enum RawUpdate {
    /// See [`Update::Snapshot`].
    Snapshot(Box<Snapshot>, Seq),
    /// A `session/event` or `session/resync` notification of this session.
    Notification(Notification),
    /// See [`Update::Disconnected`].
    Disconnected,
    /// See [`Update::Reattached`].
    Reattached {
        /// See [`Update::Reattached`].
        snapshot: Option<Box<Snapshot>>,
        /// The head of the session's log.
        seq: Seq,
    },
}

/// A session's events, from an attachment on.
pub struct SessionStream {
    connection: Connection,
    reconnect: Box<dyn Reconnect>,
    info: SessionInfo,
    head: Seq,
    last: Option<Seq>,
    items: Option<u64>,
    first: Option<RawUpdate>,
    lost: bool,
    closed: bool,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    session: SessionId,
    seq: Seq,
    #[serde(borrow)]
    event: Option<EventHead<'a>>,
}

#[derive(Deserialize)]
struct EventHead<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
}

impl SessionStream {
    /// Attaches to a session (an id, or a unique prefix). With `after`, the events after that number follow if they
    /// are still retained; else a snapshot comes first, with its last `items` items.
    ///
    /// # Errors
    /// Those of `session/attach`.
    pub async fn attach(
        connection: Connection,
        reconnect: impl Reconnect + 'static,
        session: SessionId,
        after: Option<Seq>,
        items: Option<u64>,
    ) -> Result<Self, ClientError> {
        let result = attach(&connection.client, session, after, items).await?;
        let first = result
            .snapshot
            .map(|snapshot| RawUpdate::Snapshot(snapshot, result.seq));
        Ok(Self {
            last: if first.is_some() {
                Some(result.seq)
            } else {
                after
            },
            connection,
            reconnect: Box::new(reconnect),
            info: result.session,
            head: result.seq,
            items,
            first,
            lost: false,
            closed: false,
        })
    }

    /// The connection's client, for calls. After [`Update::Reattached`] it is another one.
    pub fn client(&self) -> &Client {
        &self.connection.client
    }

    /// The session as it was when last attached.
    pub fn info(&self) -> &SessionInfo {
        &self.info
    }

    /// The head of the log when last attached: who has seen this number is in sync.
    pub fn head(&self) -> Seq {
        self.head
    }

    /// The number of the last event seen; `None` before the first without a snapshot.
    pub fn last(&self) -> Option<Seq> {
        self.last
    }

    /// The next update, or `None` after `sessionClosed`.
    ///
    /// # Errors
    /// [`ClientError::Lost`] when the connection did not come back, [`ClientError::Rpc`] when the session cannot be
    /// attached again, [`ClientError::Decode`] when a notification has an unknown form; the last may be called again.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Update>, ClientError> {
        Ok(match self.next_raw().await? {
            None => None,
            Some(RawUpdate::Snapshot(snapshot, seq)) => Some(Update::Snapshot(snapshot, seq)),
            Some(RawUpdate::Disconnected) => Some(Update::Disconnected),
            Some(RawUpdate::Reattached { snapshot, seq }) => {
                Some(Update::Reattached { snapshot, seq })
            }
            Some(RawUpdate::Notification(notification)) => {
                Some(if notification.method == SESSION_RESYNC {
                    Update::Resync(decode(&notification)?)
                } else {
                    Update::Event(Box::new(decode(&notification)?))
                })
            }
        })
    }

    /// As [`SessionStream::next`], with notifications as they came.
    ///
    /// # Errors
    /// As [`SessionStream::next`].
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next_raw(&mut self) -> Result<Option<RawUpdate>, ClientError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        while !self.closed {
            if self.lost {
                return self.reattach().await.map(Some);
            }
            let Some(notification) = self.connection.notifications.next().await else {
                self.lost = true;
                return Ok(Some(RawUpdate::Disconnected));
            };
            if notification.method != SESSION_EVENT && notification.method != SESSION_RESYNC {
                continue;
            }
            let envelope: Envelope<'_> = decode(&notification)?;
            if envelope.session != self.info.id {
                continue;
            }
            self.last = Some(envelope.seq);
            self.closed = envelope
                .event
                .is_some_and(|event| event.kind == "sessionClosed");
            return Ok(Some(RawUpdate::Notification(notification)));
        }
        Ok(None)
    }

    async fn reattach(&mut self) -> Result<RawUpdate, ClientError> {
        let deadline = Instant::now() + RECONNECT_WITHIN;
        let mut wait = SHORTEST_WAIT;
        loop {
            match self.try_reattach().await {
                Ok(update) => return Ok(update),
                Err(error) if !is_worth_another_try(&error) => return Err(error),
                Err(error) if Instant::now() + wait > deadline => {
                    return Err(ClientError::Lost(Box::new(error)));
                }
                Err(error) => tracing::debug!(%error, "the connection is not back yet"),
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn try_reattach(&mut self) -> Result<RawUpdate, ClientError> {
        let connection = self.reconnect.reconnect().await?;
        let id = self.info.id.clone();
        let result = attach(&connection.client, id, self.last, self.items).await?;
        // Only now: a future that is dropped before leaves the stream as one whose connection is lost.
        self.connection = connection;
        self.lost = false;
        self.info = result.session;
        self.head = result.seq;
        if result.snapshot.is_some() {
            self.last = Some(result.seq);
        }
        Ok(RawUpdate::Reattached {
            snapshot: result.snapshot,
            seq: result.seq,
        })
    }
}

async fn attach(
    client: &Client,
    session: SessionId,
    after: Option<Seq>,
    items: Option<u64>,
) -> Result<SessionAttachResult, ClientError> {
    let params = SessionAttachParams {
        session,
        after,
        items,
    };
    client.call::<SessionAttach>(params).await
}

/// Whether a failed attempt to reconnect says nothing about the next one.
pub fn is_worth_another_try(error: &ClientError) -> bool {
    match error {
        ClientError::Closed | ClientError::Io(_) | ClientError::NotRunning { .. } => true,
        ClientError::Rpc(error) => matches!(
            error.kind(),
            Some(ErrorKind::ShuttingDown | ErrorKind::Overloaded)
        ),
        _ => false,
    }
}

fn decode<'a, T: Deserialize<'a>>(notification: &'a Notification) -> Result<T, ClientError> {
    let params: &'a RawValue = &notification.params;
    serde_json::from_str(params.get()).map_err(|source| ClientError::Decode {
        what: notification.method.clone(),
        source: Arc::new(source),
    })
}

#[cfg(test)]
mod tests;
