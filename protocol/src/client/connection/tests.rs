//! A scripted server at the other end of a pipe.

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use super::*;
use crate::rpc::{DaemonStatus, Empty};

struct Server {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Server {
    async fn request(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn send(&mut self, message: Value) {
        let line = line_of(message.to_string().as_bytes());
        self.writer.write_all(&line).await.unwrap();
    }
}

fn pair() -> (Client, Notifications, Server) {
    let (near, far) = tokio::io::duplex(4096);
    let (reader, writer) = tokio::io::split(near);
    let (client, notifications) = Client::new(reader, writer);
    let (reader, writer) = tokio::io::split(far);
    let lines = BufReader::new(reader).lines();
    (client, notifications, Server { lines, writer })
}

#[tokio::test]
async fn answers_find_their_calls_whatever_their_order() {
    let (client, _notifications, mut server) = pair();
    let calls = async {
        tokio::join!(
            client.call_raw("a/one", None),
            client.call_raw("a/two", Some(json!({"x": 1})))
        )
    };
    let script = async {
        let one = server.request().await;
        let two = server.request().await;
        assert_eq!(
            (&one["method"], &one["params"]),
            (&json!("a/one"), &json!({}))
        );
        server
            .send(json!({"jsonrpc": "2.0", "id": two["id"], "result": null}))
            .await;
        server
            .send(json!({"jsonrpc": "2.0", "id": one["id"], "result": "one"}))
            .await;
    };
    let ((one, two), ()) = tokio::join!(calls, script);
    assert_eq!(one.unwrap(), json!("one"));
    assert_eq!(two.unwrap(), Value::Null);
}

#[tokio::test]
async fn an_error_without_an_id_and_a_line_of_rubbish_end_nothing() {
    let (client, _notifications, mut server) = pair();
    let script = async {
        let request = server.request().await;
        let stray = json!({"code": -32700, "message": "not JSON"});
        server
            .send(json!({"jsonrpc": "2.0", "id": null, "error": stray}))
            .await;
        server.writer.write_all(b"rubbish\n[]\n").await.unwrap();
        let error = json!({"code": -32003, "message": "busy", "data": {"kind": "sessionBusy"}});
        server
            .send(json!({"jsonrpc": "2.0", "id": request["id"], "error": error}))
            .await;
    };
    let (answer, ()) = tokio::join!(client.call_raw("a/b", None), script);
    let error = answer.unwrap_err();
    assert_eq!(error.rpc().unwrap().code, -32003);
}

#[tokio::test]
async fn a_message_over_the_bound_is_refused_before_it_is_sent() {
    let (client, _notifications, mut server) = pair();
    let long = "x".repeat(limits::MESSAGE_BYTES_BEFORE_INITIALIZE);
    let refused = client.call_raw("a/b", Some(json!({"text": long}))).await;
    assert!(matches!(refused, Err(ClientError::TooLarge { .. })));
    let script = async {
        let request = server.request().await;
        assert_eq!(request["method"], "a/c", "nothing of the long one was sent");
        server
            .send(json!({"jsonrpc": "2.0", "id": request["id"], "result": 1}))
            .await;
    };
    let (answer, ()) = tokio::join!(client.call_raw("a/c", None), script);
    assert_eq!(answer.unwrap(), json!(1));
}

#[tokio::test]
async fn notifications_keep_their_order_and_a_slow_consumer_loses_none() {
    let (client, mut notifications, mut server) = pair();
    let count = NOTIFICATIONS * 2;
    let script = tokio::spawn(async move {
        for n in 0..count {
            server
                .send(json!({"jsonrpc": "2.0", "method": "n", "params": {"n": n}}))
                .await;
        }
        server
    });
    for n in 0..count {
        let got = notifications.next().await.unwrap();
        assert_eq!(got.params.get(), format!("{{\"n\":{n}}}"));
    }
    drop(script.await.unwrap());
    assert!(notifications.next().await.is_none());
    let error = client.call_raw("a/b", None).await.unwrap_err();
    assert!(error.is_disconnect());
}

#[tokio::test]
async fn calls_go_on_when_nobody_wants_notifications() {
    let (client, notifications, mut server) = pair();
    drop(notifications);
    let script = async {
        let request = server.request().await;
        for _ in 0..NOTIFICATIONS * 2 {
            server.send(json!({"jsonrpc": "2.0", "method": "n"})).await;
        }
        server
            .send(json!({"jsonrpc": "2.0", "id": request["id"], "result": {}}))
            .await;
    };
    let (answer, ()) = tokio::join!(client.call_raw("a/b", None), script);
    assert_eq!(answer.unwrap(), json!({}));
}

#[tokio::test]
async fn a_call_in_flight_ends_with_the_connection() {
    let (client, _notifications, mut server) = pair();
    let script = async {
        server.request().await;
        drop(server);
    };
    let (answer, ()) = tokio::join!(client.call_raw("a/b", None), script);
    assert!(answer.unwrap_err().is_disconnect());
}

#[tokio::test]
async fn an_answer_of_another_form_names_the_method() {
    let (client, _notifications, mut server) = pair();
    let script = async {
        let request = server.request().await;
        server
            .send(json!({"jsonrpc": "2.0", "id": request["id"], "result": {"pid": "x"}}))
            .await;
    };
    let (answer, ()) = tokio::join!(client.call::<DaemonStatus>(Empty {}), script);
    let text = answer.unwrap_err().to_string();
    assert!(text.contains("daemon/status"), "{text}");
}

#[tokio::test]
async fn closing_ends_the_stream_of_the_other_side() {
    let (client, _notifications, mut server) = pair();
    client.close().await;
    assert!(server.lines.next_line().await.unwrap().is_none());
    assert!(matches!(
        client.call_raw("a/b", None).await,
        Err(ClientError::Closed)
    ));
}
