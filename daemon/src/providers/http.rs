//! The HTTP side that adapters share: one client, one way to send, one way to read a body within bounds.

use std::{
    sync::{Once, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use reqwest::{
    Client,
    header::{HeaderMap, HeaderName, HeaderValue},
};

use super::{
    ProviderError, ProviderErrorKind,
    errors::{self, Party},
};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a provider may send no byte at all. Minutes before the first one are normal for reasoning models.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// Of an error's body so many bytes are read.
const ERROR_BYTES: usize = 64 * 1024;

/// A request that is ready to be sent.
pub(super) struct Outgoing {
    /// Where to.
    pub(super) url: String,
    /// With which headers, besides content type and agent.
    pub(super) headers: HeaderMap,
    /// JSON.
    pub(super) body: Vec<u8>,
    /// Who answers.
    pub(super) party: Party,
}

/// The body of an answer that began well. Dropping it closes the connection.
pub(super) struct Body {
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    party: Party,
}

impl Body {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// When the connection breaks, or is silent for longer than `wait`.
    pub(super) async fn next(&mut self, wait: Duration) -> Result<Option<Bytes>, ProviderError> {
        match tokio::time::timeout(wait, self.bytes.next()).await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(bytes))) => Ok(Some(bytes)),
            Ok(Some(Err(error))) => Err(errors::unreachable(&self.party, &innermost(&error))),
            Err(_) => {
                let why = format!("it sent nothing for {} seconds", wait.as_secs());
                Err(errors::unreachable(&self.party, &why))
            }
        }
    }
}

/// Joins a base address and a path with one slash.
pub(super) fn join(base: &str, path: &str) -> String {
    format!(
        "{}/{}",
        base.trim_end_matches('/'),
        path.trim_start_matches('/')
    )
}

/// Adds a header.
///
/// # Errors
/// When name or value cannot stand in a header; the value is not in the message, for it may be a key.
pub(super) fn insert_header(
    headers: &mut HeaderMap,
    name: &str,
    value: &str,
    secret: bool,
) -> Result<(), ProviderError> {
    let parsed = HeaderName::try_from(name)
        .ok()
        .zip(HeaderValue::try_from(value.trim()).ok());
    let Some((header, mut value)) = parsed else {
        let message = format!(
            "The header {name} cannot be sent: its name, or the key in it, holds characters that HTTP does not allow. Correct it in providers.json or the environment."
        );
        return Err(ProviderError::new(ProviderErrorKind::BadRequest, message));
    };
    value.set_sensitive(secret);
    headers.insert(header, value);
    Ok(())
}

/// Sends a request; the body of an answer that is no error.
///
/// # Errors
/// When the provider cannot be reached or answers with an error.
pub(super) async fn send(outgoing: Outgoing) -> Result<Body, ProviderError> {
    let Outgoing {
        url,
        headers,
        body,
        party,
    } = outgoing;
    let request = client()?
        .post(url)
        .headers(headers)
        .header("content-type", "application/json")
        .body(body)
        .send();
    let response = match tokio::time::timeout(IDLE_TIMEOUT, request).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(errors::unreachable(&party, &innermost(&error))),
        Err(_) => return Err(errors::unreachable(&party, "it did not answer")),
    };
    let status = response.status();
    let hints = errors::retry_hints(response.headers());
    let mut body = Body {
        bytes: response.bytes_stream().boxed(),
        party: party.clone(),
    };
    if status.is_success() {
        return Ok(body);
    }
    let mut text = Vec::new();
    while text.len() < ERROR_BYTES
        // A body that breaks off still has the words it had.
        && let Ok(Some(bytes)) = body.next(CONNECT_TIMEOUT).await
    {
        text.extend_from_slice(&bytes);
    }
    text.truncate(ERROR_BYTES);
    Err(errors::from_status(&party, status.as_u16(), &text, hints))
}

/// The client that all sessions share: connections to a provider are used again.
fn client() -> Result<&'static Client, ProviderError> {
    static PROVIDER: Once = Once::new();
    static CLIENT: OnceLock<Client> = OnceLock::new();
    if let Some(client) = CLIENT.get() {
        return Ok(client);
    }
    PROVIDER.call_once(|| {
        // It fails only when one is installed already, which serves as well.
        if rustls::crypto::ring::default_provider()
            .install_default()
            .is_err()
        {
            tracing::debug!("a TLS provider was installed already");
        }
    });
    let client = Client::builder()
        .user_agent("Crystal")
        .connect_timeout(CONNECT_TIMEOUT)
        .build()
        .map_err(|error| {
            ProviderError::new(
                ProviderErrorKind::Server,
                format!("The HTTP client cannot start: {error}."),
            )
        })?;
    Ok(CLIENT.get_or_init(|| client))
}

/// The cause at the bottom: the layers above it say only that a request failed.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
