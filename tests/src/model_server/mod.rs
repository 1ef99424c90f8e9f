//! A mock model server: real HTTP/1.1 on the loopback, scripted answers, and a strict look at every request.
//!
//! Each connection serves one request. While an answer is under way the server watches for the client to hang up.

pub mod chat;
mod script;

pub use script::{Answer, Gate};

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use script::Step;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedWriteHalf},
    sync::Notify,
    task::JoinHandle,
};

use crate::WAIT_LIMIT;

/// The key that requests must bring.
pub const KEY: &str = "test-key";

/// Longest request that is read, in bytes.
const REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// A request that came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its path.
    pub path: String,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Value,
}

impl Request {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }
}

#[derive(Debug, Default)]
struct State {
    answers: VecDeque<Answer>,
    requests: Vec<Request>,
    faults: Vec<String>,
    hang_ups: usize,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

impl Shared {
    fn with<T>(&self, use_it: impl FnOnce(&mut State) -> T) -> T {
        let result = use_it(&mut self.state.lock().expect("no holder panicked"));
        self.changed.notify_waiters();
        result
    }
}

/// A model server that runs until it is dropped; a request with a fault fails the test then.
#[derive(Debug)]
pub struct ModelServer {
    base_uri: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl ModelServer {
    /// Starts a server with a script.
    pub async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared::default());
        shared.with(|state| state.answers.extend(answers));
        let task = tokio::spawn(serve(listener, shared.clone()));
        Self {
            base_uri: format!("http://{address}/v1"),
            shared,
            task,
        }
    }

    /// Adds answers to the script.
    pub fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        self.shared.with(|state| state.answers.extend(answers));
    }

    /// A `providers.json` whose provider `mock` has this server as its model `m`.
    pub fn providers(&self) -> Value {
        json!({"mock": {
            "protocol": "openai", "baseUri": self.base_uri, "apiKey": KEY,
            "models": {"m": {"contextWindow": 128_000}},
        }})
    }

    /// The requests that came so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.with(|state| state.requests.clone())
    }

    /// Waits until so many requests have come.
    pub async fn wait_requests(&self, count: usize) {
        self.wait("requests", |state| state.requests.len() >= count)
            .await;
    }

    /// Waits until a client has hung up in the middle of an answer.
    pub async fn wait_hang_up(&self) {
        self.wait("a hang-up", |state| state.hang_ups > 0).await;
    }

    async fn wait(&self, what: &str, holds: impl Fn(&State) -> bool) {
        let waiting = async {
            loop {
                let changed = self.shared.changed.notified();
                if holds(&self.shared.state.lock().expect("no holder panicked")) {
                    return;
                }
                changed.await;
            }
        };
        let in_time = tokio::time::timeout(WAIT_LIMIT, waiting).await;
        assert!(in_time.is_ok(), "waited in vain for {what}");
    }

    /// Fails when a request had a fault or an answer was not asked for.
    ///
    /// # Panics
    /// Then.
    pub fn finish(self) {
        let left = self.shared.with(|state| state.answers.len());
        assert_eq!(left, 0, "answers nobody asked for");
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
        let faults = self.shared.with(|state| state.faults.clone());
        if !std::thread::panicking() {
            assert!(
                faults.is_empty(),
                "ill-formed requests:\n{}",
                faults.join("\n")
            );
        } else if !faults.is_empty() {
            eprintln!("ill-formed requests:\n{}", faults.join("\n"));
        }
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        tokio::spawn(async move {
            if let Err(fault) = serve_one(stream, &shared).await {
                shared.with(|state| state.faults.push(fault));
            }
        });
    }
}

async fn serve_one(mut stream: TcpStream, shared: &Shared) -> Result<(), String> {
    // A client may open a connection ahead and never use it.
    let Some(request) = read_request(&mut stream).await? else {
        return Ok(());
    };
    let mut faults = chat::faults(&request.body);
    if request.path != "/v1/chat/completions" {
        faults.push(format!("path {}", request.path));
    }
    if request.header("authorization") != Some(&format!("Bearer {KEY}")) {
        faults.push("no bearer key".to_owned());
    }
    let content_type = request.header("content-type").unwrap_or_default();
    if !content_type.starts_with("application/json") {
        faults.push(format!("content type {content_type:?}"));
    }
    let answer = shared.with(|state| {
        state.requests.push(request);
        state.faults.extend(faults);
        state.answers.pop_front()
    });
    let answer = answer.unwrap_or_else(|| {
        shared.with(|state| state.faults.push("more requests than answers".to_owned()));
        Answer::status(400, r#"{"error":{"message":"the script is at its end"}}"#)
    });
    let (mut reader, mut writer) = stream.into_split();
    let mut byte = [0];
    tokio::select! {
        done = send(&mut writer, &answer) => match done {
            Ok(()) => {}
            Err(_) => shared.with(|state| state.hang_ups += 1),
        },
        _ = reader.read(&mut byte) => shared.with(|state| state.hang_ups += 1),
    }
    Ok(())
}

async fn send(writer: &mut OwnedWriteHalf, answer: &Answer) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
    writer.write_all(head.as_bytes()).await?;
    for step in &answer.steps {
        match step {
            Step::Bytes(bytes) if bytes.is_empty() => {}
            Step::Bytes(bytes) => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend_from_slice(bytes);
                chunk.extend_from_slice(b"\r\n");
                writer.write_all(&chunk).await?;
                writer.flush().await?;
            }
            Step::Gate(gate) => gate.pass().await,
            Step::Cut => return Ok(()),
            Step::Hang => std::future::pending().await,
        }
    }
    writer.write_all(b"0\r\n\r\n").await?;
    writer.shutdown().await
}

/// Reads one request with a `Content-Length`; `None` when the client says nothing at all.
async fn read_request(stream: &mut TcpStream) -> Result<Option<Request>, String> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = find(&bytes, b"\r\n\r\n") {
            break at;
        }
        if read_more(stream, &mut bytes).await? == 0 {
            return if bytes.is_empty() {
                Ok(None)
            } else {
                Err("a cut request".to_owned())
            };
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).map_err(|e| e.to_string())?;
    let mut body = bytes.split_off(head_end + 4);
    let mut lines = head.split("\r\n");
    let start: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let ["POST", path, "HTTP/1.1"] = start[..] else {
        return Err(format!("not a POST of HTTP/1.1: {start:?}"));
    };
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length
        .and_then(|(_, value)| value.parse().ok())
        .ok_or("no content-length")?;
    while body.len() < length {
        if read_more(stream, &mut body).await? == 0 {
            return Err("a cut body".to_owned());
        }
    }
    let body = serde_json::from_slice(&body[..length]).map_err(|e| format!("body: {e}"))?;
    Ok(Some(Request {
        path: path.to_owned(),
        headers,
        body,
    }))
}

async fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Result<usize, String> {
    if bytes.len() > REQUEST_BYTES {
        return Err("a request without end".to_owned());
    }
    // A client that only opened a connection may reset it.
    Ok(stream.read_buf(bytes).await.unwrap_or(0))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests;
