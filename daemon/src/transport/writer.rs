//! The writing half of a connection: answers in order, then the events of the sessions it follows, from their cursors.

use std::{io, pin::Pin, sync::Arc, task::Poll};

use bytes::{Bytes, BytesMut};
use crystal_protocol::{
    event::{Resync, SESSION_RESYNC},
    frame::line_of,
    ids::SessionId,
    limits::MESSAGE_BYTES,
    rpc::ShutdownMode,
};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use serde::Serialize;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::{broadcast, mpsc},
};

use super::outbox::Answer;
use crate::{
    engine::{
        command::{Attach, Attached, Command},
        event_log::{Merge, Read},
    },
    hub::Hub,
    rpc::{Connection, Following, Generation, Phase, Then},
};

/// Bytes gathered for one write.
const WRITE_BYTES: usize = 64 * 1024;

/// A buffer that a large answer made larger than this is not kept.
const KEPT_BUFFER_BYTES: usize = 256 * 1024;

#[derive(Serialize)]
struct Notification<'a> {
    jsonrpc: &'static str,
    method: &'static str,
    params: &'a Resync,
}

/// The writing half.
pub(super) struct Writer<W> {
    stream: W,
    hub: Arc<Hub>,
    connection: Arc<Connection>,
    answers: mpsc::Receiver<Answer>,
    daemon_events: Option<broadcast::Receiver<Bytes>>,
    resyncs: FuturesUnordered<Pin<Box<dyn Future<Output = Fresh> + Send>>>,
    /// The last write had to wait for the client.
    behind: bool,
    shutdown: mpsc::Sender<ShutdownMode>,
}

/// A snapshot for a client that fell out of the window.
struct Fresh {
    session: SessionId,
    generation: Generation,
    items: usize,
    attached: Option<Attached>,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(super) fn new(
        stream: W,
        hub: Arc<Hub>,
        connection: Arc<Connection>,
        answers: mpsc::Receiver<Answer>,
        shutdown: mpsc::Sender<ShutdownMode>,
    ) -> Self {
        Self {
            stream,
            hub,
            connection,
            answers,
            daemon_events: None,
            resyncs: FuturesUnordered::new(),
            behind: false,
            shutdown,
        }
    }

    /// Writes until the reading half is gone and its answers are out.
    ///
    /// # Errors
    /// When the client is gone.
    pub(super) async fn run(mut self) -> io::Result<()> {
        let mut buffer = BytesMut::with_capacity(WRITE_BYTES);
        let wake = self.connection.wake.clone();
        loop {
            self.gather_answers(&mut buffer).await;
            let news = self.gather_events(&mut buffer);
            // A session that floods must not keep another's fresh start waiting.
            while let Some(Some(fresh)) = self.resyncs.next().now_or_never() {
                self.start_afresh(fresh, &mut buffer);
            }
            if !buffer.is_empty() {
                let waited = write_all(&mut self.stream, &buffer).await?;
                self.behind = waited || (self.behind && news);
                buffer.clear();
                if buffer.capacity() > KEPT_BUFFER_BYTES {
                    buffer = BytesMut::with_capacity(WRITE_BYTES);
                }
                continue;
            }
            self.behind = false;
            tokio::select! {
                answer = self.answers.recv() => match answer {
                    Some(answer) => self.take(answer, &mut buffer).await,
                    None => return self.stream.shutdown().await,
                },
                () = wake.notified() => {}
                event = next_event(&mut self.daemon_events) => buffer.extend_from_slice(&event),
                Some(fresh) = self.resyncs.next(), if !self.resyncs.is_empty() => self.start_afresh(fresh, &mut buffer),
            }
        }
    }

    async fn gather_answers(&mut self, buffer: &mut BytesMut) {
        while buffer.len() < WRITE_BYTES
            && let Ok(answer) = self.answers.try_recv()
        {
            self.take(answer, buffer).await;
        }
    }

    async fn take(&mut self, answer: Answer, buffer: &mut BytesMut) {
        if let Some(line) = &answer.line {
            buffer.extend_from_slice(line);
        }
        for then in answer.then {
            match then {
                Then::Follow(session, generation, following) => {
                    self.connection.follow(&session, generation, following);
                }
                Then::Subscribe => {
                    self.daemon_events
                        .get_or_insert_with(|| self.hub.subscribe());
                }
                Then::Unsubscribe => self.daemon_events = None,
                Then::ShutDown(mode) => {
                    // The caller hears the answer before the daemon goes.
                    drop(write_all(&mut self.stream, &buffer.split()).await);
                    if self.shutdown.send(mode).await.is_err() {
                        tracing::debug!("the daemon is going down already");
                    }
                }
            }
        }
    }

    /// Gathers events of the followed sessions; true when there were any.
    fn gather_events(&mut self, buffer: &mut BytesMut) -> bool {
        let merge = if self.behind {
            Merge::Adjacent
        } else {
            Merge::Never
        };
        let mut fallen = Vec::new();
        let mut ended = Vec::new();
        let before = buffer.len();
        self.connection
            .each_followed(|session, generation, following| {
                let Some(follow) = following else { return };
                match follow.events.read(follow.cursor, WRITE_BYTES, merge) {
                    Read::Lines(lines, last) => {
                        follow.cursor = last;
                        for line in lines {
                            buffer.extend_from_slice(&line);
                        }
                    }
                    Read::UpToDate if follow.events.is_finished() => {
                        ended.push((session.clone(), generation));
                    }
                    Read::UpToDate => {}
                    Read::FellOut => {
                        let items = follow.items;
                        // Nothing is sent until the snapshot is there.
                        *following = None;
                        fallen.push((session.clone(), generation, items));
                    }
                }
            });
        for (session, generation) in ended {
            self.connection.end_following(&session, Some(generation));
        }
        for (session, generation, items) in fallen {
            self.ask_afresh(session, generation, items);
        }
        buffer.len() > before
    }

    /// Attaches anew for a client that fell behind. It may be the session's next life that answers, which then counts the
    /// client among its own.
    fn ask_afresh(&mut self, session: SessionId, generation: Generation, items: usize) {
        let Phase::Ready(peer) = self.connection.phase() else {
            return;
        };
        let wake = self.connection.wake.clone();
        let answer = self.hub.call(&session, |reply| {
            Command::Attach(Attach {
                client: peer.into(),
                after: None,
                items,
                wake,
                reply,
            })
        });
        self.resyncs.push(Box::pin(async move {
            let attached = answer.await.inspect_err(|error| {
                tracing::warn!(%session, %error, "a client that fell behind gets no snapshot");
            });
            Fresh {
                session,
                generation,
                items,
                attached: attached.ok(),
            }
        }));
    }

    fn start_afresh(&mut self, fresh: Fresh, buffer: &mut BytesMut) {
        let Fresh {
            session,
            generation,
            items,
            attached,
        } = fresh;
        if !self.connection.is_following(&session, generation) {
            // The client detached, or attached anew, while the snapshot was made.
            if !self.connection.is_attached(&session) {
                self.hub.detach(&session, &self.connection.id);
            }
            return;
        }
        let Some((attached, snapshot)) = attached.and_then(|mut attached| {
            let snapshot = attached.snapshot.take()?;
            Some((attached, snapshot))
        }) else {
            self.connection.end_following(&session, Some(generation));
            return;
        };
        let following = Following {
            events: attached.events,
            cursor: attached.seq,
            items,
        };
        self.connection.follow(&session, generation, following);
        let mut params = Resync {
            session,
            seq: attached.seq,
            reason: "The client was too far behind: the events it missed are no longer kept."
                .to_owned(),
            snapshot,
        };
        let mut line = resync_line(&params);
        if line.len() > MESSAGE_BYTES {
            // Items can be paged to; what else there is must come whole.
            params.snapshot.items.clear();
            params.snapshot.has_more = true;
            line = resync_line(&params);
        }
        buffer.extend_from_slice(&line);
    }
}

fn resync_line(params: &Resync) -> Bytes {
    let notification = Notification {
        jsonrpc: "2.0",
        method: SESSION_RESYNC,
        params,
    };
    serde_json::to_vec(&notification).map_or_else(
        |error| {
            tracing::error!(%error, "a snapshot could not be serialised");
            Bytes::new()
        },
        |json| line_of(&json),
    )
}

async fn next_event(events: &mut Option<broadcast::Receiver<Bytes>>) -> Bytes {
    loop {
        let Some(receiver) = events else {
            return std::future::pending().await;
        };
        match receiver.recv().await {
            Ok(event) => return event,
            // It lists again when it sees the next one.
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => *events = None,
        }
    }
}

/// Writes all of it; true when the client kept us waiting.
async fn write_all<W: AsyncWrite + Unpin>(stream: &mut W, buffer: &[u8]) -> io::Result<bool> {
    let mut written = 0;
    let mut waited = false;
    while let Some(rest) = buffer.get(written..).filter(|rest| !rest.is_empty()) {
        let count = std::future::poll_fn(|cx| match Pin::new(&mut *stream).poll_write(cx, rest) {
            Poll::Pending => {
                waited = true;
                Poll::Pending
            }
            ready => ready,
        })
        .await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        written += count;
    }
    stream.flush().await?;
    Ok(waited)
}
