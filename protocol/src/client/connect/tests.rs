//! Real sockets, scripted daemons.

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
};

use super::*;

fn home() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::locate(Some(dir.path())).unwrap();
    std::fs::create_dir(home.run_dir()).unwrap();
    (dir, home)
}

fn options() -> ConnectOptions {
    ConnectOptions {
        start: StartPolicy::Never,
        environment: None,
        ..ConnectOptions::controller("test", "0")
    }
}

/// Answers `initialize` and gives the request back.
async fn welcome(stream: UnixStream) -> (serde_json::Value, UnixStream) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    let request: serde_json::Value = serde_json::from_str(&line).unwrap();
    let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": {
        "protocol": 1, "home": "/h", "connection": "c1",
        "server": {"name": "crystald", "version": "0", "build": "0", "pid": 1,
                   "startedAt": "2026-01-01T00:00:00.000Z"},
        "limits": crate::rpc::WireLimits::default(),
        "capabilities": {"stdio": true, "websocket": false, "sandbox": {"kind": "none", "net": false}},
    }});
    let line = format!("{answer}\n");
    stream.write_all(line.as_bytes()).await.unwrap();
    (request, stream.into_inner())
}

#[tokio::test]
async fn an_absent_daemon_and_a_stale_socket_are_both_no_daemon() {
    let (_dir, home) = home();
    let absent = connect_or_start(&home, &options()).await;
    assert!(matches!(absent, Err(ClientError::NotRunning { .. })));
    drop(UnixListener::bind(home.socket_path()).unwrap());
    let stale = connect_or_start(&home, &options()).await;
    assert!(matches!(stale, Err(ClientError::NotRunning { .. })));
}

#[tokio::test]
async fn a_daemon_that_hangs_up_before_it_answers_is_tried_again() {
    let (_dir, home) = home();
    let listener = UnixListener::bind(home.socket_path()).unwrap();
    let daemon = async {
        for _ in 0..3 {
            drop(listener.accept().await.unwrap());
        }
        welcome(listener.accept().await.unwrap().0).await
    };
    let options = options();
    let (connection, (request, _stream)) = tokio::join!(connect_or_start(&home, &options), daemon);
    assert_eq!(connection.unwrap().server.protocol, 1);
    assert_eq!(request["method"], "initialize");
    assert_eq!(request["params"]["client"]["name"], "test");
    assert_eq!(request["params"]["role"], "controller");
}

#[tokio::test]
async fn a_refusal_of_initialize_is_the_answer() {
    let (_dir, home) = home();
    let listener = UnixListener::bind(home.socket_path()).unwrap();
    let daemon = async {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let error =
            json!({"code": -32001, "message": "too old", "data": {"kind": "unsupportedProtocol"}});
        let answer = json!({"jsonrpc": "2.0", "id": 1, "error": error});
        let line = format!("{answer}\n");
        stream.write_all(line.as_bytes()).await.unwrap();
        stream
    };
    let options = options();
    let (refused, _stream) = tokio::join!(connect_or_start(&home, &options), daemon);
    assert_eq!(refused.unwrap_err().rpc().unwrap().code, -32001);
}

#[tokio::test]
async fn a_child_that_serves_stdio_is_reaped_when_the_connection_closes() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}"#;
    let mut command = Command::new("sh");
    command.args(["-c", &format!("read line; echo '{answer}'; cat >/dev/null")]);
    let refused = connect_stdio(command, &options()).await;
    assert_eq!(refused.unwrap_err().rpc().unwrap().code, -32001);
}
