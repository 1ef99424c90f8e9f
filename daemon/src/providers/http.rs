//! The HTTP side that every networked adapter shares: one client, one way to send, one way to read a stream of events.

use std::{
    collections::VecDeque,
    sync::{Once, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use reqwest::{
    Client, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};

use super::{
    ModelEvent, ModelStream, ProviderError, ProviderErrorKind,
    errors::{self, Party},
    sse::{SseEvent, SseParser},
};

/// The data that ends a stream of many providers.
pub(crate) const DONE: &str = "[DONE]";

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a provider may send no byte at all. Minutes before the first one are normal for reasoning models.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// How long is waited for what may follow the end of an answer (token counts, a late error).
const AFTER_END: Duration = Duration::from_secs(5);

/// Largest whole answer that a provider may give instead of a stream, in bytes.
const MAX_WHOLE_BYTES: usize = 32 * 1024 * 1024;

/// A request that is ready to be sent.
pub(crate) struct Outgoing {
    /// Where to.
    pub(crate) url: String,
    /// With which headers, besides content type and agent.
    pub(crate) headers: HeaderMap,
    /// JSON.
    pub(crate) body: Vec<u8>,
    /// Who answers, for messages.
    pub(crate) party: Party,
}

/// How far an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Its end mark has not come.
    Open,
    /// It is whole, but more about it may come.
    Finished,
    /// Nothing comes after this.
    Closed,
}

/// Turns the events of one wire into [`ModelEvent`]s.
pub(crate) trait Decoder: Send + 'static {
    /// Takes one event of the stream.
    ///
    /// # Errors
    ///
    /// What the provider reports in its stream, or a malformed event.
    fn event(
        &mut self,
        event: &SseEvent,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<Progress, ProviderError>;

    /// Takes a whole answer that came as one JSON document instead of a stream.
    ///
    /// # Errors
    ///
    /// What the document reports, or that it is no answer.
    fn whole(&mut self, body: &[u8], out: &mut VecDeque<ModelEvent>) -> Result<(), ProviderError>;

    /// The stream has ended: emits [`ModelEvent::Finished`].
    ///
    /// # Errors
    ///
    /// When the end mark of the answer never came.
    fn end(&mut self, out: &mut VecDeque<ModelEvent>) -> Result<(), ProviderError>;
}

/// Joins a base address and a path with one slash.
pub(crate) fn join(base: &str, path: &str) -> String {
    format!(
        "{}/{}",
        base.trim_end_matches('/'),
        path.trim_start_matches('/')
    )
}

/// Adds a header.
///
/// # Errors
///
/// When name or value cannot stand in a header; the value is not in the message, for it may be a key.
pub(crate) fn insert_header(
    headers: &mut HeaderMap,
    name: &str,
    value: &str,
    secret: bool,
) -> Result<(), ProviderError> {
    let parsed = HeaderName::try_from(name)
        .ok()
        .zip(HeaderValue::try_from(value.trim()).ok());
    let Some((header, mut value)) = parsed else {
        return Err(ProviderError::new(
            ProviderErrorKind::BadRequest,
            format!(
                "Correct the header or key for `{name}`: it holds characters that HTTP does not allow."
            ),
        ));
    };
    value.set_sensitive(secret);
    headers.insert(header, value);
    Ok(())
}

/// Sends one request when first polled, and decodes the server-sent events of its answer. `idle` is how long the
/// provider may send no byte at all.
pub(crate) fn stream_events<D: Decoder>(
    outgoing: Outgoing,
    decoder: D,
    idle: Duration,
) -> ModelStream {
    let party = outgoing.party.clone();
    run(decoder, party, idle, State::Unsent(Box::new(outgoing)))
}

fn run<D: Decoder>(decoder: D, party: Party, idle: Duration, state: State) -> ModelStream {
    let reader = Reader {
        decoder,
        party,
        idle,
        parser: SseParser::default(),
        events: Vec::new(),
        ready: VecDeque::new(),
        progress: Progress::Open,
        state,
    };
    stream::unfold(reader, |mut reader| async move {
        let item = reader.next().await?;
        Some((item, reader))
    })
    .boxed()
}

type Body = stream::BoxStream<'static, reqwest::Result<Bytes>>;

enum State {
    Unsent(Box<Outgoing>),
    Answered(Body),
    Reading(Body),
    Failed(ProviderError),
    Done,
}

struct Reader<D> {
    decoder: D,
    party: Party,
    idle: Duration,
    parser: SseParser,
    events: Vec<SseEvent>,
    ready: VecDeque<ModelEvent>,
    progress: Progress,
    state: State,
}

impl<D: Decoder> Reader<D> {
    async fn next(&mut self) -> Option<Result<ModelEvent, ProviderError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let step = match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return None,
                State::Failed(error) => return Some(Err(error)),
                State::Unsent(outgoing) => send(*outgoing, self.idle)
                    .await
                    .map(|response| State::Answered(response.bytes_stream().boxed())),
                State::Answered(body) => self.begin(body).await,
                State::Reading(body) => self.read(body).await,
            };
            // What came before a failure is given before it, however the network cut the bytes.
            self.state = step.unwrap_or_else(State::Failed);
        }
    }

    async fn begin(&mut self, mut body: Body) -> Result<State, ProviderError> {
        let mut head = Vec::new();
        // An event stream starts with a field, a comment or a blank line, so its first character tells it apart from
        // JSON and HTML whatever the content type claims.
        let first = loop {
            if let Some(first) = head.iter().copied().find(|b: &u8| !b.is_ascii_whitespace()) {
                break Some(first);
            }
            match chunk(&mut body, &self.party, self.idle).await? {
                Some(bytes) => extend(&mut head, &bytes, &self.party)?,
                None => break None,
            }
        };
        if !matches!(first, Some(b'{' | b'[' | b'<')) {
            return self.take(body, &head);
        }
        while let Some(bytes) = chunk(&mut body, &self.party, self.idle).await? {
            extend(&mut head, &bytes, &self.party)?;
        }
        self.decoder.whole(&head, &mut self.ready)?;
        Ok(State::Done)
    }

    async fn read(&mut self, mut body: Body) -> Result<State, ProviderError> {
        let whole = self.progress != Progress::Open;
        let wait = if whole {
            AFTER_END.min(self.idle)
        } else {
            self.idle
        };
        match chunk(&mut body, &self.party, wait).await {
            Ok(Some(bytes)) => self.take(body, &bytes),
            // How the connection of a whole answer ends does not matter.
            Err(error) if !whole => Err(error),
            Ok(None) | Err(_) => {
                self.finish()?;
                Ok(State::Done)
            }
        }
    }

    fn take(&mut self, mut body: Body, bytes: &[u8]) -> Result<State, ProviderError> {
        let parsed = self.parser.push(bytes, &mut self.events);
        for event in self.events.drain(..) {
            self.progress = self.decoder.event(&event, &mut self.ready)?;
            if self.progress == Progress::Closed {
                // Taking the end of the body, when it is here already, lets the connection be used again.
                drop(body.next().now_or_never());
                self.decoder.end(&mut self.ready)?;
                return Ok(State::Done);
            }
        }
        parsed.map_err(|error| errors::broken(&self.party, &error.to_string()))?;
        Ok(State::Reading(body))
    }

    fn finish(&mut self) -> Result<(), ProviderError> {
        self.parser.finish(&mut self.events);
        for event in self.events.drain(..) {
            // What the end of the stream cut in two says nothing.
            let whole = serde_json::from_str::<serde::de::IgnoredAny>(&event.data).is_ok();
            if whole || event.data.trim() == DONE {
                self.decoder.event(&event, &mut self.ready)?;
            }
        }
        self.decoder.end(&mut self.ready)
    }
}

fn extend(head: &mut Vec<u8>, bytes: &[u8], party: &Party) -> Result<(), ProviderError> {
    if head.len() + bytes.len() > MAX_WHOLE_BYTES {
        return Err(errors::broken(party, "the answer is larger than 32 MiB"));
    }
    head.extend_from_slice(bytes);
    Ok(())
}

async fn chunk(
    body: &mut Body,
    party: &Party,
    wait: Duration,
) -> Result<Option<Bytes>, ProviderError> {
    match tokio::time::timeout(wait, body.next()).await {
        Ok(None) => Ok(None),
        Ok(Some(Ok(bytes))) => Ok(Some(bytes)),
        Ok(Some(Err(error))) => Err(transport(party, error)),
        Err(_) => Err(errors::silent(party, wait)),
    }
}

/// Sends a request and gives the answer of a provider that took it.
async fn send(outgoing: Outgoing, idle: Duration) -> Result<reqwest::Response, ProviderError> {
    let Outgoing {
        url,
        headers,
        body,
        party,
    } = outgoing;
    let url = Url::parse(&url).map_err(|error| {
        ProviderError::new(
            ProviderErrorKind::BadRequest,
            format!(
                "Correct `baseUri` of {}: {error} in {url:?}.",
                party.provider
            ),
        )
    })?;
    let client = client_for(&url, &party).await?;
    let request = client
        .post(url)
        .headers(headers)
        .header(reqwest::header::CONTENT_TYPE, "application/json")
        .body(body);
    let response = match tokio::time::timeout(idle, request.send()).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(transport(&party, error)),
        Err(_) => return Err(errors::silent(&party, idle)),
    };
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status();
    let headers = response.headers().clone();
    let mut body: Body = response.bytes_stream().boxed();
    let mut text = Vec::new();
    // A body that breaks off still says what its first part says; the status is the failure.
    while let Ok(Some(bytes)) = chunk(&mut body, &party, AFTER_END).await {
        let room = errors::MAX_BODY_BYTES.saturating_sub(text.len());
        text.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if text.len() == errors::MAX_BODY_BYTES {
            break;
        }
    }
    Err(errors::from_http(&party, status, &headers, &text))
}

/// The client for an address. Servers on this machine are reached without a proxy and without certificates of the
/// system, so that they work where neither is set up.
async fn client_for(url: &Url, party: &Party) -> Result<Client, ProviderError> {
    static REMOTE: OnceLock<Client> = OnceLock::new();
    static LOCAL: OnceLock<Client> = OnceLock::new();
    let local = url.scheme() == "http" && is_loopback(url);
    let cell = if local { &LOCAL } else { &REMOTE };
    if let Some(client) = cell.get() {
        return Ok(client.clone());
    }
    // Reading the certificates of the system blocks.
    let built = tokio::task::spawn_blocking(move || build(local))
        .await
        .map_err(|error| errors::broken(party, &error.to_string()))?;
    let client = built.map_err(|error| {
        ProviderError::new(
            ProviderErrorKind::BadRequest,
            format!(
                "Install the system's CA certificates to reach {}: {}.",
                party.provider,
                innermost(&error)
            ),
        )
    })?;
    Ok(cell.get_or_init(|| client).clone())
}

fn build(local: bool) -> reqwest::Result<Client> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // An error means that a provider is installed already, which serves as well.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
    let builder = Client::builder()
        .user_agent("Crystal")
        .connect_timeout(CONNECT_TIMEOUT)
        // A redirected POST would lose its body or take the key to another host.
        .redirect(reqwest::redirect::Policy::none());
    if local {
        builder.no_proxy().tls_certs_only([]).build()
    } else {
        builder.build()
    }
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn transport(party: &Party, error: reqwest::Error) -> ProviderError {
    let error = error.without_url();
    let cause = innermost(&error);
    let kind = ProviderErrorKind::Server;
    let provider = &party.provider;
    let message = if error.is_connect() {
        format!("Check the network and `baseUri`: {provider} cannot be reached ({cause}).")
    } else if error.is_timeout() {
        format!("Try again: {provider} did not answer in time ({cause}).")
    } else {
        format!("Try again: the connection to {provider} broke ({cause}).")
    };
    ProviderError::new(kind, party.redact(&message))
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// Decodes a body that is here already, given in pieces.
#[cfg(test)]
pub(crate) async fn decode_pieces<D: Decoder>(
    decoder: D,
    party: Party,
    pieces: &[&[u8]],
) -> (Vec<ModelEvent>, Option<ProviderError>) {
    let pieces: Vec<_> = pieces
        .iter()
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    let body = State::Answered(stream::iter(pieces).boxed());
    let mut events = Vec::new();
    let mut stream = run(decoder, party, IDLE_TIMEOUT, body);
    while let Some(item) = stream.next().await {
        match item {
            Ok(event) => events.push(event),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

#[cfg(test)]
mod tests;
