//! Following one turn to its end: what `run` and `send --wait` share.

use std::time::Duration;

use anyhow::Context as _;
use crystal_protocol::{
    approval::{DecidedVia, Decision},
    client::{ClientError, SessionStream, Update},
    event::{AnyEvent, Event, SessionEvent},
    ids::{ItemId, QueuedId, SessionId, TurnId},
    item::{Item, ItemBody, ItemField},
    question::QuestionOutcome,
    rpc::{
        SessionItem, SessionItemParams, SessionItemResult, TurnInterrupt, TurnInterruptParams,
        TurnSubmitResult, TurnWait, TurnWaitParams,
    },
    turn::TurnCompleted,
};
use tokio::time::Instant;

use crate::{context::Context, show::Show, signals::Signals};

/// How long an interrupted turn may take to end before the command ends without it.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(30);

/// How a followed turn ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// By itself, or because somebody interrupted it.
    Turn(Box<Followed>),
    /// The user wanted to stop and did not wait for the end.
    Abandoned,
}

/// A turn that was followed to its end.
#[derive(Debug)]
pub(crate) struct Followed {
    /// How it ended.
    pub(crate) completed: TurnCompleted,
    /// An approval was denied, or a question dismissed.
    pub(crate) denied: bool,
    /// The last message of the model.
    pub(crate) answer: Option<Box<Item>>,
    /// The user asked for the end with a signal.
    pub(crate) stopped: bool,
}

/// Which turn: one that runs, or the one that a queued prompt will begin.
#[derive(Clone, Debug)]
enum Target {
    Turn(TurnId),
    Queued(QueuedId),
}

/// Shows the events of the submitted message's turn until it ends. A signal interrupts the turn; a second one, or a
/// turn that does not end, ends the wait.
///
/// # Errors
/// When the connection is lost for good, the session is closed, or the queued prompt is taken back.
pub(crate) async fn turn(
    context: &Context,
    stream: &mut SessionStream,
    submitted: &TurnSubmitResult,
    show: &mut Show,
    signals: &mut Signals,
) -> anyhow::Result<Ended> {
    let target = match submitted {
        TurnSubmitResult::Started { turn, .. } => Target::Turn(turn.clone()),
        TurnSubmitResult::Queued { queued } => Target::Queued(queued.id.clone()),
    };
    let mut follow = Follow {
        target: target.clone(),
        running: None,
        denied: false,
        answer: None,
        stopped_until: None,
    };
    let session = stream.info().id.clone();
    let mut taken_back = std::pin::pin!(taken_back(context, &session, &target));
    loop {
        let update = tokio::select! {
            update = stream.next() => update?,
            error = &mut taken_back => return Err(error.into()),
            () = signals.next() => {
                if follow.stopped_until.is_some() {
                    return Ok(Ended::Abandoned);
                }
                follow.stopped_until = Some(Instant::now() + INTERRUPT_PATIENCE);
                interrupt(context, &session).await?;
                continue;
            }
            () = patience(follow.stopped_until) => return Ok(Ended::Abandoned),
        };
        let update = update.context("the session was closed")?;
        if let Some(completed) = follow.update(context, &session, update, show).await? {
            return Ok(Ended::Turn(Box::new(Followed {
                completed,
                denied: follow.denied,
                answer: follow.answer.map(Box::new),
                stopped: follow.stopped_until.is_some(),
            })));
        }
    }
}

/// Ends, with the daemon's word for it, when the queued prompt goes away without a turn.
async fn taken_back(context: &Context, session: &SessionId, target: &Target) -> ClientError {
    if let Target::Queued(id) = target {
        let params = TurnWaitParams {
            session: session.clone(),
            turn: None,
            queued: Some(id.clone()),
        };
        // Its connection may be lost without harm: then only the events tell.
        if let Ok(client) = context.client().await
            && let Err(error @ ClientError::Rpc(_)) = client.call::<TurnWait>(params).await
        {
            return error;
        }
    }
    std::future::pending().await
}

async fn patience(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Interrupts whatever turn the session runs.
pub(crate) async fn interrupt(context: &Context, session: &SessionId) -> Result<bool, ClientError> {
    let params = TurnInterruptParams {
        session: session.clone(),
        then_send_queue: None,
    };
    let client = context.client().await?;
    Ok(client.call::<TurnInterrupt>(params).await?.interrupted)
}

/// The whole text of an item of which a field may have been cut for its size.
pub(crate) async fn whole_text(
    context: &Context,
    session: &SessionId,
    item: &Item,
) -> Result<String, ClientError> {
    let is_cut = item
        .cut
        .as_ref()
        .is_some_and(|cut| cut.contains_key(&ItemField::Text));
    let text = |item: &Item| item.field(ItemField::Text).unwrap_or_default().to_owned();
    if !is_cut {
        return Ok(text(item));
    }
    let params = SessionItemParams {
        session: session.clone(),
        id: item.id.clone(),
        field: None,
        offset: None,
        limit: None,
    };
    let client = context.client().await?;
    Ok(match client.call::<SessionItem>(params).await? {
        SessionItemResult::Item { item } => text(&item),
        SessionItemResult::Piece { data, .. } => data,
    })
}

struct Follow {
    target: Target,
    /// The turn that the session runs at this point of the log.
    running: Option<TurnId>,
    denied: bool,
    answer: Option<Item>,
    stopped_until: Option<Instant>,
}

impl Follow {
    /// Shows an update; gives the end of the turn when this was it.
    async fn update(
        &mut self,
        context: &Context,
        session: &SessionId,
        update: Update,
        show: &mut Show,
    ) -> anyhow::Result<Option<TurnCompleted>> {
        let (snapshot, begins) = match update {
            Update::Event(event) => return self.event(&event, show).await,
            Update::Disconnected => {
                let text = "- the connection to the daemon was lost; trying to get it back";
                context.out.note(text).await?;
                return Ok(None);
            }
            Update::Reattached { snapshot: None, .. } => return Ok(None),
            Update::Snapshot(snapshot, _) => (snapshot, true),
            Update::Resync(resync) => (resync.snapshot, false),
            Update::Reattached {
                snapshot: Some(snapshot),
                ..
            } => (snapshot, false),
        };
        self.running = snapshot.turn.as_ref().map(|turn| turn.id.clone());
        if begins {
            return Ok(None);
        }
        show.snapshot(&snapshot).await?;
        if let Some(item) = snapshot
            .items
            .iter()
            .rev()
            .find(|item| self.is_answer(item))
        {
            self.answer = Some(item.clone());
        }
        // What happened between is not known event by event; the daemon keeps how the turn ended.
        let waiting = match &self.target {
            Target::Turn(turn) => snapshot.turn.as_ref().is_some_and(|t| t.id == *turn),
            Target::Queued(id) => snapshot.queue.iter().any(|prompt| prompt.id == *id),
        };
        if waiting {
            return Ok(None);
        }
        let (turn, queued) = match &self.target {
            Target::Turn(turn) => (Some(turn.clone()), None),
            Target::Queued(id) => (None, Some(id.clone())),
        };
        let params = TurnWaitParams {
            session: session.clone(),
            turn,
            queued,
        };
        let client = context.client().await?;
        let completed = client.call::<TurnWait>(params).await?;
        show.completed(&completed).await?;
        Ok(Some(completed))
    }

    async fn event(
        &mut self,
        event: &SessionEvent,
        show: &mut Show,
    ) -> anyhow::Result<Option<TurnCompleted>> {
        let AnyEvent::Known(known) = &event.event else {
            return Ok(None);
        };
        self.find_turn(known);
        let Target::Turn(ours) = self.target.clone() else {
            return Ok(None);
        };
        let completed = match known {
            Event::TurnCompleted(completed) if completed.turn == ours => Some(completed.clone()),
            _ => None,
        };
        if self.running.as_ref() == Some(&ours) || completed.is_some() {
            self.note(known);
            show.event(event).await?;
        }
        if let Event::TurnCompleted(_) = known {
            self.running = None;
        }
        Ok(completed)
    }

    /// Keeps track of which turn runs, and learns which turn the queued prompt has begun.
    fn find_turn(&mut self, event: &Event) {
        match event {
            Event::TurnStarted { turn } => self.running = Some(turn.id.clone()),
            Event::ItemStarted { item } | Event::ItemCompleted { item } => {
                if let ItemBody::UserMessage {
                    queued: Some(queued),
                    ..
                } = &item.body
                    && let Target::Queued(id) = &self.target
                    && queued == id
                    && let Some(turn) = item.turn.clone().or_else(|| self.running.clone())
                {
                    self.running = Some(turn.clone());
                    self.target = Target::Turn(turn);
                }
            }
            _ => {}
        }
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::ApprovalResolved {
                decision: Decision::Deny,
                via: DecidedVia::Client | DecidedVia::Policy,
                ..
            }
            | Event::QuestionResolved {
                outcome: QuestionOutcome::Dismissed,
                ..
            } => self.denied = true,
            Event::ItemCompleted { item } if self.is_answer(item) => {
                self.answer = Some(item.clone());
            }
            Event::ItemDiscarded { item, .. } => self.forget(item),
            _ => {}
        }
    }

    fn is_answer(&self, item: &Item) -> bool {
        let ours = match &self.target {
            Target::Turn(turn) => item.turn.as_ref().is_none_or(|of| of == turn),
            Target::Queued(_) => false,
        };
        ours && matches!(&item.body, ItemBody::AssistantMessage { text, .. } if !text.is_empty())
    }

    fn forget(&mut self, id: &ItemId) {
        if self.answer.as_ref().is_some_and(|item| item.id == *id) {
            self.answer = None;
        }
    }
}
