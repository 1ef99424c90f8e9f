//! Starting the task of a turn, and of a tool that an operator runs.

use std::sync::Arc;

use crystal_protocol::{
    error::RpcError,
    event::Event,
    ids::CallId,
    item::{FinishReason, ItemBody, ToolCallStatus},
    rpc::{ToolCallParams, ToolCallResult},
    turn::{ActivityKind, Turn, TurnReason},
};
use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    actor::{Actor, OperatorCall, Work},
    calls::new_call,
    command::{Caller, Reply, answer},
    dispatch,
    messages::{FromTurn, PendingCall, TurnEnd},
    queue::busy,
    services::Services,
    system::SystemText,
    turn::{Bounds, TurnModel, TurnTask},
};
use crate::{
    prompts::SessionFacts,
    providers::{self, ProviderError, ProviderErrorKind, ToolSpec},
    store::record::Settings,
    tools::ToolList,
};

impl Actor {
    /// Starts the task of a turn.
    pub(super) fn spawn_turn(
        &self,
        turn: &Turn,
        rounds: u64,
        calls: u64,
        resume: Vec<PendingCall>,
        cancel: CancellationToken,
    ) -> JoinHandle<()> {
        let host = self.call_host(cancel);
        let head = self.journal.head();
        let limits = Bounds::new(head.options.limits, self.services.config.limits);
        let setup = Setup {
            services: self.services.clone(),
            settings: head.settings.clone(),
            disabled: head.options.disable_tools.clone(),
            session: head.id.clone(),
            variables: self.variables(),
            tools: host.tools.clone(),
            system: self.system.clone(),
        };
        let to_session = host.to_session.clone();
        let id = turn.id.clone();
        tokio::spawn(async move {
            let run = async move {
                let model = setup.open_model().await;
                TurnTask {
                    host,
                    model,
                    limits,
                    rounds,
                    calls,
                    resume,
                }
                .run()
                .await;
            };
            if std::panic::AssertUnwindSafe(run)
                .catch_unwind()
                .await
                .is_err()
            {
                tracing::error!(turn = %id, "a turn's task panicked");
                let message = "The turn ended by a fault of the daemon's own; the log has more. Send the message again.";
                let end = TurnEnd {
                    reason: TurnReason::Error,
                    error: Some(("internal".to_owned(), message.to_owned())),
                };
                if to_session.send(FromTurn::Ended(end)).await.is_err() {
                    tracing::debug!("the session had gone already");
                }
            }
        })
    }

    /// Runs a tool as the operator.
    pub(super) async fn call_tool(
        &mut self,
        params: ToolCallParams,
        caller: &Caller,
        cancel: CancellationToken,
        reply: Reply<ToolCallResult>,
    ) {
        if let Err(error) = self.refuse_when_closing() {
            return answer(reply, Err(error));
        }
        if !matches!(self.work, Work::Idle) {
            return answer(
                reply,
                Err(busy("tool/call needs an idle session; wait for it to end")),
            );
        }
        if !self.tools().iter().any(|tool| tool.name() == params.name) {
            let names: Vec<String> = self
                .tools()
                .iter()
                .map(|tool| tool.name().to_owned())
                .collect();
            let message = format!(
                "There is no tool {}; the tools are {}.",
                params.name,
                names.join(", ")
            );
            return answer(reply, Err(RpcError::not_found("tool", message)));
        }
        let arguments = serde_json::Value::Object(params.arguments).to_string();
        let call_id = CallId::new(format!("operator-{}", self.journal.take_id()));
        let call = new_call(call_id, params.name.clone(), String::new());
        let item = self.start_item(ItemBody::ToolCall(call), None);
        let field = crystal_protocol::item::ItemField::Arguments;
        self.emit(Event::ItemDelta {
            item: item.clone(),
            field,
            delta: arguments.clone(),
            skipped: None,
        });
        tracing::debug!(client = %caller.client.name, tool = %params.name, "an operator runs a tool");
        let host = self.call_host(cancel.clone());
        let pending = PendingCall {
            item: item.clone(),
            name: params.name,
            arguments,
        };
        // It ends by itself, or by the token, and says so as its last word.
        tokio::spawn(async move {
            let run = std::panic::AssertUnwindSafe(dispatch::run_batch(&host, vec![pending]))
                .catch_unwind();
            if run.await.is_err() {
                tracing::error!("an operator's call panicked");
            }
            let end = TurnEnd::of(TurnReason::Completed);
            if host.to_session.send(FromTurn::Ended(end)).await.is_err() {
                tracing::debug!("the session had gone already");
            }
        });
        self.work = Work::Operator(Box::new(OperatorCall {
            cancel,
            item,
            reply: Some(reply),
            interrupts: Vec::new(),
            result: None,
        }));
        self.refresh_info();
    }

    /// Ends an operator's call.
    pub(super) async fn finish_operator_call(&mut self) {
        self.cancel_inquiries().await;
        self.close_open(FinishReason::Interrupted).await;
        let Work::Operator(call) = std::mem::replace(&mut self.work, Work::Idle) else {
            return;
        };
        self.set_activity(ActivityKind::Idle, None);
        self.refresh_info();
        let cancelled = || ToolCallResult {
            status: ToolCallStatus::Cancelled,
            output: String::new(),
            images: Vec::new(),
            exit_code: None,
            duration_ms: 0,
        };
        if let Some(reply) = call.reply {
            answer(reply, Ok(call.result.unwrap_or_else(cancelled)));
        }
        for reply in call.interrupts {
            answer(reply, Ok(true));
        }
    }
}

/// What opening a turn's model needs.
struct Setup {
    services: Arc<Services>,
    settings: Settings,
    disabled: Vec<String>,
    session: crystal_protocol::ids::SessionId,
    variables: std::collections::BTreeMap<String, String>,
    tools: ToolList,
    system: Arc<SystemText>,
}

impl Setup {
    async fn open_model(self) -> Result<TurnModel, ProviderError> {
        let Settings {
            provider,
            model,
            thinking,
            mode,
            ..
        } = &self.settings;
        let (endpoint, model) = self
            .services
            .catalog
            .endpoint(provider, model, &self.variables)
            .await
            .map_err(|error| ProviderError::new(ProviderErrorKind::Auth, error.to_string()))?;
        let provider = providers::open(&endpoint)?;
        let facts = SessionFacts {
            session: self.session,
            workspace: self.settings.workspace.clone(),
            directories: self.settings.add_directories.clone(),
            approval: self.settings.approval,
            provider: self.settings.provider.clone(),
            model: self.settings.model.clone(),
            disabled_tools: self.disabled,
        };
        let system = self.system.of(*mode, facts).await;
        let tools = self.tools.iter().map(|tool| ToolSpec {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            schema: tool.schema().clone(),
        });
        Ok(TurnModel {
            provider,
            model,
            system,
            tools: tools.collect(),
            thinking: *thinking,
        })
    }
}
