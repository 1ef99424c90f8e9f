//! The `openai` protocol: Chat Completions, as OpenAI and the many servers that follow it speak it.

mod calls;
mod chunk;
mod request;
mod stream;

use std::sync::Arc;

use futures_util::{StreamExt, stream as streams};
use reqwest::{Url, header::HeaderMap};

use super::{
    Adapter, ModelRequest, ModelStream, Provider, ProviderError,
    errors::Party,
    http::{self, IDLE_TIMEOUT, Outgoing},
};
use crate::config::Endpoint;

/// The protocol's line in the table of adapters.
pub(super) const ADAPTER: Adapter = Adapter {
    protocol: PROTOCOL,
    open,
};

const PROTOCOL: &str = "openai";

struct ChatCompletions {
    endpoint: Endpoint,
    dialect: request::Dialect,
    party: Party,
    headers: HeaderMap,
}

fn open(endpoint: &Endpoint) -> Result<Arc<dyn Provider>, ProviderError> {
    let mut headers = HeaderMap::new();
    if let Some(key) = &endpoint.api_key {
        let bearer = format!("Bearer {}", key.expose().trim());
        http::insert_header(&mut headers, "authorization", &bearer, true)?;
    }
    for (name, value) in [
        ("openai-organization", &endpoint.organization),
        ("openai-project", &endpoint.project),
    ] {
        if let Some(value) = value {
            http::insert_header(&mut headers, name, value, false)?;
        }
    }
    for (name, value) in &endpoint.headers {
        http::insert_header(&mut headers, name, value, true)?;
    }
    let host = Url::parse(&endpoint.base_uri).ok();
    Ok(Arc::new(ChatCompletions {
        dialect: request::Dialect::of(host.as_ref().and_then(Url::host_str).unwrap_or_default()),
        party: Party::new(endpoint),
        endpoint: endpoint.clone(),
        headers,
    }))
}

impl Provider for ChatCompletions {
    fn stream(&self, request: ModelRequest) -> ModelStream {
        let limit = self.endpoint.token_limit_field.as_deref();
        let body = match request::body(&request, self.dialect, limit) {
            Ok(body) => body,
            Err(error) => return streams::iter([Err(error)]).boxed(),
        };
        let outgoing = Outgoing {
            url: http::join(&self.endpoint.base_uri, "chat/completions"),
            headers: self.headers.clone(),
            body,
            party: self.party.clone(),
        };
        let decoder = stream::ChatDecoder::new(self.party.clone());
        http::stream_events(outgoing, decoder, IDLE_TIMEOUT)
    }
}

#[cfg(test)]
mod tests;
