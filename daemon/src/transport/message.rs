//! JSON-RPC messages as they come and go: what is wrong with one decides its error, and an id comes back as it was written.

use crystal_protocol::error::{ErrorKind, RpcError};
use jsonrpsee::types::Params;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The id of a request: a string, a number or null, kept as the client wrote it, since it may be one that no number type holds.
#[derive(Clone, Debug)]
pub(super) struct RequestId(Box<RawValue>);

impl RequestId {
    /// The id of what shows none.
    pub(super) fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// Whether it says nothing.
    pub(super) fn is_null(&self) -> bool {
        self.as_json() == "null"
    }

    /// As it was written.
    pub(super) fn as_json(&self) -> &str {
        self.0.get()
    }

    /// A scalar that may be an id.
    fn of(value: &RawValue) -> Option<Self> {
        let scalar = matches!(
            value.get().as_bytes().first(),
            Some(b'"' | b'-' | b'0'..=b'9')
        ) || value.get() == "null";
        scalar.then(|| Self(value.to_owned()))
    }
}

/// A request or, without an id, a notification.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: Option<RequestId>,
    pub(super) method: String,
    pub(super) params: Params<'static>,
}

/// A message that is no request.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) id: RequestId,
    pub(super) error: RpcError,
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

/// Reads one message that is no batch.
pub(super) fn read(text: &str) -> Result<Request, Refused> {
    let message: Message<'_> = if text.starts_with('{') {
        serde_json::from_str(text)
    } else {
        // A list would pass for the message's fields in order.
        match serde_json::from_str::<&RawValue>(text) {
            Ok(_) => {
                return Err(Refused {
                    id: RequestId::null(),
                    error: invalid("it must be an object"),
                });
            }
            Err(error) => Err(error),
        }
    }
    .map_err(|error| {
        if error.is_data() {
            Refused {
                id: salvage_id(text.as_bytes()),
                error: invalid(&format!("it must be a plain object ({error})")),
            }
        } else {
            Refused {
                id: RequestId::null(),
                error: parse_error(&error.to_string()),
            }
        }
    })?;
    let id = match message.id {
        None => None,
        Some(raw) => Some(RequestId::of(raw).ok_or_else(|| Refused {
            id: RequestId::null(),
            error: invalid("its id must be a string, a number or null"),
        })?),
    };
    let refuse = |what: &str| Refused {
        id: id.clone().unwrap_or_else(RequestId::null),
        error: invalid(what),
    };
    if message.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
        return Err(refuse("its jsonrpc member must be \"2.0\""));
    }
    let method = message.method.ok_or_else(|| refuse("it has no method"))?;
    let method: String =
        serde_json::from_str(method.get()).map_err(|_| refuse("its method must be a string"))?;
    let params = Params::new(message.params.map(RawValue::get)).into_owned();
    Ok(Request { id, method, params })
}

/// An answer that carries an error.
pub(super) fn error_json(id: &RequestId, error: &RpcError) -> String {
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        error: &'a RpcError,
    }
    let answer = Answer {
        jsonrpc: "2.0",
        id: &id.0,
        error,
    };
    serde_json::to_string(&answer).unwrap_or_else(|unwritable| {
        tracing::error!(%unwritable, "an error could not be written");
        let code = error.code;
        let id = id.as_json();
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"The error could not be written."}}}}"#
        )
    })
}

/// What jsonrpsee's answers begin with when they are given an id of null.
const WITHOUT_ID: &str = r#"{"jsonrpc":"2.0","id":null,"#;

/// Puts the id, as it was written, into an answer that jsonrpsee wrote for an id of null.
pub(super) fn with_id(id: &RequestId, answer: &RawValue) -> String {
    let Some(rest) = answer.get().strip_prefix(WITHOUT_ID) else {
        tracing::error!("an answer does not begin as jsonrpsee's do");
        let error = RpcError::new(
            ErrorKind::InternalError,
            "The call was served, but its answer could not be written.",
        );
        return error_json(id, &error);
    };
    let mut json = String::with_capacity(WITHOUT_ID.len() + id.as_json().len() + rest.len());
    json.push_str(r#"{"jsonrpc":"2.0","id":"#);
    json.push_str(id.as_json());
    json.push(',');
    json.push_str(rest);
    json
}

/// The error of a text that is not JSON.
pub(super) fn parse_error(why: &str) -> RpcError {
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
pub(super) fn salvage_id(text: &[u8]) -> RequestId {
    find_id(text).unwrap_or_else(RequestId::null)
}

fn find_id(text: &[u8]) -> Option<RequestId> {
    let mut depth = 0usize;
    let mut place = 0;
    while let Some(byte) = text.get(place) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = string_end(text, place)?;
                let is_key = depth == 1 && text.get(place..=end) == Some(b"\"id\"");
                place = end;
                if is_key && let Some(id) = text.get(end + 1..).and_then(id_value) {
                    return Some(id);
                }
            }
            _ => {}
        }
        place += 1;
    }
    None
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
fn id_value(rest: &[u8]) -> Option<RequestId> {
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
    let value: &RawValue = serde_json::from_slice(rest.get(..end)?).ok()?;
    RequestId::of(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_is_salvaged_from_the_beginning_of_a_line() {
        let salvaged = |text: &str| salvage_id(text.as_bytes()).as_json().to_owned();
        assert_eq!(salvaged(r#"{"jsonrpc":"2.0","id":7,"params":{"#), "7");
        assert_eq!(
            salvaged(r#"{"params":{"id":1},"id" : "a\"b","x":"#),
            r#""a\"b""#
        );
        assert_eq!(salvaged(r#"{"params":{"id":1},"x":"#), "null");
        assert_eq!(salvaged(r#"{"x":"id","y":1"#), "null");
        assert_eq!(salvaged(r#"{"id":12"#), "null");
        assert_eq!(salvaged(r#"{"id":-1.5,"x":"#), "-1.5");
        assert_eq!(salvaged(r#"{"id":true,"x":"#), "null");
    }

    #[test]
    fn what_is_wrong_with_a_message_decides_its_error() {
        let code = |text: &str| read(text).map_or_else(|refused| refused.error.code, |_| 0);
        assert_eq!(code("nonsense"), -32700);
        assert_eq!(code("{"), -32700);
        assert_eq!(code("1"), -32600);
        assert_eq!(code(r#"["2.0",1,"daemon/status",{}]"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":5}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":false,"method":"x"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#), 0);
    }

    #[test]
    fn an_id_of_null_is_an_id() {
        let id = |text| read(text).unwrap().id;
        assert!(
            id(r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#)
                .unwrap()
                .is_null()
        );
        assert!(id(r#"{"jsonrpc":"2.0","method":"x"}"#).is_none());
    }

    #[test]
    fn an_id_comes_back_as_it_was_written() {
        let long = "123456789012345678901234567890";
        for id in ["0", "-7", "1.50", long, r#""""#, r#""\u0041\n""#, "null"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id": {id} ,"method":"x"}}"#);
            let read = read(&text).unwrap().id.unwrap();
            let answer = RawValue::from_string(format!("{WITHOUT_ID}\"result\":{{}}}}")).unwrap();
            assert_eq!(
                with_id(&read, &answer),
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
            );
        }
    }

    #[test]
    fn jsonrpsee_writes_its_answers_as_they_are_expected_here() {
        let error = jsonrpsee::types::ErrorObjectOwned::borrowed(-1, "x", None);
        let answer = jsonrpsee::MethodResponse::error(jsonrpsee::types::Id::Null, error);
        let id = RequestId::of(&RawValue::from_string("-3".to_owned()).unwrap()).unwrap();
        assert_eq!(
            with_id(&id, answer.as_json()),
            r#"{"jsonrpc":"2.0","id":-3,"error":{"code":-1,"message":"x"}}"#
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_salvager_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            salvage_id(&bytes);
        }
    }
}
