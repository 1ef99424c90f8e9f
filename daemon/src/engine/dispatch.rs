//! Running tool calls: plan, judge, run, report; in call order, reads side by side.
//!
//! A call that only reads runs beside other reads; one that does more waits for all calls before it, and those after it
//! wait for it. What needs a person is asked at once for all calls of a batch, so that several questions may be open; only a call
//! that touches a file which an earlier call of the batch writes is planned when that one is done, so that its preview is true.

use std::{
    collections::VecDeque,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use crystal_protocol::{
    approval::Risk,
    ids::SessionId,
    item::CallApproval,
    limits::{OUTPUT_BYTES_PER_SECOND, OUTPUT_DELTA_BYTES},
};
use futures_util::{FutureExt, future::join_all};
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::{
    messages::{FromTurn, PendingCall, ask},
    services::Services,
    verdict::Verdict,
};
use crate::{
    limits::CONCURRENT_CALLS,
    tools::{Effects, Tool, ToolContext, ToolList, ToolOutput},
};

/// What a call prints may wait in so many pieces before its tool must wait.
const OUTPUT_PIECES: usize = 16;

/// What calls run with, and the way to their session.
#[derive(Clone)]
pub(super) struct CallHost {
    /// The session.
    pub(super) session: SessionId,
    /// The daemon's services.
    pub(super) services: Arc<Services>,
    /// The tools of the mode.
    pub(super) tools: ToolList,
    /// What each call gets; its output channel is replaced.
    pub(super) context: ToolContext,
    /// The way to the session.
    pub(super) to_session: mpsc::Sender<FromTurn>,
}

/// How far a call is, for those after it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Progress {
    planned: Option<Plan>,
    /// It was put before the session's judge.
    asked: bool,
    done: bool,
}

/// What those after a call must know of it.
#[derive(Clone, Debug, PartialEq)]
struct Plan {
    reads_only: bool,
    writes: Vec<std::path::PathBuf>,
}

/// Runs the calls of one answer; when it returns, each has been reported, or the cancellation token has fired.
pub(super) async fn run_batch(host: &CallHost, calls: Vec<PendingCall>) {
    let slots = Semaphore::new(CONCURRENT_CALLS);
    let states: Vec<watch::Sender<Progress>> =
        calls.iter().map(|_| watch::Sender::default()).collect();
    let runs = calls.into_iter().enumerate().map(|(place, call)| {
        let earlier: Vec<_> = states
            .iter()
            .take(place)
            .map(watch::Sender::subscribe)
            .collect();
        let mine = states.get(place);
        let slots = &slots;
        async move {
            let run = Run {
                host,
                call,
                earlier,
                mine,
                slots,
            };
            run.finish().await;
            if let Some(mine) = mine {
                mine.send_modify(|state| state.done = true);
            }
        }
    });
    join_all(runs).await;
}

struct Run<'a> {
    host: &'a CallHost,
    call: PendingCall,
    earlier: Vec<watch::Receiver<Progress>>,
    mine: Option<&'a watch::Sender<Progress>>,
    slots: &'a Semaphore,
}

/// A call that will not run: its output, and how it was judged.
type NotRun = (ToolOutput, bool, Option<CallApproval>);

impl Run<'_> {
    async fn finish(mut self) {
        let cancel = self.host.context.cancel.clone();
        let ready = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            ready = self.make_ready() => ready,
        };
        match ready {
            Ok((tool, arguments, effects, approval)) => {
                self.execute(tool, arguments, effects, approval).await
            }
            Err((output, rejected, approval)) => {
                self.report(output, rejected, approval, Duration::ZERO)
                    .await;
            }
        }
    }

    async fn make_ready(
        &mut self,
    ) -> Result<(Arc<dyn Tool>, Value, Effects, CallApproval), NotRun> {
        let failed = |text: String| (ToolOutput::failure(text), false, None);
        let tool = self
            .host
            .tools
            .iter()
            .find(|tool| tool.name() == self.call.name)
            .cloned()
            .ok_or_else(|| {
                let names: Vec<&str> = self.host.tools.iter().map(|tool| tool.name()).collect();
                failed(format!(
                    "There is no tool named {}. The tools are: {}.",
                    self.call.name,
                    names.join(", ")
                ))
            })?;
        let arguments = parse_arguments(&self.call.arguments).map_err(failed)?;
        let effects = self
            .plan(&*tool, &arguments)
            .await
            .map_err(|output| (output, false, None))?;
        let approval = self.judge(&effects).await?;
        self.wait_for_earlier(effects.risk == Risk::Read).await;
        Ok((tool, arguments, effects, approval))
    }

    /// Plans the call; again, when an earlier call of the batch writes what it touches.
    async fn plan(&mut self, tool: &dyn Tool, arguments: &Value) -> Result<Effects, ToolOutput> {
        let first = self.plan_once(tool, arguments).await;
        if self.conflicts_with_earlier(first.as_ref().ok()).await {
            self.announce(None);
            self.wait_for_earlier(false).await;
            let effects = self.plan_once(tool, arguments).await?;
            self.announce(Some(&effects));
            return Ok(effects);
        }
        let effects = first?;
        self.announce(Some(&effects));
        Ok(effects)
    }

    /// A panic in a plan is a failed result, as one in a run is.
    async fn plan_once(&self, tool: &dyn Tool, arguments: &Value) -> Result<Effects, ToolOutput> {
        let plan = AssertUnwindSafe(tool.plan(arguments, &self.host.context)).catch_unwind();
        plan.await
            .unwrap_or_else(|_| Err(own_fault(&self.call.name)))
    }

    /// Whether an earlier call may change what this one's plan rests on. A plan that failed may succeed after any
    /// earlier write.
    async fn conflicts_with_earlier(&mut self, effects: Option<&Effects>) -> bool {
        for earlier in &mut self.earlier {
            let Ok(state) = earlier
                .wait_for(|state| state.done || state.planned.is_some())
                .await
            else {
                continue;
            };
            if state.done {
                continue;
            }
            let Some(plan) = &state.planned else { continue };
            let touches = match effects {
                Some(effects) => effects.paths.iter().any(|path| {
                    plan.writes.iter().any(|written| {
                        written.starts_with(&path.path) || path.path.starts_with(written)
                    })
                }),
                None => !plan.reads_only,
            };
            if touches {
                return true;
            }
        }
        false
    }

    fn announce(&self, effects: Option<&Effects>) {
        let plan = match effects {
            Some(effects) if effects.risk == Risk::Read => Plan {
                reads_only: true,
                writes: Vec::new(),
            },
            Some(effects) => Plan {
                reads_only: false,
                writes: effects.paths.iter().map(|path| path.path.clone()).collect(),
            },
            None => Plan {
                reads_only: false,
                writes: Vec::new(),
            },
        };
        if let Some(mine) = self.mine {
            mine.send_modify(|state| state.planned = Some(plan));
        }
    }

    /// A read waits for earlier calls that do more than read, anything else for all of them.
    async fn wait_for_earlier(&mut self, reads_only: bool) {
        for earlier in &mut self.earlier {
            let passable = |state: &Progress| {
                state.done
                    || (reads_only && state.planned.as_ref().is_some_and(|plan| plan.reads_only))
            };
            // A sender that is gone belongs to a call that is over.
            if earlier.wait_for(passable).await.is_err() {
                continue;
            }
        }
    }

    async fn judge(&mut self, effects: &Effects) -> Result<CallApproval, NotRun> {
        let cancelled = || {
            (
                ToolOutput::cancelled("The call was cancelled before it ran."),
                false,
                None,
            )
        };
        let standing = match &effects.rule {
            Some(rule) => match self
                .host
                .services
                .permissions
                .covers(&self.host.context.workspace.root, rule)
                .await
            {
                Ok(standing) => standing,
                Err(error) => {
                    tracing::warn!(%error, "lasting permission rules could not be read; the call is asked for");
                    None
                }
            },
            None => None,
        };
        // Questions are opened in the order of the calls.
        for earlier in &mut self.earlier {
            if earlier
                .wait_for(|state| state.asked || state.done)
                .await
                .is_err()
            {
                continue;
            }
        }
        let (reply, verdict) = oneshot::channel();
        let judge = FromTurn::Judge {
            item: self.call.item.clone(),
            effects: Box::new(effects.clone()),
            standing,
            reply,
        };
        if self.host.to_session.send(judge).await.is_err() {
            return Err(cancelled());
        }
        if let Some(mine) = self.mine {
            mine.send_modify(|state| state.asked = true);
        }
        let verdict = verdict.await.ok();
        match verdict {
            Some(Verdict::Run(approval)) => Ok(approval),
            Some(Verdict::Refuse(approval, text)) => {
                Err((ToolOutput::failure(text), true, Some(approval)))
            }
            Some(Verdict::Cancelled) | None => Err(cancelled()),
        }
    }

    async fn execute(
        &self,
        tool: Arc<dyn Tool>,
        arguments: Value,
        effects: Effects,
        approval: CallApproval,
    ) {
        let Ok(_slot) = self.slots.acquire().await else {
            return;
        };
        let started = ask(&self.host.to_session, |reply| FromTurn::CallStarted {
            item: self.call.item.clone(),
            title: effects.title.clone(),
            approval: approval.clone(),
            reply,
        });
        if started.await.is_none() || self.host.context.cancel.is_cancelled() {
            return;
        }
        let begun = Instant::now();
        let (output, pieces) = mpsc::channel(OUTPUT_PIECES);
        let context = ToolContext {
            output,
            ..self.host.context.clone()
        };
        let name = self.call.name.clone();
        // A task of its own: tools run in parallel, and a panic in one is a failed result.
        let running = tokio::spawn(async move {
            let run = AssertUnwindSafe(tool.run(arguments, &effects, &context)).catch_unwind();
            run.await.unwrap_or_else(|_| own_fault(&name))
        });
        let (output, ()) = tokio::join!(running, self.forward_output(pieces));
        let output = output.unwrap_or_else(|_| ToolOutput::cancelled("The call was cancelled."));
        self.report(output, false, Some(approval), begun.elapsed())
            .await;
    }

    /// Passes on what the call prints, within the bounds on events; what is beyond is counted.
    async fn forward_output(&self, mut pieces: mpsc::Receiver<String>) {
        let mut allowance = Allowance::new();
        let mut skipped = 0u64;
        while let Some(text) = pieces.recv().await {
            for piece in split(&text, OUTPUT_DELTA_BYTES) {
                if !allowance.take(piece.len()) {
                    skipped += piece.len() as u64;
                    continue;
                }
                let output = FromTurn::CallOutput {
                    item: self.call.item.clone(),
                    text: piece.to_owned(),
                    skipped: (skipped > 0).then_some(skipped),
                };
                skipped = 0;
                if self.host.to_session.send(output).await.is_err() {
                    return;
                }
            }
        }
    }

    async fn report(
        &self,
        output: ToolOutput,
        rejected: bool,
        approval: Option<CallApproval>,
        duration: Duration,
    ) {
        let done = ask(&self.host.to_session, |reply| FromTurn::CallFinished {
            item: self.call.item.clone(),
            output,
            rejected,
            approval,
            duration,
            reply,
        });
        if done.await.is_none() {
            tracing::debug!("a call was done after its session had gone");
        }
    }
}

/// The output of a tool that panicked.
fn own_fault(name: &str) -> ToolOutput {
    ToolOutput::failure(format!(
        "The tool {name} failed by a fault of its own. Try another way."
    ))
}

fn parse_arguments(text: &str) -> Result<Value, String> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => {
            Err("The arguments must be a JSON object. Send the call again with one.".to_owned())
        }
        Err(error) => Err(format!(
            "The arguments are not valid JSON ({error}). Send the call again with valid JSON."
        )),
    }
}

/// Pieces of at most `bytes` bytes, cut between characters.
fn split(text: &str, bytes: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = rest.len().min(bytes);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, tail) = rest.split_at(end);
        rest = tail;
        Some(piece)
    })
}

/// A producer's allowance of bytes: in no second more than the bound.
struct Allowance {
    /// What passed within the last second, oldest first, and when.
    passed: VecDeque<(Instant, usize)>,
    bytes: usize,
}

/// Pieces that pass within so short a time are kept as one.
const SAME_MOMENT: Duration = Duration::from_millis(10);

impl Allowance {
    fn new() -> Self {
        Self {
            passed: VecDeque::new(),
            bytes: 0,
        }
    }

    fn take(&mut self, bytes: usize) -> bool {
        let now = Instant::now();
        while let Some((at, passed)) = self.passed.front().copied()
            && now.duration_since(at) >= Duration::from_secs(1) + SAME_MOMENT
        {
            self.passed.pop_front();
            self.bytes -= passed;
        }
        if self.bytes + bytes > OUTPUT_BYTES_PER_SECOND {
            return false;
        }
        self.bytes += bytes;
        match self.passed.back_mut() {
            Some((at, passed)) if now.duration_since(*at) < SAME_MOMENT => *passed += bytes,
            _ => self.passed.push_back((now, bytes)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_between_characters() {
        let pieces: Vec<&str> = split("aéé", 2).collect();
        assert_eq!(pieces, ["a", "é", "é"]);
    }

    #[test]
    fn the_allowance_ends_after_a_seconds_worth() {
        let mut allowance = Allowance::new();
        let piece = 64 * 1024;
        let passed = (0..100).filter(|_| allowance.take(piece)).count();
        assert_eq!(passed, 16);
    }

    #[test]
    fn arguments_must_be_an_object_and_none_at_all_is_an_empty_one() {
        assert_eq!(parse_arguments("  "), Ok(serde_json::json!({})));
        assert!(parse_arguments("[1]").is_err());
        assert!(parse_arguments("{").is_err());
    }
}
