//! The actor's part in tool calls: what their dispatcher reports becomes items, records and events.

use crystal_protocol::{
    event::Event,
    ids::{CallId, ItemId},
    item::{CallApproval, CallOutcome, InputKind, ItemBody, ItemField, ToolCall, ToolCallStatus},
    time::Timestamp,
    turn::ActivityKind,
};

use super::actor::Actor;
use crate::{
    store::record::Record,
    tools::{ToolOutput, ToolStatus},
};

impl Actor {
    pub(super) async fn start_call(&mut self, id: &ItemId, title: String, approval: CallApproval) {
        let Some(open) = self.open.get_mut(id) else {
            return;
        };
        open.running = true;
        let started = vec![Record::CallStarted {
            item: id.clone(),
            title: Some(title.clone()),
            approval: Some(approval.clone()),
        }];
        self.journal.record(started).await;
        // A call that was asked for is taken up after a restart unless it is known to have begun: that must outlive a power cut.
        if approval.outcome == CallOutcome::Approved
            && let Err(error) = self.journal.log().sync().await
        {
            tracing::warn!(%error, "the beginning of a call is not safe against a power cut");
        }
        self.restart_call(id, |call| {
            call.status = ToolCallStatus::Running;
            call.title.clone_from(&title);
            call.approval = Some(approval);
        });
        self.refresh_call_activity(Some(title));
    }

    /// Shows an open call's new status: the item is started again, and what had streamed follows.
    pub(super) fn restart_call(&mut self, id: &ItemId, change: impl FnOnce(&mut ToolCall)) {
        let Some(mut item) = self.view_item(id) else {
            return;
        };
        let ItemBody::ToolCall(call) = &mut item.body else {
            return;
        };
        change(call);
        let arguments = std::mem::take(&mut call.arguments);
        let output = call.output.take();
        self.emit(Event::ItemStarted { item });
        for (field, text) in [
            (ItemField::Arguments, Some(arguments)),
            (ItemField::Output, output),
        ] {
            if let Some(delta) = text.filter(|text| !text.is_empty()) {
                self.emit(Event::ItemDelta {
                    item: id.clone(),
                    field,
                    delta,
                    skipped: None,
                });
            }
        }
    }

    /// What the session does while calls run or wait.
    pub(super) fn refresh_call_activity(&mut self, title: Option<String>) {
        if let Some(approval) = self.view.approvals.first() {
            let title = approval.title.clone();
            self.set_activity(ActivityKind::AwaitingApproval, Some(title));
        } else if self.open.iter().any(|open| open.running) {
            let title = title.or_else(|| self.view.activity.detail.clone());
            self.set_activity(ActivityKind::RunningTool, title);
        }
    }

    pub(super) async fn finish_call(
        &mut self,
        id: &ItemId,
        output: ToolOutput,
        rejected: bool,
        approval: Option<CallApproval>,
        duration_ms: u64,
    ) {
        let Some(open) = self.open.remove(id) else {
            return;
        };
        let Some(mut item) = self.view_item(id) else {
            return;
        };
        item.completed_at = Some(Timestamp::now());
        if let ItemBody::ToolCall(call) = &mut item.body {
            call.status = match (rejected, output.status) {
                (true, _) => ToolCallStatus::Rejected,
                (false, ToolStatus::Succeeded) => ToolCallStatus::Succeeded,
                (false, ToolStatus::Failed) => ToolCallStatus::Failed,
                (false, ToolStatus::Cancelled) => ToolCallStatus::Cancelled,
            };
            call.output = Some(output.text);
            call.output_truncated = output.truncated.then_some(true);
            call.exit_code = output.exit_code;
            call.duration_ms = Some(duration_ms);
            call.approval = approval.or(call.approval.take());
        }
        self.complete(item, open.round, open.replay).await;
        self.refresh_call_activity(None);
    }
}

/// A call that has just begun.
pub(super) fn new_call(call_id: CallId, name: String, arguments: String) -> ToolCall {
    ToolCall {
        call_id,
        title: name.clone(),
        name,
        input_kind: InputKind::Json,
        arguments,
        status: ToolCallStatus::Pending,
        output: None,
        output_truncated: None,
        images: None,
        exit_code: None,
        duration_ms: None,
        approval: None,
    }
}

/// A call that will give no result; what it printed stays.
pub(super) fn cancel_call(call: &mut ToolCall) {
    call.status = ToolCallStatus::Cancelled;
    let printed = call.output.take().unwrap_or_default();
    let gap = if printed.is_empty() || printed.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    call.output = Some(format!("{printed}{gap}[The call was cancelled.]"));
    if let Some(approval) = &mut call.approval
        && approval.outcome == crystal_protocol::item::CallOutcome::Cancelled
    {
        "The turn ended before anybody decided.".clone_into(&mut approval.reason);
    }
}

pub(super) fn operator_result(call: &ToolCall) -> crystal_protocol::rpc::ToolCallResult {
    crystal_protocol::rpc::ToolCallResult {
        status: call.status,
        output: call.output.clone().unwrap_or_default(),
        images: call.images.clone().unwrap_or_default(),
        exit_code: call.exit_code,
        duration_ms: call.duration_ms.unwrap_or_default(),
    }
}
