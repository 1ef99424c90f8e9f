//! One connection, whatever carries it: reads lines, drives calls, ends with its client.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
};

use crystal_protocol::{
    frame::{Budget, Line, LineReader},
    limits::{MESSAGE_BYTES_BEFORE_INITIALIZE, REQUESTS_IN_FLIGHT},
    rpc::ShutdownMode,
};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use super::{
    dispatch::{self, Reply},
    outbox::Outbox,
    writer::Writer,
};
use crate::{
    hub::Hub,
    rpc::{Connection, Phase, Table},
};

/// What all connections share.
#[derive(Clone)]
pub struct Shared {
    /// The daemon.
    pub hub: Arc<Hub>,
    /// The methods.
    pub table: Arc<Table>,
    /// What unfinished lines may take together.
    pub budget: Budget,
    /// Fires when connections must end.
    pub ending: CancellationToken,
    /// Who ends the daemon when a client asks for it.
    pub shutdown: mpsc::Sender<ShutdownMode>,
}

/// Serves a connection to its end.
pub async fn serve<R, W>(shared: Shared, reader: R, writer: W)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let id = shared.hub.connected();
    let lines =
        LineReader::new(reader, MESSAGE_BYTES_BEFORE_INITIALIZE).with_budget(shared.budget.clone());
    let connection = Arc::new(Connection::new(id.clone(), lines.bound()));
    let (outbox, answers) = Outbox::new();
    let writer = Writer::new(
        writer,
        shared.hub.clone(),
        connection.clone(),
        answers,
        shared.shutdown.clone(),
    );
    let mut writing = tokio::spawn(writer.run());
    let reading = read(&shared, &connection, lines, outbox);
    tokio::select! {
        () = reading => {
            // Answers that are on their way still go out, unless the client does not take them.
            let rest = tokio::time::timeout(DRAIN, &mut writing).await;
            if rest.is_err() {
                writing.abort();
            }
        }
        result = &mut writing => {
            if let Ok(Err(error)) = result {
                tracing::debug!(connection = %id, %error, "a client went away");
            }
        }
    }
    for session in connection.take_attached() {
        shared.hub.detach(&session, &id);
    }
    shared.hub.disconnected();
}

/// Whether the client said who it is and the daemon is not ready for what it asks next.
fn must_wait(shared: &Shared, connection: &Connection) -> bool {
    !shared.hub.is_open() && matches!(connection.phase(), Phase::Ready(_))
}

/// How long the last answers may take to go out.
const DRAIN: std::time::Duration = std::time::Duration::from_secs(1);

async fn read<R: AsyncRead + Unpin>(
    shared: &Shared,
    connection: &Arc<Connection>,
    mut lines: LineReader<R>,
    outbox: Outbox,
) {
    let mut calls = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            () = shared.ending.cancelled() => return,
            Some(reply) = calls.next(), if !calls.is_empty() => {
                let reply: Reply = reply;
                if !outbox.send(reply.line, reply.then).await {
                    return;
                }
            }
            () = shared.hub.opened(), if must_wait(shared, connection) => {}
            // What a client asks right after its greeting is read when it can be served, so that it is begun in order.
            line = lines.next(), if calls.len() < REQUESTS_IN_FLIGHT && !must_wait(shared, connection) => match line {
                Ok(Some(Line::Message(line))) => {
                    let table = shared.table.clone();
                    let text = line.clone();
                    let call = AssertUnwindSafe(dispatch::serve(table, connection.clone(), line)).catch_unwind();
                    let mut call = Box::pin(call.map(move |served| served.unwrap_or_else(|_| dispatch::panicked(&text))));
                    // The first step of each call is taken in the order in which they came.
                    match futures_util::poll!(&mut call) {
                        std::task::Poll::Ready(reply) => {
                            if !outbox.send(reply.line, reply.then).await {
                                return;
                            }
                        }
                        std::task::Poll::Pending => calls.push(call),
                    }
                }
                Ok(Some(Line::TooLong(head))) => {
                    let bound = connection.line_bound.load(Ordering::Relaxed);
                    let reply = dispatch::too_long(&head, bound);
                    if !outbox.send(reply.line, reply.then).await {
                        return;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(connection = %connection.id, %error, "a connection broke");
                    return;
                }
            }
        }
    }
    // A client that closed its sending side may still want answers; waiting calls go with it.
    let rest = async {
        while let Some(reply) = calls.next().await {
            if !outbox.send(reply.line, reply.then).await {
                return;
            }
        }
    };
    if tokio::time::timeout(DRAIN, rest).await.is_err() {
        tracing::debug!(connection = %connection.id, "waiting calls were cancelled with their connection");
    }
}
