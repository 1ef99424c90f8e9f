//! Tests of [`super`] against a server on this machine.

use std::sync::mpsc;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::config::{Endpoint, Secret};

/// Echoes the data of its events as text; `end` ends the answer.
struct Echo {
    ended: bool,
}

impl Decoder for Echo {
    fn event(
        &mut self,
        event: &SseEvent,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<Progress, ProviderError> {
        if event.data == DONE {
            self.ended = true;
            return Ok(Progress::Closed);
        }
        out.push_back(ModelEvent::Text(event.data.clone()));
        Ok(Progress::Open)
    }

    fn whole(&mut self, body: &[u8], out: &mut VecDeque<ModelEvent>) -> Result<(), ProviderError> {
        let text = String::from_utf8_lossy(body).into_owned();
        out.push_back(ModelEvent::Text(text));
        Ok(())
    }

    fn end(&mut self, _: &mut VecDeque<ModelEvent>) -> Result<(), ProviderError> {
        if self.ended {
            return Ok(());
        }
        Err(errors::ended_early(&party()))
    }
}

fn party() -> Party {
    Party::new(&Endpoint {
        protocol: "openai".into(),
        provider: "acme".into(),
        base_uri: String::new(),
        api_key: Some(Secret::new("sk-secret")),
        headers: Vec::new(),
        organization: None,
        project: None,
        token_limit_field: None,
    })
}

fn outgoing(url: String) -> Outgoing {
    let mut headers = HeaderMap::new();
    insert_header(&mut headers, "authorization", "Bearer sk-secret", true).unwrap();
    Outgoing {
        url,
        headers,
        body: b"{}".to_vec(),
        party: party(),
    }
}

/// Answers one request with `answer` and tells what it got; keeps the connection when `answer` is empty.
async fn serve(answer: &'static str) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/x", listener.local_addr().unwrap());
    let (sender, receiver) = mpsc::channel();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut got = Vec::new();
        while !got.ends_with(b"{}") {
            let mut piece = [0; 1024];
            let len = socket.read(&mut piece).await.unwrap();
            got.extend_from_slice(&piece[..len]);
        }
        sender.send(String::from_utf8(got).unwrap()).unwrap();
        socket.write_all(answer.as_bytes()).await.unwrap();
        if answer.is_empty() {
            // Ends when the client hangs up, be it by a reset.
            assert!(!matches!(socket.read(&mut [0; 1]).await, Ok(1..)));
            sender.send("hung up".to_owned()).unwrap();
        }
    });
    (url, receiver)
}

async fn events(url: String, idle: Duration) -> Vec<Result<ModelEvent, ProviderError>> {
    stream_events(outgoing(url), Echo { ended: false }, idle)
        .collect()
        .await
}

#[tokio::test]
async fn a_plain_http_server_is_asked_and_read() {
    let (url, got) = serve(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: a\n\ndata: [DONE]\n\n",
    )
    .await;
    let events = events(url, IDLE_TIMEOUT).await;
    assert_eq!(events, [Ok(ModelEvent::Text("a".into()))]);
    let got = got.recv().unwrap();
    assert!(got.starts_with("POST /v1/x HTTP/1.1\r\n"), "{got}");
    for header in [
        "user-agent: Crystal\r\n",
        "content-type: application/json\r\n",
        "authorization: Bearer sk-secret\r\n",
    ] {
        assert!(got.contains(header), "{got}");
    }
}

#[tokio::test]
async fn a_document_instead_of_a_stream_is_taken_whole() {
    let (url, _got) =
        serve("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n {\"a\":\n1}").await;
    let events = events(url, IDLE_TIMEOUT).await;
    assert_eq!(events, [Ok(ModelEvent::Text(" {\"a\":\n1}".into()))]);
}

#[tokio::test]
async fn an_error_status_becomes_an_error() {
    let (url, _got) = serve(
        "HTTP/1.1 429 Too Many\r\nretry-after: 3\r\nconnection: close\r\n\r\n{\"error\":{\"message\":\"slow down, sk-secret\"}}",
    )
    .await;
    let events = events(url, IDLE_TIMEOUT).await;
    let [Err(error)] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(error.kind, ProviderErrorKind::RateLimit);
    assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
    assert!(error.message.contains("slow down, [redacted]"), "{error}");
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_an_error() {
    let (url, _got) = serve("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\ndata: a\n\ndata: {").await;
    let events = events(url, IDLE_TIMEOUT).await;
    assert_eq!(events.len(), 2);
    let error = events[1].as_ref().unwrap_err();
    assert!(error.message.contains("ended early"), "{error}");
}

#[tokio::test]
async fn a_silent_server_is_given_up() {
    let (url, _got) = serve("").await;
    let events = events(url, Duration::from_millis(30)).await;
    let error = events[0].as_ref().unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Server);
    assert!(error.message.contains("sent nothing"), "{error}");
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let (url, got) = serve("").await;
    let mut stream = stream_events(outgoing(url), Echo { ended: false }, IDLE_TIMEOUT);
    let heard = tokio::task::spawn_blocking(move || {
        got.recv().unwrap();
        got
    });
    let got = tokio::select! {
        _ = stream.next() => panic!("nothing was answered"),
        got = heard => got.unwrap(),
    };
    drop(stream);
    let end = tokio::task::spawn_blocking(move || got.recv().unwrap());
    assert_eq!(end.await.unwrap(), "hung up");
}

#[tokio::test]
async fn an_address_that_nobody_serves_is_a_retryable_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let events = events(url, IDLE_TIMEOUT).await;
    let error = events[0].as_ref().unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Server);
    assert!(error.message.contains("acme cannot be reached"), "{error}");
}

#[tokio::test]
async fn an_address_that_is_none_is_refused() {
    let events = events("not an address".into(), IDLE_TIMEOUT).await;
    let error = events[0].as_ref().unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::BadRequest);
    assert!(error.message.contains("baseUri"), "{error}");
}

#[test]
fn base_and_path_meet_in_one_slash() {
    for base in ["http://a/v1", "http://a/v1/", "http://a/v1//"] {
        assert_eq!(
            join(base, "/chat/completions"),
            "http://a/v1/chat/completions"
        );
    }
}

#[test]
fn a_header_that_cannot_be_sent_does_not_show_its_value() {
    let error = insert_header(&mut HeaderMap::new(), "x-key", "sk-\nsecret", true).unwrap_err();
    assert!(!error.message.contains("secret"), "{error}");
}
