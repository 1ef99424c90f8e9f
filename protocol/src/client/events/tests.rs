//! Streams over scripted connections: each connection is one script.

use std::collections::VecDeque;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use super::*;
use crate::event::{AnyEvent, Event};

struct Server {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Server {
    async fn request(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap()
    }

    async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    async fn answer_attach(&mut self, seq: Seq, snapshot: bool) -> Value {
        let request = self.request().await;
        assert_eq!(request["method"], "session/attach");
        let mut result = json!({"session": info(seq), "seq": seq});
        if snapshot {
            result["snapshot"] = snapshot_at(seq);
        }
        self.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
            .await;
        request["params"].clone()
    }

    async fn event(&mut self, session: &str, seq: Seq, event: Value) {
        let params = json!({"session": session, "seq": seq, "time": TIME, "event": event});
        self.send(json!({"jsonrpc": "2.0", "method": SESSION_EVENT, "params": params}))
            .await;
    }
}

const TIME: &str = "2026-01-01T00:00:00.000Z";

fn info(seq: Seq) -> Value {
    json!({
        "id": "s-one", "title": "", "workspace": "/w", "addDirectories": [], "mode": "work",
        "approval": "default", "provider": "demo", "model": "demo", "imageInput": true,
        "thinking": "default", "promptSet": "default", "status": "idle", "live": true,
        "clients": [], "createdAt": TIME, "updatedAt": TIME, "turns": 0, "seq": seq,
    })
}

fn snapshot_at(seq: Seq) -> Value {
    json!({
        "info": info(seq), "items": [], "hasMore": false, "approvals": [], "questions": [],
        "queue": [], "tasks": [], "todos": [], "images": [], "clients": [],
        "usage": {"last": {"input": 0, "output": 0, "cached": 0, "reasoning": 0},
                  "total": {"input": 0, "output": 0, "cached": 0, "reasoning": 0},
                  "contextTokens": 0, "contextWindow": 0},
        "activity": {"kind": "idle", "since": TIME},
    })
}

fn connection() -> (Connection, Server) {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(near);
    let (client, notifications) = Client::new(reader, writer);
    let server = serde_json::from_value(json!({
        "protocol": 1, "home": "/h", "connection": "c1",
        "server": {"name": "crystald", "version": "0", "build": "0", "pid": 1, "startedAt": TIME},
        "limits": crate::rpc::WireLimits::default(),
        "capabilities": {"stdio": true, "websocket": false, "sandbox": {"kind": "none", "net": false}},
    }))
    .unwrap();
    let (reader, writer) = tokio::io::split(far);
    let lines = BufReader::new(reader).lines();
    (
        Connection {
            client,
            notifications,
            server,
        },
        Server { lines, writer },
    )
}

/// Hands out connections that were made before; a `None` is an attempt that fails.
struct Script(VecDeque<Option<Connection>>);

impl Reconnect for Script {
    fn reconnect(&mut self) -> BoxFuture<'_, Result<Connection, ClientError>> {
        let next = self.0.pop_front();
        Box::pin(async move {
            match next {
                Some(Some(connection)) => Ok(connection),
                Some(None) => Err(ClientError::Closed),
                None => Err(ClientError::Start("no more connections".to_owned())),
            }
        })
    }
}

async fn attach_to(
    connection: Connection,
    script: Script,
    after: Option<Seq>,
) -> Result<SessionStream, ClientError> {
    SessionStream::attach(connection, script, SessionId::new("s-on"), after, Some(5)).await
}

#[tokio::test]
async fn the_snapshot_comes_first_and_foreign_events_are_left_out() {
    let (connection, mut server) = connection();
    let script = Script(VecDeque::new());
    let (stream, params) = tokio::join!(attach_to(connection, script, None), async {
        let params = server.answer_attach(7, true).await;
        server
            .event("other", 8, json!({"type": "sessionClosed", "reason": "x"}))
            .await;
        server
            .event("s-one", 8, json!({"type": "fromTheFuture", "x": 1}))
            .await;
        server
            .event("s-one", 9, json!({"type": "sessionClosed", "reason": "x"}))
            .await;
        params
    });
    assert_eq!(params, json!({"session": "s-on", "items": 5}));
    let mut stream = stream.unwrap();
    assert!(matches!(
        stream.next().await.unwrap(),
        Some(Update::Snapshot(_, 7))
    ));
    let Some(Update::Event(event)) = stream.next().await.unwrap() else {
        panic!("an event was sent");
    };
    assert!(matches!(event.event, AnyEvent::Unknown(_)));
    let Some(Update::Event(event)) = stream.next().await.unwrap() else {
        panic!("an event was sent");
    };
    assert!(matches!(
        event.event,
        AnyEvent::Known(Event::SessionClosed { .. })
    ));
    drop(server);
    assert!(
        stream.next().await.unwrap().is_none(),
        "a closed session needs no connection"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_attached_again_after_the_last_event_seen() {
    let (first, mut one) = connection();
    let (second, mut two) = connection();
    let script = Script(VecDeque::from([None, Some(second)]));
    let (stream, _) = tokio::join!(
        attach_to(first, script, Some(3)),
        one.answer_attach(4, false)
    );
    let mut stream = stream.unwrap();
    one.event("s-one", 4, json!({"type": "configured"})).await;
    drop(one);
    assert!(matches!(
        stream.next().await.unwrap(),
        Some(Update::Event(_))
    ));
    assert!(matches!(
        stream.next().await.unwrap(),
        Some(Update::Disconnected)
    ));
    let (update, params) = tokio::join!(stream.next(), two.answer_attach(6, false));
    assert_eq!(params, json!({"session": "s-one", "after": 4, "items": 5}));
    assert!(matches!(
        update.unwrap(),
        Some(Update::Reattached {
            snapshot: None,
            seq: 6
        })
    ));
    two.event("s-one", 5, json!({"type": "later"})).await;
    let Some(Update::Event(event)) = stream.next().await.unwrap() else {
        panic!("the missed event follows");
    };
    assert_eq!(event.seq, 5);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_after_reattaching_moves_the_cursor() {
    let (first, mut one) = connection();
    let (second, mut two) = connection();
    let (third, mut three) = connection();
    let script = Script(VecDeque::from([Some(second), Some(third)]));
    let (stream, _) = tokio::join!(attach_to(first, script, None), one.answer_attach(2, true));
    let mut stream = stream.unwrap();
    stream.next().await.unwrap();
    drop(one);
    assert!(matches!(
        stream.next().await.unwrap(),
        Some(Update::Disconnected)
    ));
    let (update, params) = tokio::join!(stream.next(), two.answer_attach(4096, true));
    assert_eq!(params["after"], 2);
    assert!(matches!(
        update.unwrap(),
        Some(Update::Reattached {
            snapshot: Some(_),
            seq: 4096
        })
    ));
    drop(two);
    stream.next().await.unwrap();
    let (_, params) = tokio::join!(stream.next(), three.answer_attach(4096, false));
    assert_eq!(params["after"], 4096);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_come_back_ends_the_stream_with_an_error() {
    let (first, mut one) = connection();
    let script = Script((0..1000).map(|_| None).collect());
    let (stream, _) = tokio::join!(attach_to(first, script, None), one.answer_attach(2, true));
    let mut stream = stream.unwrap();
    stream.next().await.unwrap();
    drop(one);
    stream.next().await.unwrap();
    let begin = tokio::time::Instant::now();
    assert!(matches!(stream.next().await, Err(ClientError::Lost(_))));
    assert!(begin.elapsed() <= RECONNECT_WITHIN);
}
