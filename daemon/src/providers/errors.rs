//! Failed requests, whatever the wire: what a status and a body mean, in one sentence that says what to do.

use std::time::Duration;

use serde_json::Value;

use super::{ProviderError, ProviderErrorKind};

/// The provider's own words are quoted up to so many characters.
const QUOTED_CHARS: usize = 500;

/// Phrases with which providers say that a request does not fit the context window.
const OVERFLOW_PHRASES: &[&str] = &[
    "context_length_exceeded",
    "exceeds the context window",
    "maximum context length",
    "prompt is too long",
    "prompt too long",
    "exceeds the maximum",
    "exceed_context_size_error",
    "exceeds the context length",
];

/// Who answers, for messages: the provider's name, and its key, which no message may hold.
#[derive(Clone, Debug)]
pub(super) struct Party {
    pub(super) name: String,
    pub(super) key: Option<crate::config::Secret>,
}

/// What an answer's headers say about trying again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RetryHints {
    /// How long to wait.
    pub(super) after: Option<Duration>,
    /// The provider's own word on whether to try again.
    pub(super) should_retry: Option<bool>,
}

/// An HTTP answer that is an error.
pub(super) fn from_status(
    party: &Party,
    status: u16,
    body: &[u8],
    hints: RetryHints,
) -> ProviderError {
    let value: Option<Value> = serde_json::from_slice(body).ok();
    let text = match &value {
        Some(value) => {
            message_of(value).unwrap_or_else(|| String::from_utf8_lossy(body).into_owned())
        }
        None => plain_text(&String::from_utf8_lossy(body)),
    };
    let code = value.as_ref().map(codes_of).unwrap_or_default();
    let kind = kind_of(status, &format!("{code} {text}"), hints);
    error(
        party,
        kind,
        &format!("it answered {status}"),
        &text,
        hints.after,
    )
}

/// An error that came inside a stream that began well.
pub(super) fn from_stream(party: &Party, value: &Value) -> ProviderError {
    let text = message_of(value).unwrap_or_else(|| value.to_string());
    let codes = codes_of(value);
    let status = numeric_code(value).unwrap_or(0);
    let kind = match kind_of(status, &format!("{codes} {text}"), RetryHints::default()) {
        // Without a status the type tells; an error that says nothing is the provider's fault.
        ProviderErrorKind::BadRequest if status == 0 && !is_bad_request(&codes) => {
            ProviderErrorKind::Server
        }
        kind => kind,
    };
    error(party, kind, "it broke off", &text, None)
}

/// A stream that is no answer.
pub(super) fn broken(party: &Party, why: &str) -> ProviderError {
    let message = format!(
        "The answer of {} cannot be used: {why}. Send the message again.",
        party.name
    );
    ProviderError::new(ProviderErrorKind::Server, message)
}

/// A connection that failed, or was silent too long.
pub(super) fn unreachable(party: &Party, why: &str) -> ProviderError {
    let why = redact(party, why);
    let message = format!(
        "{} cannot be reached ({why}); check the network and the provider's baseUri.",
        party.name
    );
    ProviderError::new(ProviderErrorKind::Server, message)
}

fn error(
    party: &Party,
    kind: ProviderErrorKind,
    what: &str,
    text: &str,
    retry_after: Option<Duration>,
) -> ProviderError {
    let name = &party.name;
    let quoted: String = redact(party, text.trim())
        .chars()
        .take(QUOTED_CHARS)
        .collect();
    let said = if quoted.is_empty() {
        String::new()
    } else {
        format!(" It said: {quoted}")
    };
    let message = match kind {
        ProviderErrorKind::Auth => {
            format!(
                "{name} refused the key ({what}); set another one in the environment or in credentials.json.{said}"
            )
        }
        ProviderErrorKind::Quota => {
            format!("The quota at {name} is used up ({what}); raise it there.{said}")
        }
        ProviderErrorKind::RateLimit => {
            format!("{name} takes no more requests for the moment ({what}).{said}")
        }
        ProviderErrorKind::Overloaded => {
            format!("{name} is overloaded ({what}); try again later.{said}")
        }
        ProviderErrorKind::ContextOverflow => {
            format!(
                "The conversation is too long for the model ({what}); start a new session.{said}"
            )
        }
        ProviderErrorKind::BadRequest => {
            format!(
                "{name} refused the request ({what}); check the model and the provider's settings.{said}"
            )
        }
        ProviderErrorKind::Server => format!("{name} failed ({what}); try again.{said}"),
    };
    ProviderError {
        kind,
        message,
        retry_after,
    }
}

fn redact(party: &Party, text: &str) -> String {
    match party
        .key
        .as_ref()
        .map(crate::config::Secret::expose)
        .filter(|key| !key.is_empty())
    {
        Some(key) => text.replace(key, "[key]"),
        None => text.to_owned(),
    }
}

fn kind_of(status: u16, text: &str, hints: RetryHints) -> ProviderErrorKind {
    let text = text.to_lowercase();
    let says = |phrase: &str| text.contains(phrase);
    if OVERFLOW_PHRASES.iter().any(|phrase| says(phrase)) || status == 413 {
        return ProviderErrorKind::ContextOverflow;
    }
    let kind = match status {
        401 | 403 => ProviderErrorKind::Auth,
        400 if says("incorrect api key")
            || says("api key not valid")
            || says("api_key_invalid") =>
        {
            ProviderErrorKind::Auth
        }
        402 => ProviderErrorKind::Quota,
        _ if says("insufficient_quota")
            || says("exceeded your current quota")
            || says("billing") =>
        {
            ProviderErrorKind::Quota
        }
        429 => ProviderErrorKind::RateLimit,
        503 | 529 => ProviderErrorKind::Overloaded,
        _ if says("overloaded") => ProviderErrorKind::Overloaded,
        _ if status == 0 && (says("rate_limit") || says("rate limit")) => {
            ProviderErrorKind::RateLimit
        }
        _ if status == 0 && (says("invalid_api_key") || says("authentication")) => {
            ProviderErrorKind::Auth
        }
        408 | 500.. => ProviderErrorKind::Server,
        _ => ProviderErrorKind::BadRequest,
    };
    match (hints.should_retry, kind.is_retryable()) {
        (Some(true), false) if kind == ProviderErrorKind::BadRequest => ProviderErrorKind::Server,
        (Some(false), true) => ProviderErrorKind::BadRequest,
        _ => kind,
    }
}

fn is_bad_request(codes: &str) -> bool {
    [
        "invalid_request",
        "bad_request",
        "invalid_argument",
        "tool_use_failed",
    ]
    .iter()
    .any(|code| codes.contains(code))
}

fn numeric_code(value: &Value) -> Option<u16> {
    let error = value.get("error").unwrap_or(value);
    let code = error.get("code").or_else(|| error.get("status_code"))?;
    code.as_u64()
        .and_then(|code| u16::try_from(code).ok())
        .or_else(|| code.as_str()?.parse().ok())
}

/// The names that an error body gives its kind.
fn codes_of(value: &Value) -> String {
    let error = value.get("error").unwrap_or(value);
    let error = error
        .as_array()
        .and_then(|list| list.first())
        .unwrap_or(error);
    let names = ["code", "type", "status"]
        .into_iter()
        .filter_map(|field| error.get(field)?.as_str());
    names.collect::<Vec<_>>().join(" ").to_lowercase()
}

/// The words of an error body, in whichever of the usual forms it has.
fn message_of(value: &Value) -> Option<String> {
    let value = value
        .as_array()
        .and_then(|list| list.first())
        .unwrap_or(value);
    let error = value.get("error").unwrap_or(value);
    let text = error
        .as_str()
        .or_else(|| error.get("message")?.as_str())
        .or_else(|| value.get("message")?.as_str());
    text.map(str::to_owned).or_else(|| {
        let detail = value.get("detail")?;
        Some(
            detail
                .as_str()
                .map_or_else(|| detail.to_string(), str::to_owned),
        )
    })
}

/// Of an HTML page only its words: a proxy answered, and its page is of no use.
fn plain_text(body: &str) -> String {
    if !body.trim_start().starts_with('<') {
        return body.to_owned();
    }
    let mut text = String::new();
    let mut in_tag = false;
    for c in body.chars() {
        match c {
            '<' => in_tag = true,
            '>' => {
                in_tag = false;
                text.push(' ');
            }
            _ if !in_tag => text.push(c),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the headers of an answer say about trying again.
pub(super) fn retry_hints(headers: &reqwest::header::HeaderMap) -> RetryHints {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let millis = text("retry-after-ms")
        .and_then(|ms| ms.parse::<f64>().ok())
        .map(|ms| ms / 1000.0);
    let after = millis.or_else(|| text("retry-after").and_then(seconds_until));
    RetryHints {
        after: after
            .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
            .map(Duration::from_secs_f64),
        should_retry: text("x-should-retry").and_then(|word| word.parse().ok()),
    }
}

/// Seconds, also fractions of them, or an HTTP date.
fn seconds_until(text: &str) -> Option<f64> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Some(seconds);
    }
    // RFC 2822 has no "GMT"; an HTTP date is otherwise one.
    let date = jiff::fmt::rfc2822::parse(&text.replace("GMT", "+0000")).ok()?;
    let wait = date.timestamp().as_millisecond() - jiff::Timestamp::now().as_millisecond();
    Some((wait.max(0) as f64) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party() -> Party {
        Party {
            name: "p".to_owned(),
            key: Some(crate::config::Secret::new("sk-secret")),
        }
    }

    fn kind(status: u16, body: &str) -> ProviderErrorKind {
        from_status(&party(), status, body.as_bytes(), RetryHints::default()).kind
    }

    #[test]
    fn status_and_body_together_tell_the_kind() {
        use ProviderErrorKind as K;
        assert_eq!(kind(401, ""), K::Auth);
        assert_eq!(
            kind(400, r#"{"error":{"message":"Incorrect API key provided"}}"#),
            K::Auth
        );
        assert_eq!(kind(402, ""), K::Quota);
        assert_eq!(
            kind(
                429,
                r#"{"error":{"code":"insufficient_quota","message":"x"}}"#
            ),
            K::Quota
        );
        assert_eq!(kind(429, "slow down"), K::RateLimit);
        assert_eq!(kind(503, "<html>busy</html>"), K::Overloaded);
        assert_eq!(
            kind(400, r#"{"error":{"code":"context_length_exceeded"}}"#),
            K::ContextOverflow
        );
        assert_eq!(kind(413, ""), K::ContextOverflow);
        assert_eq!(kind(404, r#"{"error":"model not found"}"#), K::BadRequest);
        assert_eq!(kind(500, "oops"), K::Server);
    }

    #[test]
    fn a_message_quotes_the_provider_and_never_the_key() {
        let body = br#"{"error":{"message":"the key sk-secret is wrong"}}"#;
        let error = from_status(&party(), 401, body, RetryHints::default());
        assert!(error.message.contains("the key [key] is wrong"), "{error}");
        let html = b"<html><body><h1>502 Bad Gateway</h1></body></html>";
        assert!(
            from_status(&party(), 502, html, RetryHints::default())
                .message
                .ends_with("502 Bad Gateway")
        );
    }

    #[test]
    fn waits_come_in_seconds_or_as_a_date() {
        assert_eq!(seconds_until("1.5"), Some(1.5));
        assert_eq!(seconds_until("Fri, 31 Dec 1999 23:59:59 GMT"), Some(0.0));
        assert_eq!(seconds_until("soon"), None);
    }
}
