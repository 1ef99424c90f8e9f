//! The `openai` wire: OpenAI-compatible Chat Completions, streamed as server-sent events.
//!
//! Request form and stream: <https://platform.openai.com/docs/api-reference/chat>; what other servers of this wire do
//! differently is taken in `stream`.

mod request;
mod stream;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream as streams};
use reqwest::header::HeaderMap;

use self::stream::Decoder;
use super::{
    ModelEvent, ModelRequest, ModelStream, Provider, ProviderError,
    errors::{self, Party},
    http::{self, Body, Outgoing},
    sse::{SseEvent, SseParser},
};
use crate::config::Endpoint;

/// How long is waited for what may follow the end of an answer: token counts, a late error.
const AFTER_END: Duration = Duration::from_secs(5);

/// Largest whole answer that a server may give instead of a stream, in bytes.
const WHOLE_BYTES: usize = 32 * 1024 * 1024;

/// An endpoint that speaks Chat Completions.
pub struct ChatCompletions {
    endpoint: Endpoint,
    headers: HeaderMap,
}

/// Binds the wire to an endpoint.
///
/// # Errors
/// When a header or the key cannot be sent.
pub fn open(endpoint: &Endpoint) -> Result<Arc<dyn Provider>, ProviderError> {
    let mut headers = HeaderMap::new();
    if let Some(key) = &endpoint.api_key {
        http::insert_header(
            &mut headers,
            "authorization",
            &format!("Bearer {}", key.expose()),
            true,
        )?;
    }
    if let Some(organization) = &endpoint.organization {
        http::insert_header(&mut headers, "openai-organization", organization, false)?;
    }
    if let Some(project) = &endpoint.project {
        http::insert_header(&mut headers, "openai-project", project, false)?;
    }
    for (name, value) in &endpoint.headers {
        http::insert_header(&mut headers, name, value, true)?;
    }
    Ok(Arc::new(ChatCompletions {
        endpoint: endpoint.clone(),
        headers,
    }))
}

impl Provider for ChatCompletions {
    fn stream(&self, request: ModelRequest) -> ModelStream {
        let party = Party {
            name: self.endpoint.provider.clone(),
            key: self.endpoint.api_key.clone(),
        };
        let outgoing = Outgoing {
            url: http::join(&self.endpoint.base_uri, "chat/completions"),
            headers: self.headers.clone(),
            body: request::body(&self.endpoint, &request),
            party: party.clone(),
        };
        let reader = Reader {
            state: State::Unsent(Box::new(outgoing)),
            decoder: Decoder::new(party),
            ready: VecDeque::new(),
        };
        streams::unfold(reader, |mut reader| async move {
            let item = reader.next().await?;
            Some((item, reader))
        })
        .boxed()
    }
}

enum State {
    Unsent(Box<Outgoing>),
    Reading(Box<(Body, SseParser)>),
    Done,
}

/// Reads an answer event by event.
struct Reader {
    state: State,
    decoder: Decoder,
    ready: VecDeque<ModelEvent>,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<ModelEvent, ProviderError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let step = match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return None,
                State::Unsent(outgoing) => self.open(*outgoing).await,
                State::Reading(reading) => self.read(*reading).await,
            };
            match step {
                Ok(state) => self.state = state,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    async fn open(&mut self, outgoing: Outgoing) -> Result<State, ProviderError> {
        let mut body = http::send(outgoing).await?;
        let mut head = Vec::new();
        // A stream begins with a field, a comment or a blank line, so its first character tells it apart from a JSON
        // document or an HTML page, whatever its content type claims.
        while !head.iter().any(|byte: &u8| !byte.is_ascii_whitespace()) {
            match body.next(http::IDLE_TIMEOUT).await? {
                Some(bytes) => head.extend_from_slice(&bytes),
                None => return self.end(),
            }
        }
        let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
        if matches!(first, Some(b'{' | b'[' | b'<')) {
            return self.whole(body, head).await;
        }
        let mut parser = SseParser::default();
        self.feed(&mut parser, &head)?;
        Ok(State::Reading(Box::new((body, parser))))
    }

    async fn whole(
        &mut self,
        mut body: Body,
        mut document: Vec<u8>,
    ) -> Result<State, ProviderError> {
        while let Some(bytes) = body.next(http::IDLE_TIMEOUT).await? {
            if document.len() + bytes.len() > WHOLE_BYTES {
                return Err(errors::broken(
                    self.decoder.party(),
                    "it is larger than 32 MiB",
                ));
            }
            document.extend_from_slice(&bytes);
        }
        self.decoder.whole(&document, &mut self.ready)?;
        self.end()
    }

    async fn read(
        &mut self,
        (mut body, mut parser): (Body, SseParser),
    ) -> Result<State, ProviderError> {
        let wait = if self.decoder.is_whole() {
            AFTER_END
        } else {
            http::IDLE_TIMEOUT
        };
        match body.next(wait).await {
            Ok(Some(bytes)) => {
                self.feed(&mut parser, &bytes)?;
                if self.decoder.is_closed() {
                    return self.end();
                }
                Ok(State::Reading(Box::new((body, parser))))
            }
            Ok(None) => {
                let mut events = Vec::new();
                parser.finish(&mut events);
                self.take(events)?;
                self.end()
            }
            // The answer is whole; how its connection ends does not matter.
            Err(_) if self.decoder.is_whole() => self.end(),
            Err(error) => Err(error),
        }
    }

    fn feed(&mut self, parser: &mut SseParser, bytes: &[u8]) -> Result<(), ProviderError> {
        let mut events = Vec::new();
        let pushed = parser.push(bytes, &mut events);
        self.take(events)?;
        pushed.map_err(|error| errors::broken(self.decoder.party(), &error.to_string()))
    }

    fn take(&mut self, events: Vec<SseEvent>) -> Result<(), ProviderError> {
        for event in events {
            self.decoder.event(&event, &mut self.ready)?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<State, ProviderError> {
        let end = self.decoder.end()?;
        self.ready.push_back(end);
        Ok(State::Done)
    }
}

#[cfg(test)]
mod tests;
