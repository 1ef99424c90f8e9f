//! `turn/*`, `queue/*`, `approval/*`, `question/*`, `tool/*`.

use std::sync::Arc;

use crystal_protocol::{
    error::RpcError,
    ids::SessionId,
    rpc::{
        ApprovalList, ApprovalListResult, ApprovalRespond, Empty, InquiryListParams,
        QuestionDismiss, QuestionList, QuestionListResult, QuestionRespond, QueueEdit, QueueList,
        QueueRemove, QueueResult, QueueSend, SessionApproval, SessionQuestion, ToolCallMethod,
        ToolCallParams, ToolCallResult, ToolList, ToolListResult, TurnInterrupt,
        TurnInterruptResult, TurnSubmit, TurnWait, TurnWaitParams,
    },
    turn::TurnCompleted,
};
use jsonrpsee::core::{RegisterMethodError, server::RpcModule};
use tokio_util::sync::CancellationToken;

use super::{Call, register};
use crate::{
    engine::command::{Command, Reply, WaitTarget},
    hub::Hub,
};

pub(super) fn register_methods(
    module: &mut RpcModule<Arc<Hub>>,
) -> Result<(), RegisterMethodError> {
    register_turns(module)?;
    register_queue(module)?;
    register_inquiries(module)?;
    register::<ToolList, _, _>(module, |params, call| async move {
        Ok(ToolListResult {
            tools: call.hub.call(&params.session, Command::Tools).await?,
        })
    })?;
    register::<ToolCallMethod, _, _>(module, call_tool)
}

fn register_turns(module: &mut RpcModule<Arc<Hub>>) -> Result<(), RegisterMethodError> {
    register::<TurnSubmit, _, _>(module, |params, call| async move {
        let caller = call.caller()?;
        let session = params.session.clone();
        call.hub
            .call(&session, |reply| Command::Submit(params, caller, reply))
            .await
    })?;
    register::<TurnInterrupt, _, _>(module, |params, call| async move {
        let then_send_queue = params.then_send_queue == Some(true);
        let interrupt = call.hub.call(&params.session, |reply| Command::Interrupt {
            then_send_queue,
            reply,
        });
        Ok(TurnInterruptResult {
            interrupted: interrupt.await?,
        })
    })?;
    register::<TurnWait, _, _>(module, wait)
}

fn register_queue(module: &mut RpcModule<Arc<Hub>>) -> Result<(), RegisterMethodError> {
    register::<QueueList, _, _>(module, |params, call| async move {
        Ok(QueueResult {
            queue: call.hub.call(&params.session, Command::QueueList).await?,
        })
    })?;
    register::<QueueSend, _, _>(module, |params, call| async move {
        let caller = call.caller()?;
        let send = call.hub.call(&params.session, |reply| {
            Command::QueueSend(params.id, caller, reply)
        });
        Ok(QueueResult { queue: send.await? })
    })?;
    register::<QueueEdit, _, _>(module, |params, call| async move {
        let session = params.session.clone();
        let edit = call
            .hub
            .call(&session, |reply| Command::QueueEdit(params, reply));
        Ok(QueueResult { queue: edit.await? })
    })?;
    register::<QueueRemove, _, _>(module, |params, call| async move {
        let remove = call.hub.call(&params.session, |reply| {
            Command::QueueRemove(params.id, reply)
        });
        Ok(QueueResult {
            queue: remove.await?,
        })
    })
}

fn register_inquiries(module: &mut RpcModule<Arc<Hub>>) -> Result<(), RegisterMethodError> {
    register::<ApprovalList, _, _>(module, |params, call| async move {
        let mut approvals = Vec::new();
        for session in sessions(&params, &call)? {
            let Some(open) = open_in(&params, &session, &call, Command::Approvals).await? else {
                continue;
            };
            approvals.extend(open.into_iter().map(|approval| SessionApproval {
                session: session.clone(),
                approval,
            }));
        }
        Ok(ApprovalListResult { approvals })
    })?;
    register::<ApprovalRespond, _, _>(module, |params, call| async move {
        let caller = call.caller()?;
        let session = params.session.clone();
        call.hub
            .call(&session, |reply| Command::Respond(params, caller, reply))
            .await?;
        Ok(Empty {})
    })?;
    register::<QuestionList, _, _>(module, |params, call| async move {
        let mut questions = Vec::new();
        for session in sessions(&params, &call)? {
            let Some(open) = open_in(&params, &session, &call, Command::Questions).await? else {
                continue;
            };
            questions.extend(open.into_iter().map(|question| SessionQuestion {
                session: session.clone(),
                question,
            }));
        }
        Ok(QuestionListResult { questions })
    })?;
    register::<QuestionRespond, _, _>(module, |params, call| async move {
        Err(unknown_question(&call, &params.session, params.id.as_str()))
    })?;
    register::<QuestionDismiss, _, _>(module, |params, call| async move {
        Err(unknown_question(&call, &params.session, params.id.as_str()))
    })
}

/// What waits in a session. One that was not named and is gone by now has nothing that waits, and is not loaded for this.
async fn open_in<T: Send + 'static>(
    params: &InquiryListParams,
    session: &SessionId,
    call: &Call,
    command: fn(Reply<T>) -> Command,
) -> Result<Option<T>, RpcError> {
    if params.session.is_some() {
        return call.hub.call(session, command).await.map(Some);
    }
    match call.hub.ask_live(session, command) {
        Ok(Some(answer)) => Ok(answer.await.ok()),
        Ok(None) | Err(_) => Ok(None),
    }
}

/// No tool asks questions yet, so none can be open.
fn unknown_question(call: &Call, session: &SessionId, id: &str) -> RpcError {
    match call.hub.resolve(session) {
        Ok(_) => RpcError::not_found(
            "question",
            format!("There is no question {id} in this session."),
        ),
        Err(error) => error,
    }
}

/// The session that was named, or all live ones.
fn sessions(params: &InquiryListParams, call: &Call) -> Result<Vec<SessionId>, RpcError> {
    match &params.session {
        Some(session) => Ok(vec![call.hub.resolve(session)?]),
        None => Ok(call.hub.live_sessions()),
    }
}

async fn wait(params: TurnWaitParams, call: Call) -> Result<TurnCompleted, RpcError> {
    let target = match (params.turn, params.queued) {
        (None, None) => WaitTarget::Current,
        (Some(turn), None) => WaitTarget::Turn(turn),
        (None, Some(queued)) => WaitTarget::Queued(queued),
        (Some(_), Some(_)) => {
            return Err(RpcError::invalid_params(
                "turn, queued: name one of them, not both.",
            ));
        }
    };
    call.hub
        .call(&params.session, |reply| Command::Wait { target, reply })
        .await
}

async fn call_tool(params: ToolCallParams, call: Call) -> Result<ToolCallResult, RpcError> {
    let caller = call.caller()?;
    let cancel = CancellationToken::new();
    // A caller that goes away drops this future, and with it the guard.
    let _guard = cancel.clone().drop_guard();
    let session = params.session.clone();
    call.hub
        .call(&session, |reply| Command::CallTool {
            params,
            caller,
            cancel,
            reply,
        })
        .await
}
