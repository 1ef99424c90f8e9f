//! What the mock model server answers: a script, one answer a request, in order.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// One answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) steps: Vec<Step>,
}

/// A piece of an answer's body.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Bytes, as one chunk and one write.
    Bytes(Vec<u8>),
    /// Waits until the test opens the gate.
    Gate(Gate),
    /// Closes the connection in the middle of the body.
    Cut,
    /// Sends nothing more and keeps the connection open.
    Hang,
}

/// A place in an answer where the server waits for the test.
#[derive(Clone, Debug)]
pub struct Gate {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self {
            reached: Arc::new(Semaphore::new(0)),
            open: Arc::new(Semaphore::new(0)),
        }
    }

    /// Lets the answer go on.
    pub fn open(&self) {
        self.open.add_permits(1);
    }

    /// Waits until the answer has come to the gate.
    ///
    /// # Panics
    /// When it does not.
    pub async fn reached(&self) {
        let permit = tokio::time::timeout(crate::WAIT_LIMIT, self.reached.acquire()).await;
        permit
            .expect("the answer comes to the gate")
            .expect("the semaphore is never closed")
            .forget();
    }

    pub(super) async fn pass(&self) {
        self.reached.add_permits(1);
        if let Ok(permit) = self.open.acquire().await {
            permit.forget();
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Answer {
    /// A stream of server-sent events, its whole body in one piece.
    pub fn sse(body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: vec![("Content-Type".to_owned(), "text/event-stream".to_owned())],
            steps: vec![Step::Bytes(body.into())],
        }
    }

    /// An answer with a status and a JSON body, for errors.
    pub fn status(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
            steps: vec![Step::Bytes(body.into())],
        }
    }

    /// An answer that never comes: the status line and the headers, then silence.
    pub fn silence() -> Self {
        let mut answer = Self::sse(Vec::new());
        answer.steps = vec![Step::Hang];
        answer
    }

    /// Adds, or replaces, a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers
            .retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends the body in pieces of so many bytes.
    #[must_use]
    pub fn in_pieces(mut self, bytes: usize) -> Self {
        let cut = |step: Step| match step {
            Step::Bytes(all) => all
                .chunks(bytes)
                .map(|piece| Step::Bytes(piece.to_vec()))
                .collect(),
            other => vec![other],
        };
        self.steps = self.steps.into_iter().flat_map(cut).collect();
        self
    }

    /// Adds a gate at the end of what is there.
    #[must_use]
    pub fn then_gate(mut self, gate: &Gate) -> Self {
        self.steps.push(Step::Gate(gate.clone()));
        self
    }

    /// Adds more of the body.
    #[must_use]
    pub fn then(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.steps.push(Step::Bytes(body.into()));
        self
    }

    /// Closes the connection without ending the body.
    #[must_use]
    pub fn then_cut(mut self) -> Self {
        self.steps.push(Step::Cut);
        self
    }

    /// Stays silent for ever.
    #[must_use]
    pub fn then_hang(mut self) -> Self {
        self.steps.push(Step::Hang);
        self
    }
}
