//! Models: one neutral request in, one stream of neutral events out, an adapter a wire.
//!
//! An adapter is one file (or folder) and one line in [`ADAPTERS`]. No vendor type leaves its module. An adapter does one
//! attempt: retries belong to the turn loop, which discards the partial items of a failed attempt. Dropping the stream
//! cancels the request and closes its connection.

mod chat_completions;
mod demo;
mod errors;
pub mod event;
mod http;
pub mod request;
mod sse;

use std::sync::Arc;

use futures_util::stream::BoxStream;

pub use event::{Finish, ModelEvent, ProviderError, ProviderErrorKind};
pub use request::{Call, CallResult, Message, ModelRequest, ToolSpec};

use crate::config::Endpoint;

/// The events of one request: any number of deltas, then exactly one [`ModelEvent::Finished`] or an error.
pub type ModelStream = BoxStream<'static, Result<ModelEvent, ProviderError>>;

/// A model wire, bound to one endpoint.
pub trait Provider: Send + Sync {
    /// Sends one request. Nothing happens before the stream is polled.
    fn stream(&self, request: ModelRequest) -> ModelStream;
}

/// A wire that this build speaks.
pub struct Adapter {
    /// Its name in `providers.json` (`protocol`).
    pub protocol: &'static str,
    /// Binds it to an endpoint.
    pub open: fn(&Endpoint) -> Result<Arc<dyn Provider>, ProviderError>,
}

/// The wires of this build.
pub static ADAPTERS: &[Adapter] = &[chat_completions::ADAPTER, demo::ADAPTER];

/// Binds the adapter of an endpoint's wire.
///
/// # Errors
/// When this build does not speak it, or the endpoint is not usable.
pub fn open(endpoint: &Endpoint) -> Result<Arc<dyn Provider>, ProviderError> {
    let adapter = ADAPTERS.iter().find(|adapter| adapter.protocol == endpoint.protocol).ok_or_else(|| {
        let message = format!(
            "This version does not speak the protocol {} of the provider {}; choose another provider.",
            endpoint.protocol, endpoint.provider
        );
        ProviderError::new(ProviderErrorKind::BadRequest, message)
    })?;
    (adapter.open)(endpoint)
}
