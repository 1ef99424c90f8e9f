//! The tests' own client: raw JSON-RPC over the local socket, with the rules of the wire checked on every message.
//!
//! It reads only within its own calls, so a test that does not call it has a stopped reader.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    path::Path,
    time::Duration,
};

use crystal_protocol::error::RpcError;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{WAIT_LIMIT, daemon::Daemon, raw::RawConnection, watched::Watched};

/// The outcome of a call.
pub type Answer = Result<Value, RpcError>;

/// A connection of one client.
#[derive(Debug)]
pub struct Client {
    raw: RawConnection,
    next_id: u64,
    /// Requests without an answer.
    waiting: BTreeSet<u64>,
    /// Answers nobody has asked for yet.
    answers: HashMap<u64, Answer>,
    pub(crate) sessions: BTreeMap<String, Watched>,
    /// Notifications that belong to no session.
    notifications: VecDeque<Value>,
    /// Batch answers, and errors without an id.
    others: VecDeque<Value>,
    hello: Value,
}

impl Client {
    /// Connects and says `initialize`.
    pub async fn connect(daemon: &Daemon) -> Self {
        Self::connect_to(&daemon.home().socket()).await
    }

    /// Connects to a socket and says `initialize`.
    pub async fn connect_to(socket: &Path) -> Self {
        let mut client = Self::new(RawConnection::open(socket).await);
        client
            .initialize(json!({}))
            .await
            .expect("initialize works");
        client
    }

    /// Connects and says `initialize` with some parameters of one's own.
    pub async fn connect_as(daemon: &Daemon, parameters: Value) -> Self {
        let mut client = Self::connect_raw(daemon).await;
        client
            .initialize(parameters)
            .await
            .expect("initialize works");
        client
    }

    /// Connects and says nothing.
    pub async fn connect_raw(daemon: &Daemon) -> Self {
        Self::new(RawConnection::open(&daemon.home().socket()).await)
    }

    /// Uses any pair of streams and says nothing.
    pub fn over(
        reader: impl AsyncRead + Unpin + 'static,
        writer: impl AsyncWrite + Unpin + 'static,
    ) -> Self {
        Self::new(RawConnection::over(reader, writer))
    }

    fn new(raw: RawConnection) -> Self {
        Self {
            raw,
            next_id: 0,
            waiting: BTreeSet::new(),
            answers: HashMap::new(),
            sessions: BTreeMap::new(),
            notifications: VecDeque::new(),
            others: VecDeque::new(),
            hello: Value::Null,
        }
    }

    /// Says `initialize`; `parameters` replace single fields of the usual ones.
    ///
    /// # Errors
    /// The daemon's.
    pub async fn initialize(&mut self, parameters: Value) -> Answer {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut all = json!({
            "protocol": {"min": 1, "max": 1},
            "client": {"name": "crystal-tests", "version": "1"},
            "environment": {"PATH": path, "HOME": "/tmp", "LANG": "C.UTF-8"},
        });
        if let (Value::Object(all), Value::Object(own)) = (&mut all, parameters) {
            all.extend(own);
        }
        let answer = self.call("initialize", all).await?;
        self.hello = answer.clone();
        Ok(answer)
    }

    /// What `initialize` answered.
    pub fn hello(&self) -> &Value {
        &self.hello
    }

    /// This connection's id.
    pub fn connection(&self) -> &str {
        self.hello["connection"]
            .as_str()
            .expect("a connection has an id")
    }

    /// Sends a line as it is.
    pub async fn send_line(&mut self, line: impl AsRef<[u8]>) {
        self.raw.send_line(line.as_ref()).await;
    }

    /// Sends a request and does not wait; [`Client::answer`] takes the answer.
    pub async fn send(&mut self, method: &str, params: Value) -> u64 {
        let (id, line) = self.request(method, params);
        self.raw.send_line(line.as_bytes()).await;
        id
    }

    /// Makes a request without sending it, for lines and batches of one's own.
    pub fn request(&mut self, method: &str, params: Value) -> (u64, String) {
        self.next_id += 1;
        let id = self.next_id;
        self.waiting.insert(id);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        (id, request.to_string())
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.raw.send_line(message.to_string().as_bytes()).await;
    }

    /// Calls a method.
    ///
    /// # Errors
    /// The daemon's.
    pub async fn call(&mut self, method: &str, params: Value) -> Answer {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    /// Calls a method, or says that the daemon is gone.
    pub async fn try_call(&mut self, method: &str, params: Value) -> Option<Answer> {
        let (id, line) = self.request(method, params);
        self.raw.try_send_line(line.as_bytes()).await.ok()?;
        while !self.answers.contains_key(&id) {
            if !self.read_one().await {
                return None;
            }
        }
        self.answers.remove(&id)
    }

    /// Calls a method that must succeed.
    pub async fn ok(&mut self, method: &str, params: Value) -> Value {
        match self.call(method, params.clone()).await {
            Ok(value) => value,
            Err(error) => panic!("{method} {params} failed: {error:?}"),
        }
    }

    /// Calls a method that must fail with a code; the kind stands in `data.kind`.
    pub async fn fails(&mut self, code: i32, method: &str, params: Value) -> RpcError {
        match self.call(method, params.clone()).await {
            Ok(value) => panic!("{method} {params} should fail with {code}: {value}"),
            Err(error) => {
                assert_eq!(error.code, code, "{method} {params}: {error:?}");
                error
            }
        }
    }

    /// Waits for the answer to a request.
    ///
    /// # Errors
    /// The daemon's.
    pub async fn answer(&mut self, id: u64) -> Answer {
        self.until(&format!("the answer to request {id}"), |client| {
            client.answers.remove(&id)
        })
        .await
    }

    /// Waits for a notification that belongs to no session.
    pub async fn next_notification(&mut self) -> Value {
        self.until("a notification", |client| client.notifications.pop_front())
            .await
    }

    /// Waits for a batch's answer or an error without an id.
    pub async fn next_other(&mut self) -> Value {
        self.until("a batch's answer or an error without an id", |client| {
            client.others.pop_front()
        })
        .await
    }

    /// Sends a batch and waits for its answer; no event of a session may come before that.
    pub async fn next_other_after(&mut self, batch: String) -> Value {
        let known = self.sessions.len();
        self.send_line(batch).await;
        let answer = self.next_other().await;
        assert_eq!(self.sessions.len(), known, "an event came first");
        answer
    }

    /// Waits until the daemon closes the connection.
    pub async fn wait_closed(&mut self) {
        let all = async { while self.read_one().await {} };
        tokio::time::timeout(WAIT_LIMIT, all)
            .await
            .expect("the daemon closes the connection");
    }

    /// Says that nothing more will be sent.
    pub async fn close_writer(&mut self) {
        self.raw.close_writer().await;
    }

    /// Reads whatever comes within so long.
    pub async fn read_for(&mut self, time: Duration) {
        let all = async { while self.read_one().await {} };
        // Running out of time is the usual end.
        drop(tokio::time::timeout(time, all).await);
    }

    pub(crate) async fn until<T>(
        &mut self,
        what: &str,
        take: impl FnMut(&mut Self) -> Option<T>,
    ) -> T {
        self.until_within(WAIT_LIMIT, what, take).await
    }

    /// Reads until `take` finds what it looks for.
    ///
    /// # Panics
    /// When nothing comes for so long, or the connection ends; shows the last messages.
    pub async fn until_within<T>(
        &mut self,
        limit: Duration,
        what: &str,
        mut take: impl FnMut(&mut Self) -> Option<T>,
    ) -> T {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            if let Some(found) = take(self) {
                return found;
            }
            match tokio::time::timeout_at(deadline, self.read_one()).await {
                Ok(true) => {}
                Ok(false) => panic!(
                    "the connection ended while waiting for {what}; {}",
                    self.raw.history()
                ),
                Err(_) => panic!(
                    "waited {limit:?} in vain for {what}; {}",
                    self.raw.history()
                ),
            }
        }
    }

    /// Reads one message and puts it where it belongs; false at the end of the stream.
    async fn read_one(&mut self) -> bool {
        let Some(message) = self.raw.next().await else {
            return false;
        };
        self.sort(message);
        true
    }

    fn sort(&mut self, mut message: Value) {
        if let Value::Array(answers) = message {
            for answer in &answers {
                if let Some(id) = answer["id"].as_u64() {
                    self.waiting.remove(&id);
                }
            }
            self.others.push_back(Value::Array(answers));
            return;
        }
        assert_eq!(
            message["jsonrpc"], "2.0",
            "every message says so: {message}"
        );
        let Some(method) = message["method"].as_str().map(str::to_owned) else {
            self.sort_answer(message);
            return;
        };
        assert!(
            message.get("id").is_none(),
            "the daemon asks nothing: {message}"
        );
        let mut params = message["params"].take();
        match method.as_str() {
            "session/event" | "session/resync" => {
                let session = params["session"].take();
                let session = session.as_str().expect("a notification names its session");
                let watched = self.sessions.entry(session.to_owned()).or_default();
                if method == "session/event" {
                    watched.take_event(params);
                } else {
                    params["session"] = session.into();
                    watched.take_resync(params);
                }
            }
            "daemon/event" => self.notifications.push_back(params),
            other => panic!("no such notification: {other} {params}"),
        }
    }

    fn sort_answer(&mut self, mut message: Value) {
        let Some(id) = message["id"].as_u64().filter(|id| self.waiting.remove(id)) else {
            self.others.push_back(message);
            return;
        };
        let answer = match message.get_mut("error").map(Value::take) {
            None => Ok(message["result"].take()),
            Some(error) => {
                assert!(message.get("result").is_none(), "one of the two: {message}");
                let error: RpcError = serde_json::from_value(error).expect("an error object");
                assert!(!error.message.is_empty(), "an error says what to do");
                Err(error)
            }
        };
        self.answers.insert(id, answer);
    }
}

#[cfg(test)]
mod tests;
