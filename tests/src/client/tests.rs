//! The client is held to its own promises, against a server that only says what a test tells it to.

use tokio::io::AsyncWriteExt;

use super::*;
use crate::run_test;

/// A client, and the other end of its connection.
fn pair() -> (Client, tokio::io::DuplexStream) {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(near);
    (Client::over(reader, writer), far)
}

async fn say(far: &mut tokio::io::DuplexStream, message: Value) {
    let line = format!("{message}\n");
    far.write_all(line.as_bytes()).await.unwrap();
}

fn delta(seq: u64, first: Option<u64>, text: &str) -> Value {
    let mut params = json!({
        "session": "s", "seq": seq, "time": "2026-01-01T00:00:00.000Z",
        "event": {"type": "itemDelta", "item": "i", "field": "text", "delta": text},
    });
    if let Some(first) = first {
        params["firstSeq"] = first.into();
    }
    json!({"jsonrpc": "2.0", "method": "session/event", "params": params})
}

#[test]
fn answers_find_their_requests_in_any_order_and_strangers_are_kept_apart() {
    run_test(async {
        let (mut client, mut far) = pair();
        let one = client.send("a", json!({})).await;
        let two = client.send("b", json!({})).await;
        say(&mut far, json!({"jsonrpc": "2.0", "id": two, "result": 2})).await;
        say(
            &mut far,
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "m"}}),
        )
        .await;
        say(
            &mut far,
            json!({"jsonrpc": "2.0", "id": one, "error": {"code": -32601, "message": "m"}}),
        )
        .await;
        assert_eq!(client.answer(one).await.unwrap_err().code, -32601);
        assert_eq!(client.answer(two).await.unwrap(), 2);
        assert_eq!(client.next_other().await["error"]["code"], -32700);
    });
}

#[test]
fn events_in_order_and_merged_ones_pass_and_are_waited_for_one_after_the_other() {
    run_test(async {
        let (mut client, mut far) = pair();
        for message in [
            delta(7, None, "a"),
            delta(8, None, "b"),
            delta(11, Some(9), "cde"),
            delta(12, None, "f"),
        ] {
            say(&mut far, message).await;
        }
        client.wait_delta("s", "b").await;
        client.wait_delta("s", "f").await;
        let watched = client.watched("s");
        assert_eq!(
            (watched.head(), watched.merged(), watched.events().len()),
            (12, 1, 4)
        );
        let essence = crate::watched::essence(watched.events());
        assert_eq!(essence.len(), 1, "adjacent deltas are one");
        assert_eq!(essence[0].0, 12);
        drop(far);
        client.wait_closed().await;
    });
}

#[test]
#[should_panic(expected = "events follow each other")]
fn a_gap_fails_the_test() {
    run_test(async {
        let (mut client, mut far) = pair();
        say(&mut far, delta(7, None, "a")).await;
        say(&mut far, delta(9, None, "b")).await;
        client.wait_delta("s", "b").await;
    });
}

#[test]
#[should_panic(expected = "a notification names its session")]
fn an_event_without_its_session_fails_the_test() {
    run_test(async {
        let (mut client, mut far) = pair();
        let mut message = delta(7, None, "a");
        message["params"]["session"] = Value::Null;
        say(&mut far, message).await;
        client.wait_delta("s", "a").await;
    });
}

#[test]
fn a_line_that_comes_in_pieces_survives_a_wait_that_is_given_up() {
    run_test(async {
        let (mut client, mut far) = pair();
        let line = format!("{}\n", delta(7, None, "whole"));
        let (first, second) = line.split_at(30);
        far.write_all(first.as_bytes()).await.unwrap();
        client.read_for(Duration::from_millis(5)).await;
        far.write_all(second.as_bytes()).await.unwrap();
        client.wait_delta("s", "whole").await;
    });
}
