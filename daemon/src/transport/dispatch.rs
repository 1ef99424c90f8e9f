//! One line in: requests, notifications and batches, checked and handed to the method table.

use std::sync::Arc;

use bytes::Bytes;
use crystal_protocol::{
    client_ref::Role,
    error::{ErrorKind, RpcError},
    frame::line_of,
    limits::{MESSAGE_BYTES, REQUESTS_IN_FLIGHT},
    rpc::{Access, Initialize, Method},
};
use jsonrpsee::{
    ConnectionId, Extensions,
    core::server::MethodCallback,
    types::{Id, Params},
};
use serde_json::value::RawValue;

use super::message::{self, RequestId, error_json, parse_error, salvage_id};
use crate::rpc::{After, Connection, Phase, Table, Then, not_initialized};

/// What a line came to.
pub(super) struct Reply {
    /// The answer; absent when nothing of it wanted one.
    pub(super) line: Option<Bytes>,
    /// What happens right after it.
    pub(super) then: Vec<Then>,
}

/// Serves one line. Requests of a batch are begun in order and answered together.
pub(super) async fn serve(table: Arc<Table>, connection: Arc<Connection>, line: Bytes) -> Reply {
    let after = After::default();
    let text = match std::str::from_utf8(&line) {
        Ok(text) => text.trim(),
        Err(_) => return refusal(&RequestId::null(), &parse_error("it is not valid UTF-8")),
    };
    if text.starts_with('[') {
        return serve_batch(&table, &connection, text, &after).await;
    }
    let answer = serve_one(&table, &connection, text, &after).await;
    Reply {
        line: answer.map(|json| line_of(json.as_bytes())),
        then: after.take(),
    }
}

/// The answer to a line over the bound: with the request's id where the beginning of the line shows one.
pub(super) fn too_long(head: &[u8], bound: usize) -> Reply {
    let message = format!("The message is longer than {bound} bytes; send it in smaller parts.");
    refusal(
        &salvage_id(head),
        &RpcError::new(ErrorKind::TooLarge, message),
    )
}

/// The answer to a line whose call panicked; none when the line shows no id, as a notification does.
pub(super) fn panicked(line: &[u8]) -> Reply {
    tracing::error!("a call panicked");
    let id = salvage_id(line);
    if id.is_null() {
        return Reply {
            line: None,
            then: Vec::new(),
        };
    }
    let message = "The call failed by a fault of the daemon's own; its log has more.";
    refusal(&id, &RpcError::new(ErrorKind::InternalError, message))
}

async fn serve_batch(
    table: &Table,
    connection: &Arc<Connection>,
    text: &str,
    after: &After,
) -> Reply {
    let messages: Vec<&RawValue> = match serde_json::from_str(text) {
        Ok(messages) => messages,
        Err(error) => return refusal(&RequestId::null(), &parse_error(&error.to_string())),
    };
    if messages.is_empty() {
        let error = RpcError::new(
            ErrorKind::InvalidRequest,
            "The batch is empty; put at least one request into it.",
        );
        return refusal(&RequestId::null(), &error);
    }
    let mut answers = Vec::with_capacity(messages.len());
    let mut bytes = 0;
    // They are begun in order, so many at a time as one connection may have in flight.
    for part in messages.chunks(REQUESTS_IN_FLIGHT) {
        let calls = part
            .iter()
            .map(|message| serve_one(table, connection, message.get(), after));
        for mut answer in futures_util::future::join_all(calls)
            .await
            .into_iter()
            .flatten()
        {
            if bytes + answer.len() > MESSAGE_BYTES {
                answer = over_batch(&answer);
            }
            bytes += answer.len() + 1;
            answers.push(answer);
        }
    }
    let line =
        (!answers.is_empty()).then(|| line_of(format!("[{}]", answers.join(",")).as_bytes()));
    Reply {
        line,
        then: after.take(),
    }
}

/// An answer that the batch has no room for.
fn over_batch(answer: &str) -> String {
    let error = RpcError::new(
        ErrorKind::TooLarge,
        "The batch's answers are too large together; send this request by itself.",
    );
    error_json(&salvage_id(answer.as_bytes()), &error)
}

async fn serve_one(
    table: &Table,
    connection: &Arc<Connection>,
    text: &str,
    after: &After,
) -> Option<String> {
    let request = match message::read(text) {
        Ok(request) => request,
        Err(refused) => return Some(error_json(&refused.id, &refused.error)),
    };
    match admit(table, connection, &request.method) {
        Ok(callback) => {
            if request.method != Initialize::NAME {
                table.opened().await;
            }
            let served = run(callback, request.params, connection, after).await;
            request.id.map(|id| served.json(&id))
        }
        Err(error) => request.id.map(|id| error_json(&id, &error)),
    }
}

/// Whether the connection may call the method now.
fn admit<'a>(
    table: &'a Table,
    connection: &Connection,
    method: &str,
) -> Result<&'a MethodCallback, RpcError> {
    let phase = connection.phase();
    let peer = match &phase {
        Phase::Ready(peer) => Some(peer),
        Phase::New if method == Initialize::NAME => None,
        Phase::New => return Err(not_initialized()),
    };
    let unknown = || {
        let message =
            format!("There is no method {method}; see the method table in the protocol's README.");
        RpcError::new(ErrorKind::MethodNotFound, message)
    };
    let access = table.access(method).ok_or_else(unknown)?;
    if access == Access::Controllers && peer.is_some_and(|peer| peer.client.role == Role::Observer)
    {
        let message = format!("An observer may not call {method}; connect as a controller.");
        return Err(RpcError::refused("observer", message));
    }
    table.methods().method(method).ok_or_else(unknown)
}

/// What a method came to.
enum Served {
    Answer(Box<RawValue>),
    Failed(RpcError),
}

impl Served {
    fn json(&self, id: &RequestId) -> String {
        match self {
            Self::Answer(answer) => message::with_id(id, answer),
            Self::Failed(error) => error_json(id, error),
        }
    }
}

async fn run(
    callback: &MethodCallback,
    params: Params<'static>,
    connection: &Arc<Connection>,
    after: &After,
) -> Served {
    let mut extensions = Extensions::new();
    extensions.insert(connection.clone());
    extensions.insert(after.clone());
    // jsonrpsee's ids hold less than JSON's: the client's own is put in when the answer is there.
    let response = match callback {
        MethodCallback::Async(method) => {
            method(Id::Null, params, ConnectionId(0), MESSAGE_BYTES, extensions).await
        }
        MethodCallback::Sync(method) => method(Id::Null, params, MESSAGE_BYTES, extensions),
        MethodCallback::Subscription(_) | MethodCallback::Unsubscription(_) => {
            return Served::Failed(RpcError::new(
                ErrorKind::InternalError,
                "The protocol has no jsonrpsee subscriptions.",
            ));
        }
    };
    Served::Answer(response.into_json())
}

fn refusal(id: &RequestId, error: &RpcError) -> Reply {
    Reply {
        line: Some(line_of(error_json(id, error).as_bytes())),
        then: Vec::new(),
    }
}
