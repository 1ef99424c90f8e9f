//! Failures of providers, told apart: HTTP statuses, error bodies of every shape, and errors inside a stream.

use std::{borrow::Cow, time::Duration};

use jiff::Timestamp;
use reqwest::{StatusCode, header::HeaderMap};
use serde_json::Value;

use super::{ProviderError, ProviderErrorKind as Kind};
use crate::config::{Endpoint, Secret};

/// How much of an error's body is read, in bytes.
pub(crate) const MAX_BODY_BYTES: usize = 64 * 1024;

/// How much of a provider's own words is passed on, in characters.
const MAX_WORDS: usize = 1000;

/// Keys shorter than this are placeholders of local servers; taking them out would garble messages.
const MIN_SECRET_BYTES: usize = 4;

/// Texts of a request that is longer than the context window, in lower case.
const OVERFLOW: &[&str] = &[
    "context_length_exceeded",
    "exceeds the context window",
    "exceed the context window",
    "maximum context length",
    "prompt is too long",
    "exceed_context_size_error",
    "exceeds the context length",
    "exceeds the available context size",
];

/// Texts of a used-up quota, in lower case.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "enforced_spend_limit_reached",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
];

/// Texts of a refused key that comes with a status of its own, in lower case.
const AUTH: &[&str] = &[
    "api key not valid",
    "api_key_invalid",
    "incorrect api key",
    "invalid_api_key",
    "authentication_error",
];

/// Texts of an overloaded provider, in lower case.
const OVERLOADED: &[&str] = &[
    "overloaded_error",
    "server_is_overloaded",
    "\"unavailable\"",
    "insufficient_system_resource",
];

/// Texts of too many requests, in lower case.
const RATE_LIMIT: &[&str] = &["rate_limit", "too_many_requests", "resource_exhausted"];

/// Who answers a request, for messages about it.
#[derive(Clone, Debug)]
pub(crate) struct Party {
    /// The provider's name in the catalog.
    pub(crate) provider: String,
    secrets: Vec<Secret>,
}

impl Party {
    /// The provider of an endpoint; its key and its header values never reach a message.
    pub(crate) fn new(endpoint: &Endpoint) -> Self {
        let headers = endpoint.headers.iter().map(|(_, value)| {
            let value = value.trim();
            Secret::new(value.strip_prefix("Bearer ").unwrap_or(value))
        });
        Self {
            provider: endpoint.provider.clone(),
            secrets: endpoint.api_key.iter().cloned().chain(headers).collect(),
        }
    }

    /// Takes every secret out of a text.
    pub(crate) fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for secret in &self.secrets {
            let secret = secret.expose().trim();
            if secret.len() >= MIN_SECRET_BYTES && text.contains(secret) {
                text = Cow::Owned(text.replace(secret, "[redacted]"));
            }
        }
        text
    }
}

/// The failure that an HTTP answer with an error status means.
pub(crate) fn from_http(
    party: &Party,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> ProviderError {
    let text = String::from_utf8_lossy(body);
    let value: Option<Value> = serde_json::from_str(&text).ok();
    let kind = with_retry_header(classify(Some(status.as_u16()), &text), headers);
    let mut words = match &value {
        Some(value) => own_words(value),
        None => Some(plain_words(&text)),
    }
    .unwrap_or_default();
    if let Some(target) = headers.get("location").and_then(|v| v.to_str().ok())
        && status.is_redirection()
    {
        words = format!("it redirects to {target}, which `baseUri` should name");
    }
    if words.is_empty() {
        words = status
            .canonical_reason()
            .unwrap_or("no reason given")
            .to_owned();
    }
    let mut message = sentence(party, kind, &format!("HTTP {}", status.as_u16()), &words);
    let id = ["x-request-id", "request-id"]
        .iter()
        .find_map(|name| headers.get(*name)?.to_str().ok());
    if let Some(id) = id {
        message.push_str(&format!(" (request {})", party.redact(cut(id, 200))));
    }
    ProviderError {
        kind,
        message,
        retry_after: retry_after(headers, value.as_ref(), Timestamp::now()),
    }
}

/// The failure that an error object inside a stream, or inside an answer with a good status, means. `error` is the
/// value of its `error` field, or the document itself.
pub(crate) fn from_value(party: &Party, error: &Value) -> ProviderError {
    let status = ["code", "status", "status_code"]
        .iter()
        .find_map(|name| error.get(*name))
        .and_then(|code| {
            code.as_u64()
                .or_else(|| code.as_str().and_then(|text| text.parse().ok()))
        })
        .and_then(|code| u16::try_from(code).ok())
        .filter(|code| (400..600).contains(code));
    let type_status = match error.get("type").and_then(Value::as_str) {
        Some("invalid_request_error") => Some(400),
        _ => None,
    };
    let kind = classify(status.or(type_status), &error.to_string());
    let words = own_words(error).unwrap_or_else(|| error.to_string());
    ProviderError {
        kind,
        message: sentence(party, kind, "an error in its answer", &words),
        retry_after: retry_after(&HeaderMap::new(), Some(error), Timestamp::now()),
    }
}

/// The failure of an answer that is no answer: an unknown document, an HTML page, a broken event.
pub(crate) fn from_document(party: &Party, body: &[u8]) -> ProviderError {
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_BODY_BYTES)]);
    match serde_json::from_slice::<Value>(body) {
        Ok(value) => {
            let value = match &value {
                Value::Array(items) => items.first().unwrap_or(&value),
                _ => &value,
            };
            from_value(party, value.get("error").unwrap_or(value))
        }
        Err(_) => broken(
            party,
            &format!("it answered with no stream: {}", plain_words(&text)),
        ),
    }
}

/// A broken answer, which trying again may mend. `cause` is half a sentence.
pub(crate) fn broken(party: &Party, cause: &str) -> ProviderError {
    ProviderError::new(
        Kind::Server,
        format!(
            "Try again: the answer of {} is broken ({}).",
            party.provider,
            party.redact(cut(&party.redact(cause), MAX_WORDS))
        ),
    )
}

/// An answer whose end mark never came.
pub(crate) fn ended_early(party: &Party) -> ProviderError {
    ProviderError::new(
        Kind::Server,
        format!("Try again: {}'s stream ended early.", party.provider),
    )
}

/// A provider that has sent nothing for `waited`.
pub(crate) fn silent(party: &Party, waited: Duration) -> ProviderError {
    ProviderError::new(
        Kind::Server,
        format!(
            "Try again: {} sent nothing for {} seconds.",
            party.provider,
            waited.as_secs()
        ),
    )
}

/// What to do about a failure, with the words of the provider. `what` names how it came, as in `HTTP 429`.
pub(crate) fn sentence(party: &Party, kind: Kind, what: &str, words: &str) -> String {
    let provider = &party.provider;
    let advice = match kind {
        Kind::Auth => format!("Set a valid key for {provider}, which refused this one"),
        Kind::Quota => format!("Check plan and billing at {provider}, whose quota is used up"),
        Kind::RateLimit => format!("Wait and try again: {provider} takes no more requests now"),
        Kind::Overloaded => format!("Wait and try again: {provider} is overloaded"),
        Kind::ContextOverflow => {
            "Compact the session: it is longer than the model's context window".to_owned()
        }
        Kind::BadRequest => {
            format!("Check model and settings: {provider} refused the request")
        }
        Kind::Server => format!("Try again: {provider} failed"),
    };
    let words = party.redact(words);
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{advice} ({what}): {}", cut(&words, MAX_WORDS))
}

fn classify(status: Option<u16>, text: &str) -> Kind {
    let text = text.to_lowercase();
    let has = |texts: &[&str]| texts.iter().any(|known| text.contains(known));
    let token_count = text.contains("input token count") && text.contains("exceeds the maximum");
    if has(OVERFLOW) || token_count {
        return Kind::ContextOverflow;
    }
    match status {
        Some(401 | 403) => Kind::Auth,
        Some(402) => Kind::Quota,
        Some(413) => Kind::ContextOverflow,
        Some(429) if has(QUOTA) => Kind::Quota,
        Some(429) => Kind::RateLimit,
        Some(503 | 529) => Kind::Overloaded,
        _ if has(QUOTA) => Kind::Quota,
        _ if has(OVERLOADED) => Kind::Overloaded,
        Some(408 | 500..) => Kind::Server,
        _ if has(AUTH) => Kind::Auth,
        Some(_) => Kind::BadRequest,
        None if has(RATE_LIMIT) => Kind::RateLimit,
        None if text.contains("invalid_request") || text.contains("not_found") => Kind::BadRequest,
        None => Kind::Server,
    }
}

/// `x-should-retry` is the provider's own judgement; only a key or a quota that is gone stays gone.
fn with_retry_header(kind: Kind, headers: &HeaderMap) -> Kind {
    let asked = headers.get("x-should-retry").and_then(|v| v.to_str().ok());
    match (asked, kind) {
        (Some("true"), Kind::BadRequest) => Kind::Server,
        (Some("false"), Kind::RateLimit) => Kind::Quota,
        (Some("false"), Kind::Overloaded | Kind::Server) => Kind::BadRequest,
        _ => kind,
    }
}

/// How long the provider asks to wait, by header or by Gemini's `retryDelay`.
fn retry_after(headers: &HeaderMap, body: Option<&Value>, now: Timestamp) -> Option<Duration> {
    let header = |name: &str| Some(headers.get(name)?.to_str().ok()?.trim().to_owned());
    let seconds = |text: &str| {
        let number: f64 = text.parse().ok()?;
        Duration::try_from_secs_f64(number).ok()
    };
    if let Some(wait) = header("retry-after-ms").and_then(|text| seconds(&text)) {
        return Some(wait / 1000);
    }
    if let Some(text) = header("retry-after") {
        if let Some(wait) = seconds(&text) {
            return Some(wait);
        }
        if let Ok(date) = jiff::fmt::rfc2822::parse(&text) {
            let wait = date.timestamp().duration_since(now);
            return Some(wait.try_into().unwrap_or(Duration::ZERO));
        }
    }
    let body = match body? {
        Value::Array(items) => items.first()?,
        value => value,
    };
    let details = body.get("error").unwrap_or(body).get("details")?;
    let delay = details
        .as_array()?
        .iter()
        .find_map(|detail| detail.get("retryDelay")?.as_str())?;
    seconds(delay.trim_end_matches('s'))
}

/// The message inside an error document of any known shape.
fn own_words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => own_words(items.first()?),
        Value::Object(fields) => ["error", "message", "detail", "msg", "code", "type"]
            .iter()
            .filter_map(|name| fields.get(*name))
            .find_map(own_words),
        _ => None,
    }
    .filter(|text| !text.trim().is_empty())
}

/// The words of a body that is not JSON: the title of an HTML page, else the text.
fn plain_words(text: &str) -> String {
    let text = text.trim();
    if !text.starts_with('<') {
        return text.to_owned();
    }
    let lower = text.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|start| {
        let start = start + "<title>".len();
        let end = start + lower[start..].find("</title>")?;
        Some(text[start..end].trim())
    });
    match title {
        Some(title) if !title.is_empty() => format!("an HTML page, \"{title}\""),
        _ => "an HTML page".to_owned(),
    }
}

fn cut(text: &str, chars: usize) -> &str {
    match text.char_indices().nth(chars) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests;
