//! The actor's part in prompts: submitting, and the queue.

use crystal_protocol::{
    client_ref::ClientRef,
    error::{ErrorKind, RpcError},
    event::Event,
    ids::QueuedId,
    limits::{PROMPT_BYTES, QUEUE_BYTES},
    rpc::{QueueEditParams, QueuePlace, TurnSubmitParams, TurnSubmitResult, WhenBusy},
    span::{self, Span},
    time::Timestamp,
    turn::QueuedPrompt,
};

use super::{
    actor::{Actor, Work},
    command::{Caller, WaitTarget},
    turns::finished,
};
use crate::store::record::Record;

/// Prompts that may wait in one session.
const QUEUE: usize = 1_000;

/// A prompt on its way into a turn.
pub(super) struct Prompt {
    pub(super) spans: Vec<Span>,
    pub(super) by: ClientRef,
    pub(super) queued: Option<QueuedId>,
}

impl From<QueuedPrompt> for Prompt {
    fn from(prompt: QueuedPrompt) -> Self {
        Self {
            spans: prompt.spans,
            by: prompt.by,
            queued: Some(prompt.id),
        }
    }
}

impl Actor {
    /// Takes a user message: a turn begins, or it waits.
    pub(super) async fn submit(
        &mut self,
        params: TurnSubmitParams,
        caller: &Caller,
    ) -> Result<TurnSubmitResult, RpcError> {
        check_spans(&params.spans)?;
        self.refuse_when_closing()?;
        if !matches!(self.work, Work::Idle) {
            return match params.when_busy {
                WhenBusy::Reject => Err(busy(
                    "wait for the turn to end, or leave whenBusy out to queue the message",
                )),
                WhenBusy::Queue => self.enqueue(params.spans, caller).await,
            };
        }
        let mut prompts: Vec<Prompt> = self.view.queue.iter().cloned().map(Prompt::from).collect();
        prompts.push(Prompt {
            spans: params.spans,
            by: caller.client.clone(),
            queued: None,
        });
        let (turn, item) = self.begin_turn(prompts, Vec::new()).await?;
        Ok(TurnSubmitResult::Started { turn, item })
    }

    async fn enqueue(
        &mut self,
        spans: Vec<Span>,
        caller: &Caller,
    ) -> Result<TurnSubmitResult, RpcError> {
        let position = self.view.queue.len();
        if position >= QUEUE {
            let message = format!(
                "{QUEUE} prompts wait already; wait for the turn to end, or remove some with queue/remove."
            );
            return Err(RpcError::new(ErrorKind::LimitReached, message).with("limit", "queue"));
        }
        let id = QueuedId::new(format!("q{}", self.journal.take_id()));
        let prompt = QueuedPrompt {
            id: id.clone(),
            spans,
            by: caller.client.clone(),
            at: Timestamp::now(),
            held: false,
        };
        let mut queue = self.view.queue.clone();
        queue.push(prompt);
        self.change_queue(queue).await?;
        Ok(TurnSubmitResult::Queued {
            queued: QueuePlace {
                id,
                position: position as u64,
            },
        })
    }

    async fn change_queue(&mut self, queue: Vec<QueuedPrompt>) -> Result<(), RpcError> {
        check_queue(&queue)?;
        self.journal
            .commit(vec![Record::QueueChanged {
                queue: queue.clone(),
            }])
            .await?;
        self.emit(Event::QueueChanged { queue });
        Ok(())
    }

    /// The tool batch is done: prompts that wait join the turn.
    pub(super) async fn take_queue_into_turn(&mut self) {
        let (joining, stay): (Vec<_>, Vec<_>) = self
            .view
            .queue
            .iter()
            .cloned()
            .partition(|prompt| !prompt.held);
        let Some(turn) = self.running_turn().map(|turn| turn.id.clone()) else {
            return;
        };
        if joining.is_empty() {
            return;
        }
        let prompts: Vec<Prompt> = joining.into_iter().map(Prompt::from).collect();
        let items = self.prompt_items(&turn, &prompts);
        let mut records: Vec<Record> = items.iter().map(|item| finished(item.clone())).collect();
        records.push(Record::QueueChanged {
            queue: stay.clone(),
        });
        self.journal.record(records).await;
        if let Some(turn) = self.running_turn_mut() {
            turn.took
                .extend(prompts.into_iter().filter_map(|prompt| prompt.queued));
        }
        self.show_prompts(items);
        self.emit(Event::QueueChanged { queue: stay });
    }

    /// At idle, prompts that wait and are not held begin a turn together.
    pub(super) async fn send_queue_if_due(&mut self) {
        let due = matches!(self.work, Work::Idle)
            && self.closing.is_none()
            && self.view.queue.iter().any(|prompt| !prompt.held);
        if due {
            let (prompts, stay): (Vec<_>, Vec<_>) = self
                .view
                .queue
                .iter()
                .cloned()
                .partition(|prompt| !prompt.held);
            let prompts = prompts.into_iter().map(Prompt::from).collect();
            if let Err(error) = self.begin_turn(prompts, stay).await {
                self.hold_queue().await;
                self.note(crystal_protocol::item::NoteLevel::Error, error.message)
                    .await;
            }
        }
    }

    /// Holds what waits: nothing of it starts unseen.
    pub(super) async fn hold_queue(&mut self) {
        if self.view.queue.iter().any(|prompt| !prompt.held) {
            let mut queue = self.view.queue.clone();
            for prompt in &mut queue {
                prompt.held = true;
            }
            self.journal
                .record(vec![Record::QueueChanged {
                    queue: queue.clone(),
                }])
                .await;
            self.emit(Event::QueueChanged { queue });
        }
    }

    /// Sends held prompts: one of them, or all.
    pub(super) async fn queue_send(
        &mut self,
        id: Option<QueuedId>,
    ) -> Result<Vec<QueuedPrompt>, RpcError> {
        self.refuse_when_closing()?;
        if let Some(id) = &id {
            self.find_queued(id)?;
        }
        let mut queue = self.view.queue.clone();
        for prompt in &mut queue {
            if id.as_ref().is_none_or(|id| prompt.id == *id) {
                prompt.held = false;
            }
        }
        if queue != self.view.queue {
            self.change_queue(queue).await?;
        }
        self.send_queue_if_due().await;
        Ok(self.view.queue.clone())
    }

    /// Replaces a waiting prompt's message.
    pub(super) async fn queue_edit(
        &mut self,
        params: QueueEditParams,
    ) -> Result<Vec<QueuedPrompt>, RpcError> {
        check_spans(&params.spans)?;
        let place = self.find_queued(&params.id)?;
        let mut queue = self.view.queue.clone();
        if let Some(prompt) = queue.get_mut(place) {
            prompt.spans = params.spans;
        }
        self.change_queue(queue.clone()).await?;
        Ok(queue)
    }

    /// Takes waiting prompts back: one of them, or all.
    pub(super) async fn queue_remove(
        &mut self,
        id: Option<QueuedId>,
    ) -> Result<Vec<QueuedPrompt>, RpcError> {
        if let Some(id) = &id {
            self.find_queued(id)?;
        }
        let (removed, queue): (Vec<_>, Vec<_>) = self
            .view
            .queue
            .iter()
            .cloned()
            .partition(|prompt| id.as_ref().is_none_or(|id| prompt.id == *id));
        if !removed.is_empty() {
            self.change_queue(queue.clone()).await?;
        }
        for prompt in removed {
            self.answer_waiters(
                |target| *target == WaitTarget::Queued(prompt.id.clone()),
                &|| {
                    Err(RpcError::not_found(
                        "queued",
                        format!("The queued prompt {} was removed.", prompt.id),
                    ))
                },
            );
        }
        Ok(queue)
    }

    fn find_queued(&self, id: &QueuedId) -> Result<usize, RpcError> {
        self.view
            .queue
            .iter()
            .position(|prompt| prompt.id == *id)
            .ok_or_else(|| {
                RpcError::not_found(
                    "queued",
                    format!("No prompt {id} waits. List those that do with queue/list."),
                )
            })
    }

    /// No new work while the session is being closed.
    pub(super) fn refuse_when_closing(&self) -> Result<(), RpcError> {
        match &self.closing {
            Some(_) => Err(RpcError::new(
                ErrorKind::ShuttingDown,
                "The session is being closed; nothing was sent. Try again.",
            )),
            None => Ok(()),
        }
    }
}

/// The error of a call that needs an idle session.
pub(super) fn busy(advice: &str) -> RpcError {
    RpcError::new(
        ErrorKind::SessionBusy,
        format!("The session is busy: {advice}."),
    )
}

fn check_spans(spans: &[Span]) -> Result<(), RpcError> {
    if spans.iter().any(|span| matches!(span, Span::Image { .. })) {
        return Err(RpcError::refused(
            "notYet",
            "Images cannot be sent yet; send the message without them.",
        ));
    }
    if span::plain_text(spans).trim().is_empty() {
        return Err(RpcError::invalid_params(
            "spans: the message is empty; write something into it.",
        ));
    }
    let bytes = span::bytes(spans);
    if bytes > PROMPT_BYTES {
        let message = format!(
            "The message has {bytes} bytes, more than the {PROMPT_BYTES} of a prompt; put the text into a file and name it."
        );
        return Err(RpcError::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

/// Whether the queue is within its bound.
fn check_queue(queue: &[QueuedPrompt]) -> Result<(), RpcError> {
    let bytes: usize = queue.iter().map(|prompt| span::bytes(&prompt.spans)).sum();
    if bytes > QUEUE_BYTES {
        let message = "The prompts that wait are too large together; wait for the turn to end, or remove some with queue/remove.";
        return Err(RpcError::new(ErrorKind::LimitReached, message).with("limit", "queueBytes"));
    }
    Ok(())
}
