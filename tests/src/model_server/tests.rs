//! The mock server is held to its own promises.

use super::*;
use crate::run_test;

const GOOD: &str = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"u"}]}"#;

async fn post(server: &ModelServer, key: &str, body: &str) -> TcpStream {
    let address = server.base_uri.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address.strip_suffix("/v1").unwrap())
        .await
        .unwrap();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[test]
fn answers_come_in_order_and_in_chunks() {
    run_test(async {
        let server = ModelServer::start(vec![
            Answer::sse("abcdef").in_pieces(4),
            Answer::status(429, "{}").header("Retry-After", "1"),
        ])
        .await;
        let first = rest(post(&server, KEY, GOOD).await).await;
        assert!(first.starts_with("HTTP/1.1 200"), "{first}");
        assert!(
            first.ends_with("\r\n4\r\nabcd\r\n2\r\nef\r\n0\r\n\r\n"),
            "{first}"
        );
        let second = rest(post(&server, KEY, GOOD).await).await;
        assert!(second.starts_with("HTTP/1.1 429") && second.contains("Retry-After: 1"));
        assert_eq!(server.requests().len(), 2);
        server.finish();
    });
}

#[test]
fn a_gate_holds_the_answer_and_a_cut_leaves_it_unfinished() {
    run_test(async {
        let gate = Gate::new();
        let answer = Answer::sse("before")
            .then_gate(&gate)
            .then("after")
            .then_cut();
        let server = ModelServer::start(vec![answer]).await;
        let stream = post(&server, KEY, GOOD).await;
        gate.reached().await;
        gate.open();
        let text = rest(stream).await;
        assert!(text.ends_with("5\r\nafter\r\n"), "{text}");
    });
}

#[test]
fn a_client_that_hangs_up_is_noticed() {
    run_test(async {
        let server = ModelServer::start(vec![Answer::silence()]).await;
        let stream = post(&server, KEY, GOOD).await;
        server.wait_requests(1).await;
        drop(stream);
        server.wait_hang_up().await;
    });
}

#[test]
fn a_fault_in_a_request_fails_the_test() {
    run_test(async {
        let server = ModelServer::start(vec![Answer::sse("x")]).await;
        rest(post(&server, "wrong", r#"{"model":"m","messages":[],"shape":1}"#).await).await;
        let faults = server
            .shared
            .with(|state| std::mem::take(&mut state.faults));
        assert_eq!(faults.len(), 4, "{faults:?}");
        // And one request more than there are answers.
        rest(post(&server, KEY, GOOD).await).await;
        let faults = server
            .shared
            .with(|state| std::mem::take(&mut state.faults));
        assert_eq!(faults, ["more requests than answers"]);
    });
}
