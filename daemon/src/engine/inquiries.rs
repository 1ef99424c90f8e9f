//! What waits for a person: approvals are opened, answered, denied by policy, or cancelled. The first answer wins.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crystal_protocol::{
    approval::{Approval, DecidedVia, Decision},
    client_ref::{ClientRef, Role},
    error::{ErrorKind, RpcError},
    event::Event,
    ids::{ApprovalId, ItemId},
    item::{CallOutcome, ItemBody, NoteLevel, ToolCallStatus},
    rpc::{ApprovalRespondParams, Asking, WhenUnattended},
    time::Timestamp,
    turn::ActivityKind,
};
use tokio::sync::oneshot;

use super::{
    actor::Actor,
    command::Caller,
    round::done,
    verdict::{Verdict, digest, verdict_of},
};
use crate::{
    approvals::{self, Policy, Ruling},
    store::record::{Decided, Record},
    terms::Rule,
    tools::Effects,
};

/// Calls that wait for an answer.
#[derive(Default)]
pub(super) struct Inquiries {
    waiting: HashMap<ApprovalId, Waiting>,
}

/// A call that waits for an answer.
struct Waiting {
    item: ItemId,
    rule: Option<Rule>,
    /// What the call would do, and who wants to know the verdict; absent after a restart until the turn's task asks again.
    asker: Option<(Effects, oneshot::Sender<Verdict>)>,
}

impl Inquiries {
    /// An approval that was open when the daemon ended.
    pub(super) fn adopt(&mut self, approval: ApprovalId, item: ItemId, rule: Option<Rule>) {
        self.waiting.insert(
            approval,
            Waiting {
                item,
                rule,
                asker: None,
            },
        );
    }
}

impl Actor {
    /// Decides about a call, or asks.
    pub(super) async fn judge(
        &mut self,
        item: ItemId,
        effects: Effects,
        standing: Option<String>,
        reply: oneshot::Sender<Verdict>,
    ) {
        if let Some(reply) = self.earlier_answer(&item, &effects, reply).await {
            self.judge_anew(item, effects, standing, reply).await;
        }
    }

    /// A call that is judged a second time, after a restart, meets the approval that was asked for it before: if what it would do
    /// is still what was shown. Gives the question back when there is none, or it no longer holds.
    async fn earlier_answer(
        &mut self,
        item: &ItemId,
        effects: &Effects,
        reply: oneshot::Sender<Verdict>,
    ) -> Option<oneshot::Sender<Verdict>> {
        let decisions = &self.journal.head().decisions;
        if let Some(decided) = decisions.iter().rev().find(|decided| decided.item == *item)
            && decided.via != DecidedVia::Cancelled
            && (decided.shown == digest(effects.preview.as_ref())
                || decided.decision == Decision::Deny)
        {
            done(reply, verdict_of(effects, decided));
            return None;
        }
        let open = self.view.approvals.iter().find(|approval| {
            self.inquiries
                .waiting
                .get(&approval.id)
                .is_some_and(|waiting| waiting.item == *item)
        });
        let (id, still_true) = match open {
            Some(approval) => (approval.id.clone(), approval.preview == effects.preview),
            None => return Some(reply),
        };
        if !still_true {
            self.decide(&id, Decision::Deny, None, DecidedVia::Cancelled, None)
                .await;
            return Some(reply);
        }
        if let Some(waiting) = self.inquiries.waiting.get_mut(&id) {
            waiting.asker = Some((effects.clone(), reply));
        }
        None
    }

    async fn judge_anew(
        &mut self,
        item: ItemId,
        effects: Effects,
        standing: Option<String>,
        reply: oneshot::Sender<Verdict>,
    ) {
        let head = self.journal.head();
        let policy = Policy {
            mode: head.settings.mode,
            approval: head.settings.approval,
            grants: &head.grants,
            standing: standing.as_deref(),
        };
        match approvals::decide(&effects, policy) {
            Ruling::Allow(approval) => done(reply, Verdict::Run(approval)),
            Ruling::Forbid(approval) => {
                let text = format!(
                    "This call is forbidden and was not run: {}",
                    approval.reason
                );
                done(reply, Verdict::Refuse(approval, text));
            }
            Ruling::Ask(reason) => self.ask(item, effects, reason, reply).await,
        }
    }

    async fn ask(
        &mut self,
        item: ItemId,
        effects: Effects,
        reason: String,
        reply: oneshot::Sender<Verdict>,
    ) {
        let approval = self.new_approval(&item, &effects, reason);
        let id = approval.id.clone();
        let rule = effects.rule.clone();
        let opened = Record::ApprovalOpened {
            approval: Box::new(approval.clone()),
            item: item.clone(),
            rule: rule.clone(),
        };
        // Stored before it is shown: an approval that somebody saw is there again after a crash.
        if let Err(error) = self.journal.commit(vec![opened]).await {
            let judged = approvals::judged(
                &effects,
                CallOutcome::Cancelled,
                None,
                error.message.clone(),
            );
            let text = format!(
                "The call needs approval, which could not be asked for: {}",
                error.message
            );
            done(reply, Verdict::Refuse(judged, text));
            return;
        }
        self.restart_call(&item, |call| {
            call.status = ToolCallStatus::AwaitingApproval;
            call.title.clone_from(&effects.title);
        });
        self.set_activity(ActivityKind::AwaitingApproval, Some(approval.title.clone()));
        self.emit(Event::ApprovalRequested {
            approval: Box::new(approval),
        });
        self.inquiries.waiting.insert(
            id.clone(),
            Waiting {
                item,
                rule,
                asker: Some((effects, reply)),
            },
        );
        let options = &self.journal.head().options;
        let unattended = options.when_unattended == WhenUnattended::Deny && !self.is_attended();
        if options.asking == Asking::Deny || unattended {
            self.decide(&id, Decision::Deny, None, DecidedVia::Policy, None)
                .await;
        }
    }

    fn new_approval(&mut self, item: &ItemId, effects: &Effects, reason: String) -> Approval {
        let id = ApprovalId::new(format!("a{}", self.journal.take_id()));
        let call = self.view_item(item).and_then(|item| match item.body {
            ItemBody::ToolCall(call) => Some((call, item.turn)),
            _ => None,
        });
        let (call, turn) = match call {
            Some((call, turn)) => (Some(call), turn),
            None => (None, None),
        };
        let (offered, rules) = approvals::offers(effects);
        let text = call
            .as_ref()
            .map(|call| call.arguments.clone())
            .unwrap_or_default();
        Approval {
            id,
            turn,
            call_id: call.as_ref().map_or_else(
                || crystal_protocol::ids::CallId::new(""),
                |call| call.call_id.clone(),
            ),
            tool: call.map(|call| call.name).unwrap_or_default(),
            title: effects.title.clone(),
            arguments: serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text)),
            risk: effects.risk,
            authority: effects.authority,
            reason,
            summary: effects.summary.clone(),
            preview: effects.preview.clone(),
            offered,
            rules,
            review: None,
            requested_at: Timestamp::now(),
        }
    }

    /// Takes a client's answer.
    pub(super) async fn respond(
        &mut self,
        params: ApprovalRespondParams,
        caller: &Caller,
    ) -> Result<(), RpcError> {
        let Some(approval) = self.view.approvals.iter().find(|open| open.id == params.id) else {
            return Err(self.resolved_or_unknown(&params.id));
        };
        if let Some(grant) = params.decision.grant()
            && !approval.offered.contains(&grant)
        {
            let offered: Vec<String> = approval
                .offered
                .iter()
                .map(|grant| format!("{grant:?}").to_lowercase())
                .collect();
            return Err(RpcError::invalid_params(format!(
                "decision: this approval offers {} or deny.",
                offered.join(", ")
            )));
        }
        let rule = self
            .inquiries
            .waiting
            .get(&params.id)
            .and_then(|waiting| waiting.rule.clone());
        let granted = match (params.decision, &rule) {
            (Decision::Session, Some(rule)) => Some(Record::Granted { rule: rule.clone() }),
            _ => None,
        };
        let decided = self.decided(
            &params.id,
            params.decision,
            Some(caller.client.clone()),
            DecidedVia::Client,
            params.message,
        );
        let Some(decided) = decided else {
            return Err(self.resolved_or_unknown(&params.id));
        };
        let mut records = vec![Record::ApprovalDecided {
            decided: decided.clone(),
        }];
        records.extend(granted);
        self.journal.commit(records).await?;
        if let (Decision::Always, Some(rule)) = (decided.decision, rule) {
            self.store_rule(&rule).await;
        }
        self.resolve(&decided);
        Ok(())
    }

    /// Stores a lasting rule. The yes stands for this call even when the rule cannot be stored.
    async fn store_rule(&mut self, rule: &Rule) {
        let root = self.journal.head().settings.workspace.clone();
        if let Err(error) = self.services.permissions.add(&root, rule).await {
            let text = format!(
                "The call was approved, but the rule could not be stored: {error}. Such calls will be asked for again."
            );
            self.note(NoteLevel::Error, text).await;
        }
    }

    fn resolved_or_unknown(&self, id: &ApprovalId) -> RpcError {
        match self
            .journal
            .head()
            .decisions
            .iter()
            .rev()
            .find(|decided| decided.id == *id)
        {
            Some(first) => already_resolved(first),
            None => RpcError::not_found(
                "approval",
                format!(
                    "There is no approval {id} in this session. List the open ones with approval/list."
                ),
            ),
        }
    }

    /// Decides without a client: by policy, or because the call goes away.
    pub(super) async fn decide(
        &mut self,
        id: &ApprovalId,
        decision: Decision,
        by: Option<ClientRef>,
        via: DecidedVia,
        message: Option<String>,
    ) {
        let Some(decided) = self.decided(id, decision, by, via, message) else {
            return;
        };
        self.journal
            .record(vec![Record::ApprovalDecided {
                decided: decided.clone(),
            }])
            .await;
        self.resolve(&decided);
    }

    fn decided(
        &self,
        id: &ApprovalId,
        decision: Decision,
        by: Option<ClientRef>,
        via: DecidedVia,
        message: Option<String>,
    ) -> Option<Decided> {
        let item = self.inquiries.waiting.get(id)?.item.clone();
        let shown = self
            .view
            .approvals
            .iter()
            .find(|approval| approval.id == *id);
        let shown = digest(shown.and_then(|approval| approval.preview.as_ref()));
        Some(Decided {
            id: id.clone(),
            decision,
            by,
            via,
            message,
            at: Timestamp::now(),
            item,
            shown,
        })
    }

    fn resolve(&mut self, decided: &Decided) {
        let waiting = self.inquiries.waiting.remove(&decided.id);
        self.emit(Event::ApprovalResolved {
            id: decided.id.clone(),
            decision: decided.decision,
            by: decided.by.clone(),
            via: decided.via,
        });
        if let Some((effects, reply)) = waiting.and_then(|waiting| waiting.asker) {
            done(reply, verdict_of(&effects, decided));
        }
        self.refresh_call_activity(None);
    }

    /// Cancels everything that waits: the calls go away.
    pub(super) async fn cancel_inquiries(&mut self) {
        self.deny_all(DecidedVia::Cancelled).await;
    }

    async fn deny_all(&mut self, via: DecidedVia) {
        let open: Vec<ApprovalId> = self
            .view
            .approvals
            .iter()
            .map(|approval| approval.id.clone())
            .collect();
        for id in open {
            self.decide(&id, Decision::Deny, None, via, None).await;
        }
    }

    fn is_attended(&self) -> bool {
        self.view
            .clients
            .iter()
            .any(|client| client.role == Role::Controller)
    }

    /// When open approvals are to be denied for want of a controller.
    pub(super) fn unattended_deadline(&self) -> Option<Instant> {
        if self.view.approvals.is_empty() || self.is_attended() {
            return None;
        }
        match self.journal.head().options.when_unattended {
            WhenUnattended::Hold => None,
            WhenUnattended::Deny => Some(Instant::now()),
            WhenUnattended::DenyAfterMs(ms) => {
                let opened = self
                    .view
                    .approvals
                    .iter()
                    .map(|approval| age(approval.requested_at))
                    .min();
                let alone = self
                    .unattended_since
                    .elapsed()
                    .min(opened.unwrap_or_default());
                Some(Instant::now() + Duration::from_millis(ms).saturating_sub(alone))
            }
        }
    }

    /// Denies what is open: no controller came in time.
    pub(super) async fn deny_unattended(&mut self) {
        self.deny_all(DecidedVia::Policy).await;
    }
}

/// The error for a second answer: who or what decided, and what.
fn already_resolved(first: &Decided) -> RpcError {
    let message = match (&first.by, first.via) {
        (Some(by), _) => format!(
            "This approval was already answered by {}; nothing was changed.",
            by.name
        ),
        (None, DecidedVia::Cancelled) => {
            "This approval was cancelled with its call; nothing was changed.".to_owned()
        }
        (None, _) => {
            "This approval was already decided by the session's policy; nothing was changed."
                .to_owned()
        }
    };
    let error = RpcError::new(ErrorKind::AlreadyResolved, message)
        .with("id", first.id.as_str())
        .with("decision", serde_json::json!(first.decision))
        .with("via", serde_json::json!(first.via));
    match &first.by {
        Some(by) => error.with("by", serde_json::json!(by)),
        None => error,
    }
}

fn age(at: Timestamp) -> Duration {
    let millis = Timestamp::now().as_millis() - at.as_millis();
    Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}
