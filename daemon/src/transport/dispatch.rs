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
    types::{ErrorObjectOwned, Id, Params},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::rpc::{After, Connection, Phase, Table, Then, not_initialized};

/// What a line came to.
pub(super) struct Reply {
    /// The answer; absent when nothing of it wanted one.
    pub(super) line: Option<Bytes>,
    /// What happens right after it.
    pub(super) then: Vec<Then>,
}

/// A message as it may come; what it lacks is said later.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// An `id` of null is an id; an absent one makes a notification.
fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Serves one line. Requests of a batch are begun in order and answered together.
pub(super) async fn serve(table: Arc<Table>, connection: Arc<Connection>, line: Bytes) -> Reply {
    let after = After::default();
    let text = match std::str::from_utf8(&line) {
        Ok(text) => text.trim(),
        Err(_) => return refusal(Id::Null, &parse_error("it is not valid UTF-8")),
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
        salvage_id(head),
        &RpcError::new(ErrorKind::TooLarge, message),
    )
}

/// The answer to a line whose call panicked; none when the line shows no id, as a notification does.
pub(super) fn panicked(line: &[u8]) -> Reply {
    tracing::error!("a call panicked");
    match salvage_id(line) {
        Id::Null => Reply {
            line: None,
            then: Vec::new(),
        },
        id => {
            let message = "The call failed by a fault of the daemon's own; its log has more.";
            refusal(id, &RpcError::new(ErrorKind::InternalError, message))
        }
    }
}

async fn serve_batch(
    table: &Table,
    connection: &Arc<Connection>,
    text: &str,
    after: &After,
) -> Reply {
    let messages: Vec<&RawValue> = match serde_json::from_str(text) {
        Ok(messages) => messages,
        Err(error) => return refusal(Id::Null, &parse_error(&error.to_string())),
    };
    if messages.is_empty() {
        let error = RpcError::new(
            ErrorKind::InvalidRequest,
            "The batch is empty; put at least one request into it.",
        );
        return refusal(Id::Null, &error);
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
    #[derive(Deserialize)]
    struct WithId<'a> {
        #[serde(borrow)]
        id: Id<'a>,
    }
    let id = serde_json::from_str::<WithId<'_>>(answer)
        .map_or(Id::Null, |answer| answer.id.into_owned());
    let error = RpcError::new(
        ErrorKind::TooLarge,
        "The batch's answers are too large together; send this request by itself.",
    );
    error_json(id, &error)
}

async fn serve_one(
    table: &Table,
    connection: &Arc<Connection>,
    text: &str,
    after: &After,
) -> Option<String> {
    let (id, method, params) = match read(text) {
        Ok(read) => read,
        Err((id, error)) => return Some(error_json(id, &error)),
    };
    let result = match admit(table, connection, &method) {
        Ok(callback) => {
            if method != Initialize::NAME {
                table.opened().await;
            }
            run(callback, id.clone(), params, connection, after).await
        }
        Err(error) => error_json(id.clone().unwrap_or(Id::Null), &error),
    };
    id.map(|_| result)
}

type Read = (Option<Id<'static>>, String, Params<'static>);

fn read(text: &str) -> Result<Read, (Id<'static>, RpcError)> {
    let message: Message<'_> = serde_json::from_str(text).map_err(|error| {
        if error.is_data() {
            let error = invalid(&format!("it must be an object ({error})"));
            (salvage_id(text.as_bytes()), error)
        } else {
            (Id::Null, parse_error(&error.to_string()))
        }
    })?;
    let id = match message.id {
        None => None,
        Some(raw) => {
            let id = serde_json::from_str::<Id<'_>>(raw.get()).map(Id::into_owned);
            Some(id.map_err(|_| {
                (
                    Id::Null,
                    invalid("its id must be a string or a non-negative whole number"),
                )
            })?)
        }
    };
    let refuse = |what: &str| (id.clone().unwrap_or(Id::Null), invalid(what));
    if message.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
        return Err(refuse("its jsonrpc member must be \"2.0\""));
    }
    let method = message.method.ok_or_else(|| refuse("it has no method"))?;
    let method: String =
        serde_json::from_str(method.get()).map_err(|_| refuse("its method must be a string"))?;
    let params = Params::new(message.params.map(RawValue::get)).into_owned();
    Ok((id, method, params))
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

async fn run(
    callback: &MethodCallback,
    id: Option<Id<'static>>,
    params: Params<'static>,
    connection: &Arc<Connection>,
    after: &After,
) -> String {
    let mut extensions = Extensions::new();
    extensions.insert(connection.clone());
    extensions.insert(after.clone());
    let id = id.unwrap_or(Id::Null);
    let response = match callback {
        MethodCallback::Async(method) => {
            method(id, params, ConnectionId(0), MESSAGE_BYTES, extensions).await
        }
        MethodCallback::Sync(method) => method(id, params, MESSAGE_BYTES, extensions),
        MethodCallback::Subscription(_) | MethodCallback::Unsubscription(_) => {
            let error = RpcError::new(
                ErrorKind::InternalError,
                "The protocol has no jsonrpsee subscriptions.",
            );
            return error_json(id, &error);
        }
    };
    Box::<str>::from(response.into_json()).into_string()
}

fn refusal(id: Id<'_>, error: &RpcError) -> Reply {
    Reply {
        line: Some(line_of(error_json(id, error).as_bytes())),
        then: Vec::new(),
    }
}

fn error_json(id: Id<'_>, error: &RpcError) -> String {
    let object = ErrorObjectOwned::owned(error.code, error.message.clone(), error.data.clone());
    Box::<str>::from(jsonrpsee::core::server::MethodResponse::error(id, object).into_json())
        .into_string()
}

fn parse_error(why: &str) -> RpcError {
    RpcError::new(
        ErrorKind::ParseError,
        format!("The line is no JSON message: {why}."),
    )
}

fn invalid(why: &str) -> RpcError {
    RpcError::new(
        ErrorKind::InvalidRequest,
        format!("The message is no JSON-RPC 2.0 request: {why}."),
    )
}

/// The id of a request of which only the beginning, or an ill-formed whole, is there: the value of the first `"id"` key at the
/// outermost level.
fn salvage_id(text: &[u8]) -> Id<'static> {
    let mut depth = 0usize;
    let mut place = 0;
    while let Some(byte) = text.get(place) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let Some(end) = string_end(text, place) else {
                    return Id::Null;
                };
                let is_key = depth == 1 && text.get(place..=end) == Some(b"\"id\"");
                place = end;
                if is_key && let Some(id) = text.get(end + 1..).and_then(id_value) {
                    return id;
                }
            }
            _ => {}
        }
        place += 1;
    }
    Id::Null
}

/// Where the string that begins at `start` ends.
fn string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut place = start + 1;
    loop {
        match text.get(place)? {
            b'\\' => place += 2,
            b'"' => return Some(place),
            _ => place += 1,
        }
    }
}

/// A whole scalar after a colon, with something behind it that shows that it is whole.
fn id_value(rest: &[u8]) -> Option<Id<'static>> {
    let rest = rest
        .trim_ascii_start()
        .strip_prefix(b":")?
        .trim_ascii_start();
    let end = match rest.first()? {
        b'"' => string_end(rest, 0)? + 1,
        _ => rest
            .iter()
            .position(|byte| matches!(byte, b',' | b'}') || byte.is_ascii_whitespace())?,
    };
    serde_json::from_slice::<Id<'_>>(rest.get(..end)?)
        .ok()
        .map(Id::into_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_is_salvaged_from_the_beginning_of_a_line() {
        assert_eq!(
            salvage_id(br#"{"jsonrpc":"2.0","id":7,"params":{"#),
            Id::Number(7)
        );
        assert_eq!(
            salvage_id(br#"{"params":{"id":1},"id" : "a\"b","x":"#),
            Id::Str("a\"b".into())
        );
        assert_eq!(salvage_id(br#"{"params":{"id":1},"x":"#), Id::Null);
        assert_eq!(salvage_id(br#"{"x":"id","y":1"#), Id::Null);
        assert_eq!(salvage_id(br#"{"id":12"#), Id::Null);
    }

    #[test]
    fn what_is_wrong_with_a_message_decides_its_error() {
        let code = |text: &str| {
            read(text)
                .map(|_| 0)
                .unwrap_or_else(|(_, error)| error.code)
        };
        assert_eq!(code("nonsense"), -32700);
        assert_eq!(code("{"), -32700);
        assert_eq!(code("1"), -32600);
        assert_eq!(code(r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":5}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#), 0);
    }

    #[test]
    fn an_id_of_null_is_an_id() {
        assert!(
            read(r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#)
                .unwrap()
                .0
                .is_some()
        );
        assert!(
            read(r#"{"jsonrpc":"2.0","method":"x"}"#)
                .unwrap()
                .0
                .is_none()
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_salvager_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            salvage_id(&bytes);
        }
    }
}
