//! Tests of [`super`].

use reqwest::header::{HeaderName, HeaderValue};
use serde_json::json;

use super::*;

fn party() -> Party {
    Party::new(&Endpoint {
        protocol: "openai".into(),
        provider: "acme".into(),
        base_uri: String::new(),
        api_key: Some(Secret::new("sk-secret")),
        headers: vec![("x-other".into(), "Bearer other-secret".into())],
        organization: None,
        project: None,
        token_limit_field: None,
    })
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        })
        .collect()
}

fn http(status: u16, body: &str) -> ProviderError {
    let status = StatusCode::from_u16(status).unwrap();
    from_http(&party(), status, &HeaderMap::new(), body.as_bytes())
}

#[test]
fn kinds_follow_text_and_status() {
    let cases = [
        (401, "", Kind::Auth),
        (403, "", Kind::Auth),
        (
            400,
            r#"{"error":{"message":"API key not valid. Please pass a valid API key."}}"#,
            Kind::Auth,
        ),
        (400, r#"{"error":"Incorrect API key provided"}"#, Kind::Auth),
        (402, "", Kind::Quota),
        (
            429,
            r#"{"error":{"code":"insufficient_quota"}}"#,
            Kind::Quota,
        ),
        (429, "", Kind::RateLimit),
        (503, "", Kind::Overloaded),
        (529, "", Kind::Overloaded),
        (
            500,
            r#"{"type":"error","error":{"type":"overloaded_error"}}"#,
            Kind::Overloaded,
        ),
        (
            400,
            r#"{"error":{"code":"context_length_exceeded"}}"#,
            Kind::ContextOverflow,
        ),
        (
            500,
            r#"{"error":"prompt is too long: 3 tokens > 2"}"#,
            Kind::ContextOverflow,
        ),
        (
            400,
            "The input token count (9) exceeds the maximum number of tokens allowed (5).",
            Kind::ContextOverflow,
        ),
        (413, "", Kind::ContextOverflow),
        (400, "", Kind::BadRequest),
        (
            404,
            r#"{"error":{"message":"model not found"}}"#,
            Kind::BadRequest,
        ),
        (409, "", Kind::BadRequest),
        (422, "", Kind::BadRequest),
        (307, "", Kind::BadRequest),
        (408, "", Kind::Server),
        (500, "", Kind::Server),
        (502, "<html>", Kind::Server),
    ];
    for (status, body, kind) in cases {
        assert_eq!(http(status, body).kind, kind, "{status} {body}");
    }
}

#[test]
fn the_words_of_every_body_shape_are_passed_on() {
    for body in [
        r#"{"error":{"message":"no such thing","type":"x","code":5}}"#,
        r#"{"type":"error","error":{"type":"x","message":"no such thing"},"request_id":"r"}"#,
        r#"[{"error":{"code":400,"message":"no such thing","status":"X"}}]"#,
        r#"{"error":"no such thing"}"#,
        r#"{"detail":"no such thing"}"#,
        r#"{"detail":[{"msg":"no such thing","loc":[]}]}"#,
        r#"{"message":"no such thing"}"#,
        "no such thing",
        "<html><head><TITLE> no such thing </TITLE></head></html>",
    ] {
        let error = http(400, body);
        assert!(error.message.contains("no such thing"), "{body}: {error}");
        assert!(!error.message.contains("<html>"), "{error}");
    }
}

#[test]
fn a_message_says_what_to_do_and_which_request_it_was() {
    let headers = headers(&[("x-request-id", "req_7")]);
    let error = from_http(&party(), StatusCode::UNAUTHORIZED, &headers, b"");
    assert_eq!(
        error.message,
        "Set a valid key for acme, which refused this one (HTTP 401): Unauthorized (request req_7)"
    );
}

#[test]
fn no_secret_is_in_a_message() {
    let body = format!("{} sk-secret and other-secret", "x".repeat(990));
    let error = http(401, &body);
    assert!(!error.message.contains("sk-"), "{error}");
    let error = http(401, "sk-secret and other-secret");
    assert!(
        error.message.ends_with("[redacted] and [redacted]"),
        "{error}"
    );
    let error = from_value(&party(), &json!({"message": "sk-secret"}));
    assert!(!error.message.contains("sk-secret"), "{error}");
}

#[test]
fn long_bodies_are_cut() {
    assert!(http(500, &"é".repeat(60_000)).message.chars().count() < 1200);
}

#[test]
fn waits_come_from_headers_and_bodies() {
    let now: Timestamp = "2026-11-05T10:00:00Z".parse().unwrap();
    let wait = |pairs: &[(&'static str, &'static str)]| retry_after(&headers(pairs), None, now);
    let millis = |n| Some(Duration::from_millis(n));
    assert_eq!(
        wait(&[("retry-after-ms", "250"), ("retry-after", "9")]),
        millis(250)
    );
    assert_eq!(wait(&[("retry-after", "1.5")]), millis(1500));
    assert_eq!(
        wait(&[("retry-after", "Thu, 05 Nov 2026 10:00:07 GMT")]),
        millis(7000)
    );
    assert_eq!(
        wait(&[("retry-after", "Thu, 05 Nov 2026 09:00:00 GMT")]),
        millis(0)
    );
    assert_eq!(wait(&[("retry-after", "soon")]), None);
    assert_eq!(wait(&[("retry-after", "-1")]), None);
    let body = json!([{"error": {"details": [{"x": 1}, {"retryDelay": "34s"}]}}]);
    assert_eq!(
        retry_after(&HeaderMap::new(), Some(&body), now),
        millis(34_000)
    );
}

#[test]
fn the_provider_judges_whether_to_retry() {
    let ask = |status: StatusCode, value| {
        let headers = headers(&[("x-should-retry", value)]);
        from_http(&party(), status, &headers, b"")
            .kind
            .is_retryable()
    };
    assert!(ask(StatusCode::CONFLICT, "true"));
    assert!(!ask(StatusCode::TOO_MANY_REQUESTS, "false"));
    assert!(!ask(StatusCode::INTERNAL_SERVER_ERROR, "false"));
    assert!(!ask(StatusCode::UNAUTHORIZED, "true"));
}

#[test]
fn errors_in_a_stream_are_told_apart_by_code_or_words() {
    let cases = [
        (
            json!({"code": 400, "message": "Token limit reached"}),
            Kind::BadRequest,
        ),
        (json!({"code": "502", "message": "upstream"}), Kind::Server),
        (json!({"type": "overloaded_error"}), Kind::Overloaded),
        (json!({"type": "rate_limit_error"}), Kind::RateLimit),
        (json!({"type": "invalid_request_error"}), Kind::BadRequest),
        (json!({"code": "insufficient_quota"}), Kind::Quota),
        (json!({"code": "invalid_api_key"}), Kind::Auth),
        (json!("the model runner has stopped"), Kind::Server),
    ];
    for (error, kind) in cases {
        assert_eq!(from_value(&party(), &error).kind, kind, "{error}");
    }
}
