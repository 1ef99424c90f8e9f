//! The method table: every method of the protocol, registered once with jsonrpsee, whatever the transport.
//!
//! Handlers are thin: they turn parameters into a command for a session, and its answer into a result. A handler reaches its
//! session's mailbox before it first waits, and transports poll each call once in the order in which it came; so calls that name
//! the same session are begun in order.

mod call;
mod daemon;
mod session;
mod turn;
mod workspace;

use std::{collections::HashMap, sync::Arc};

use crystal_protocol::{
    error::{ErrorKind, RpcError},
    limits::MESSAGE_BYTES,
    rpc::{Access, METHODS, Method, Stage},
};
use jsonrpsee::{
    Extensions,
    core::{
        RegisterMethodError,
        server::{Methods, RpcModule},
    },
    types::{ErrorObjectOwned, Params, ResponsePayload},
};
use serde_json::value::RawValue;

pub use call::{
    After, Call, Connection, Following, Generation, Peer, Phase, Then, not_initialized,
};

use crate::hub::Hub;

/// Room for the envelope around a result, in bytes.
const ENVELOPE_BYTES: usize = 1024;

/// The methods, and who may call them.
pub struct Table {
    hub: Arc<Hub>,
    methods: Methods,
    access: HashMap<&'static str, Access>,
}

impl Table {
    /// All methods of the protocol.
    ///
    /// # Errors
    /// When a method is registered twice, which is a fault of this module.
    pub fn new(hub: Arc<Hub>) -> Result<Self, RegisterMethodError> {
        let mut module = RpcModule::new(hub.clone());
        daemon::register_methods(&mut module)?;
        session::register_methods(&mut module)?;
        turn::register_methods(&mut module)?;
        workspace::register_methods(&mut module)?;
        for method in METHODS
            .iter()
            .filter(|method| method.stage == Stage::NotYet)
        {
            register_not_yet(&mut module, method.name)?;
        }
        let access = METHODS
            .iter()
            .map(|method| (method.name, method.access))
            .collect();
        Ok(Self {
            hub,
            methods: module.into(),
            access,
        })
    }

    /// The methods by name.
    pub fn methods(&self) -> &Methods {
        &self.methods
    }

    /// Waits until calls other than `initialize` are let in: the sessions are listed first.
    pub async fn opened(&self) {
        self.hub.opened().await;
    }

    /// Who may call a method; `None` when there is none of that name.
    pub fn access(&self, method: &str) -> Option<Access> {
        self.access.get(method).copied()
    }
}

/// Registers a method by its type: parameters in, result out, sizes checked.
fn register<M, Handler, Answer>(
    module: &mut RpcModule<Arc<Hub>>,
    handler: Handler,
) -> Result<(), RegisterMethodError>
where
    M: Method,
    Handler: Fn(M::Params, Call) -> Answer + Clone + Send + Sync + 'static,
    Answer: Future<Output = Result<M::Result, RpcError>> + Send,
{
    module.register_async_method(M::NAME, move |params, hub, extensions| {
        let handler = handler.clone();
        async move { payload(serve::<M, _, _>(&handler, &params, &hub, &extensions).await) }
    })?;
    Ok(())
}

async fn serve<M, Handler, Answer>(
    handler: &Handler,
    params: &Params<'static>,
    hub: &Arc<Hub>,
    extensions: &Extensions,
) -> Result<Box<RawValue>, RpcError>
where
    M: Method,
    Handler: Fn(M::Params, Call) -> Answer,
    Answer: Future<Output = Result<M::Result, RpcError>>,
{
    let params = parse_params::<M>(params)?;
    let call = Call::new(hub, extensions)?;
    let result = handler(params, call).await?;
    let json = serde_json::value::to_raw_value(&result).map_err(|error| {
        RpcError::new(
            ErrorKind::InternalError,
            format!("The result could not be written: {error}."),
        )
    })?;
    if json.get().len() + ENVELOPE_BYTES > MESSAGE_BYTES {
        let message = format!(
            "The result has {} bytes, more than the {MESSAGE_BYTES} of a message; ask for a smaller part.",
            json.get().len()
        );
        return Err(RpcError::new(ErrorKind::TooLarge, message));
    }
    Ok(json)
}

fn payload(result: Result<Box<RawValue>, RpcError>) -> ResponsePayload<'static, Box<RawValue>> {
    match result {
        Ok(json) => ResponsePayload::success(json),
        Err(error) => ResponsePayload::error(ErrorObjectOwned::owned(
            error.code,
            error.message,
            error.data,
        )),
    }
}

fn register_not_yet(
    module: &mut RpcModule<Arc<Hub>>,
    name: &'static str,
) -> Result<(), RegisterMethodError> {
    module.register_async_method(name, move |_, _, _| async move {
        let message = format!("{name} is not in this version yet; a later one will have it.");
        payload(Err(RpcError::refused("notYet", message)))
    })?;
    Ok(())
}

/// Reads a method's parameters; the error names the field.
fn parse_params<M: Method>(params: &Params<'static>) -> Result<M::Params, RpcError> {
    let text = params.as_str().map_or("{}", str::trim);
    if !text.starts_with('{') {
        let message = format!("{} takes its parameters as one JSON object.", M::NAME);
        return Err(RpcError::invalid_params(message));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        let message = strip_position(&inner.to_string());
        match field_of(&path, &message) {
            None => RpcError::invalid_params(format!("{}: {message}", M::NAME)),
            Some(field) => {
                RpcError::invalid_params(format!("{field}: {message}")).with("field", field)
            }
        }
    })
}

/// The field that an error is about: where reading stopped, or what was missing there.
fn field_of(path: &str, message: &str) -> Option<String> {
    let place = Some(path).filter(|path| !matches!(*path, "." | "?"));
    let missing = message
        .strip_prefix("missing field `")
        .and_then(|rest| rest.split('`').next());
    match (place, missing) {
        (Some(place), Some(missing)) => Some(format!("{place}.{missing}")),
        (None, Some(field)) => Some(field.to_owned()),
        (place, None) => place.map(str::to_owned),
    }
}

/// Parameters came on one line: "at line 1 column 7" tells nobody anything.
fn strip_position(message: &str) -> String {
    message
        .split(" at line ")
        .next()
        .unwrap_or(message)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use crystal_protocol::rpc::{Initialize, SessionAttach, TurnSubmit};

    use super::*;

    fn field<M: Method>(params: &str) -> serde_json::Value {
        let params = Params::new(Some(params)).into_owned();
        let error = parse_params::<M>(&params).err().unwrap();
        assert_eq!(error.code, -32602);
        error.data.unwrap()["field"].clone()
    }

    #[test]
    fn an_error_of_parameters_names_the_field() {
        assert_eq!(field::<SessionAttach>("{}"), "session");
        assert_eq!(field::<SessionAttach>(r#"{"session":5}"#), "session");
        assert_eq!(
            field::<SessionAttach>(r#"{"session":"0123","after":-1}"#),
            "after"
        );
        assert_eq!(
            field::<Initialize>(r#"{"protocol":{"min":1},"client":{"name":"x","version":"1"}}"#),
            "protocol.max"
        );
        assert_eq!(
            field::<TurnSubmit>(r#"{"session":"0123","spans":[{"type":"text"}]}"#),
            "spans[0].text"
        );
    }
}
