//! A connection: requests matched with their answers by id, notifications in the order they came.
//!
//! One task owns both halves of the stream. A request waits in a bounded queue until it is written; its answer goes
//! to whoever called. Notifications go to one consumer through a bounded queue: while that is full, nothing is read,
//! answers included. So the consumer of [`Notifications`] must not await a call of the same connection unless it
//! goes on consuming meanwhile (or it has dropped its [`Notifications`], which throws them away as they come).

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    process::Child,
    sync::{Notify, mpsc, oneshot, watch},
    task::AbortHandle,
};

use super::ClientError;
use crate::{
    error::RpcError,
    frame::{Line, LineReader, line_of},
    limits,
    rpc::{Initialize, InitializeParams, InitializeResult, Method},
};

/// Requests that wait to be written; a caller beyond that waits.
const OUTBOX_MESSAGES: usize = 64;

/// Notifications that wait for their consumer; beyond that, reading pauses.
const NOTIFICATIONS: usize = 1024;

/// How long a child that served the connection may take to end by itself before it is killed.
const CHILD_GRACE: Duration = Duration::from_secs(5);

/// A handle to a connection; cheap to clone. The connection ends with the last handle, or with [`Client::close`].
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    outbox: mpsc::Sender<Bytes>,
    calls: Arc<Calls>,
    next_id: AtomicU64,
    bound: AtomicUsize,
    closing: Arc<Notify>,
    ended: watch::Receiver<bool>,
    task: AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A notification as it came.
#[derive(Clone, Debug)]
pub struct Notification {
    /// Its method.
    pub method: String,
    /// Its parameters, unparsed; `{}` when it has none.
    pub params: Box<RawValue>,
}

/// The notifications of a connection, for one consumer.
#[derive(Debug)]
pub struct Notifications(mpsc::Receiver<Notification>);

impl Notifications {
    /// The next one; `None` when the connection has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Notification> {
        self.0.recv().await
    }
}

impl Client {
    /// Speaks over the two halves of a stream. Must be called on a tokio runtime.
    pub fn new<R, W>(reader: R, writer: W) -> (Self, Notifications)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        Self::with_child(reader, writer, None)
    }

    /// As [`Client::new`]; the child that is behind the halves is waited for, or killed, when the connection ends.
    pub(super) fn with_child<R, W>(
        reader: R,
        writer: W,
        child: Option<Child>,
    ) -> (Self, Notifications)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (outbox, outgoing) = mpsc::channel(OUTBOX_MESSAGES);
        let (deliver, notifications) = mpsc::channel(NOTIFICATIONS);
        let calls = Arc::new(Calls::default());
        let closing = Arc::new(Notify::new());
        let (ended_tx, ended) = watch::channel(false);
        let task = {
            let (calls, closing) = (calls.clone(), closing.clone());
            tokio::spawn(async move {
                let end = tokio::select! {
                    end = read(reader, &calls, deliver) => end,
                    end = write(writer, outgoing) => end,
                    () = closing.notified() => Ok(()),
                };
                calls.end(end.err());
                if let Some(child) = child {
                    reap(child).await;
                }
                ended_tx.send_replace(true);
            })
        };
        let inner = Inner {
            outbox,
            calls,
            next_id: AtomicU64::new(1),
            bound: AtomicUsize::new(limits::MESSAGE_BYTES_BEFORE_INITIALIZE),
            closing,
            ended,
            task: task.abort_handle(),
        };
        (Self(Arc::new(inner)), Notifications(notifications))
    }

    /// Opens the connection. Until it has succeeded, messages are bound to
    /// [`limits::MESSAGE_BYTES_BEFORE_INITIALIZE`].
    ///
    /// # Errors
    /// As [`Client::call`]; after an error of the daemon's it may be tried again.
    pub async fn initialize(
        &self,
        params: InitializeParams,
    ) -> Result<InitializeResult, ClientError> {
        let result = self.call::<Initialize>(params).await?;
        self.0.bound.store(limits::MESSAGE_BYTES, Ordering::Relaxed);
        Ok(result)
    }

    /// Calls a method and waits for its answer, however long that takes.
    ///
    /// # Errors
    /// [`ClientError::Rpc`] when the daemon says no, [`ClientError::TooLarge`] before anything is sent,
    /// [`ClientError::Closed`] and [`ClientError::Io`] when the connection ends first: then the call may or may not
    /// have had its effect.
    ///
    /// # Cancel safety
    /// Dropping the future drops the answer, not the effect.
    pub async fn call<M: Method>(&self, params: M::Params) -> Result<M::Result, ClientError> {
        let answer = self.exchange(M::NAME, &params).await?;
        serde_json::from_str(answer.get()).map_err(|source| ClientError::Decode {
            what: format!("answer to {}", M::NAME),
            source: Arc::new(source),
        })
    }

    /// Calls a method by name; absent parameters are sent as `{}`.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn call_raw(
        &self,
        method: &str,
        params: Option<Value>,
    ) -> Result<Value, ClientError> {
        let params = params.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        let answer = self.exchange(method, &params).await?;
        serde_json::from_str(answer.get()).map_err(|source| ClientError::Decode {
            what: format!("answer to {method}"),
            source: Arc::new(source),
        })
    }

    /// Ends the connection and waits until its task, and a child behind it, are gone.
    pub async fn close(&self) {
        self.0.closing.notify_one();
        let mut ended = self.0.ended.clone();
        // An error means that the task is gone without a word, which is an end too.
        if ended.wait_for(|ended| *ended).await.is_err() {
            tracing::debug!("the connection's task was gone already");
        }
    }

    async fn exchange<P: Serialize>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<Box<RawValue>, ClientError> {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let request = Request {
            jsonrpc: "2.0",
            id,
            method,
            params,
        };
        let message = serde_json::to_vec(&request).map_err(|source| ClientError::Encode {
            method: method.to_owned(),
            source: Arc::new(source),
        })?;
        let bound = self.0.bound.load(Ordering::Relaxed);
        if message.len() > bound {
            return Err(ClientError::TooLarge {
                bytes: message.len(),
                bound,
            });
        }
        let (place, answer) = self.0.calls.open(id)?;
        let ended = |_| self.0.calls.reason();
        self.0
            .outbox
            .send(line_of(&message))
            .await
            .map_err(|_| self.0.calls.reason())?;
        let answer = answer.await.map_err(ended)?;
        drop(place);
        Ok(answer?)
    }
}

#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a P,
}

/// Whatever the daemon may send, told apart by which fields are there.
#[derive(Deserialize)]
struct Incoming {
    #[serde(default)]
    id: Value,
    method: Option<String>,
    params: Option<Box<RawValue>>,
    result: Option<Box<RawValue>>,
    error: Option<RpcError>,
}

type Answer = Result<Box<RawValue>, RpcError>;

/// The calls that wait for their answers, until the connection ends.
#[derive(Debug, Default)]
struct Calls(Mutex<Table>);

#[derive(Debug)]
enum Table {
    Open(HashMap<u64, oneshot::Sender<Answer>>),
    Ended(Option<Arc<io::Error>>),
}

impl Default for Table {
    fn default() -> Self {
        Self::Open(HashMap::new())
    }
}

/// A call's place in the table, given up when the caller goes away.
struct Place<'a> {
    calls: &'a Calls,
    id: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Table::Open(waiting) = &mut *self.calls.lock() {
            waiting.remove(&self.id);
        }
    }
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, id: u64) -> Result<(Place<'_>, oneshot::Receiver<Answer>), ClientError> {
        let (tx, rx) = oneshot::channel();
        match &mut *self.lock() {
            Table::Open(waiting) => waiting.insert(id, tx),
            Table::Ended(error) => return Err(reason_of(error.as_ref())),
        };
        Ok((Place { calls: self, id }, rx))
    }

    fn take(&self, id: u64) -> Option<oneshot::Sender<Answer>> {
        match &mut *self.lock() {
            Table::Open(waiting) => waiting.remove(&id),
            Table::Ended(_) => None,
        }
    }

    /// Lets every caller know: their senders are dropped.
    fn end(&self, error: Option<io::Error>) {
        *self.lock() = Table::Ended(error.map(Arc::new));
    }

    fn reason(&self) -> ClientError {
        match &*self.lock() {
            Table::Open(_) => ClientError::Closed,
            Table::Ended(error) => reason_of(error.as_ref()),
        }
    }
}

fn reason_of(error: Option<&Arc<io::Error>>) -> ClientError {
    error.map_or(ClientError::Closed, |error| ClientError::Io(error.clone()))
}

async fn read<R: AsyncRead + Unpin>(
    reader: R,
    calls: &Calls,
    deliver: mpsc::Sender<Notification>,
) -> io::Result<()> {
    let mut lines = LineReader::new(reader, limits::MESSAGE_BYTES);
    while let Some(line) = lines.next().await? {
        let message = match line {
            Line::Message(message) => message,
            // The daemon promises never to do so; the call it may belong to would wait for ever.
            Line::TooLong(_) => return Err(io::Error::other("a message is over the bound")),
        };
        let incoming: Incoming = match serde_json::from_slice(&message) {
            Ok(incoming) => incoming,
            Err(error) => {
                tracing::warn!(%error, "a line that is no message was skipped");
                continue;
            }
        };
        if let Some(method) = incoming.method {
            let params = incoming.params.unwrap_or_else(empty_object);
            // Nobody listens any more: calls go on, notifications are thrown away.
            if deliver.send(Notification { method, params }).await.is_err() {
                tracing::trace!("a notification has no consumer");
            }
        } else {
            answer(calls, incoming);
        }
    }
    Ok(())
}

fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn answer(calls: &Calls, incoming: Incoming) {
    let caller = incoming.id.as_u64().and_then(|id| calls.take(id));
    let Some(caller) = caller else {
        match incoming.error {
            Some(error) => {
                tracing::warn!(%error, id = %incoming.id, "an error that no call asked for")
            }
            None => tracing::debug!(id = %incoming.id, "an answer whose caller is gone"),
        }
        return;
    };
    let answer = match incoming.error {
        Some(error) => Err(error),
        None => Ok(incoming.result.unwrap_or_else(|| RawValue::NULL.to_owned())),
    };
    if caller.send(answer).is_err() {
        tracing::debug!(id = %incoming.id, "the caller went away while its answer came");
    }
}

async fn write<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut outgoing: mpsc::Receiver<Bytes>,
) -> io::Result<()> {
    while let Some(line) = outgoing.recv().await {
        writer.write_all(&line).await?;
        if outgoing.is_empty() {
            writer.flush().await?;
        }
    }
    Ok(())
}

async fn reap(mut child: Child) {
    if let Ok(Ok(status)) = tokio::time::timeout(CHILD_GRACE, child.wait()).await {
        tracing::debug!(%status, "the child behind the connection ended");
    } else if let Err(error) = child.kill().await {
        tracing::warn!(%error, "the child behind the connection cannot be killed");
    }
}

#[cfg(test)]
mod tests;
