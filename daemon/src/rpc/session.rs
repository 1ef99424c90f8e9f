//! `session/*`.

use std::sync::Arc;

use crystal_protocol::{
    error::{ErrorKind, RpcError},
    ids::ItemId,
    item::Item,
    limits::{MESSAGE_BYTES, PAGE_ITEMS, SNAPSHOT_ITEMS},
    rpc::{
        Empty, SessionAttach, SessionAttachParams, SessionAttachResult, SessionClose,
        SessionConfigure, SessionCreate, SessionCreateResult, SessionDelete, SessionDetach,
        SessionGet, SessionItem, SessionItemParams, SessionItemResult, SessionItems,
        SessionItemsResult, SessionList, SessionParams, SessionResult, TodoList, TodoListResult,
        UsageGet, UsageGetResult,
    },
};
use jsonrpsee::core::{RegisterMethodError, server::RpcModule};

use super::{Call, Following, Then, register};
use crate::{
    engine::{
        command::{Attach, Attached, Command, Ending, ItemPage},
        paging,
    },
    hub::Hub,
};

/// Bytes of a field's piece when the client names no number.
const PIECE_BYTES: u64 = 1024 * 1024;

pub(super) fn register_methods(
    module: &mut RpcModule<Arc<Hub>>,
) -> Result<(), RegisterMethodError> {
    register::<SessionCreate, _, _>(module, |params, call| async move {
        let (session, notes) = call.hub.create(params, &call.caller()?).await?;
        Ok(SessionCreateResult { session, notes })
    })?;
    register::<SessionList, _, _>(module, |params, call| async move {
        call.hub.list(&params).await
    })?;
    register::<SessionGet, _, _>(module, |params, call| async move {
        // A live session answers in its turn; one that is not is not loaded for this.
        let live = call.hub.ask_live(&params.session, Command::Info)?;
        let session = match live {
            Some(answer) => answer.await?,
            None => call.hub.info(&params.session)?,
        };
        Ok(SessionResult { session })
    })?;
    register::<SessionAttach, _, _>(module, attach)?;
    register::<SessionDetach, _, _>(module, |params, call| async move { detach(&params, &call) })?;
    register::<SessionItems, _, _>(module, |params, call| async move {
        let limit = match params.limit {
            Some(0) => return Err(RpcError::invalid_params("limit: must be from 1 to 1,000.")),
            limit => bounded(limit, SNAPSHOT_ITEMS),
        };
        let before = params.before;
        let page = call
            .hub
            .call(&params.session, |reply| Command::Items {
                before,
                limit,
                reply,
            })
            .await?;
        Ok(SessionItemsResult {
            items: page.items,
            has_more: page.has_more,
        })
    })?;
    register::<SessionItem, _, _>(module, |params, call| async move {
        let id = params.id.clone();
        let item = call
            .hub
            .call(&params.session, |reply| Command::Item { id, reply })
            .await?;
        piece_of(item, &params)
    })?;
    register::<SessionConfigure, _, _>(module, |params, call| async move {
        let caller = call.caller()?;
        let session = params.session.clone();
        let configure = call.hub.call(&session, |reply| {
            Command::Configure(Box::new(params), caller, reply)
        });
        let (session, notes) = configure.await?;
        Ok(SessionCreateResult { session, notes })
    })?;
    register::<SessionClose, _, _>(module, |params, call| close(params, call, Ending::Close))?;
    register::<SessionDelete, _, _>(module, |params, call| close(params, call, Ending::Delete))?;
    register::<TodoList, _, _>(module, |params, call| async move {
        Ok(TodoListResult {
            todos: call.hub.call(&params.session, Command::Todos).await?,
        })
    })?;
    register::<UsageGet, _, _>(module, |params, call| async move {
        Ok(UsageGetResult {
            usage: call.hub.call(&params.session, Command::Usage).await?,
        })
    })
}

/// A number of items that a client asked for, within bounds.
fn bounded(wanted: Option<u64>, default: usize) -> usize {
    wanted
        .map_or(default, |wanted| {
            usize::try_from(wanted).unwrap_or(usize::MAX)
        })
        .min(PAGE_ITEMS)
}

async fn attach(params: SessionAttachParams, call: Call) -> Result<SessionAttachResult, RpcError> {
    let client = call.caller()?;
    let items = bounded(params.items, SNAPSHOT_ITEMS);
    let session = call.hub.resolve(&params.session)?;
    // From here on the old cursor sends nothing, so that moving it doubles nothing.
    let (generation, old) = call.connection.begin_following(&session);
    call.connection.note_attached(session.clone());
    let wake = call.connection.wake.clone();
    let attach = call.hub.call(&session, |reply| {
        Command::Attach(Attach {
            client,
            after: params.after,
            items,
            wake,
            reply,
        })
    });
    let mut attached = match attach.await {
        Ok(attached) => attached,
        Err(error) => {
            call.connection.fall_back(&session, generation, old);
            return Err(error);
        }
    };
    if let Err(error) = add_older_items(&mut attached, items, &call).await {
        call.connection.end_following(&session, Some(generation));
        call.connection.forget_attached(&session);
        call.hub.detach(&session, &call.connection.id);
        return Err(error);
    }
    let following = Following {
        events: attached.events.clone(),
        cursor: attached.cursor,
        items,
    };
    call.after_answer(Then::Follow(session, generation, following));
    Ok(SessionAttachResult {
        session: attached.info,
        seq: attached.seq,
        snapshot: attached.snapshot,
    })
}

async fn add_older_items(
    attached: &mut Attached,
    wanted: usize,
    call: &Call,
) -> Result<(), RpcError> {
    let session = attached.info.id.clone();
    let page = async |before: Option<ItemId>, limit: usize| -> Result<ItemPage, RpcError> {
        call.hub
            .call(&session, |reply| Command::Items {
                before,
                limit,
                reply,
            })
            .await
    };
    paging::with_older_items(attached, wanted, page).await
}

fn detach(params: &SessionParams, call: &Call) -> Result<Empty, RpcError> {
    let session = call.hub.resolve(&params.session)?;
    // An attach that was answered just before may still be on its way to the writer; it comes too late now.
    call.connection.end_following(&session, None);
    if call.connection.forget_attached(&session) {
        call.hub.detach(&session, &call.connection.id);
    }
    Ok(Empty {})
}

async fn close(params: SessionParams, call: Call, ending: Ending) -> Result<Empty, RpcError> {
    let session = call.hub.resolve(&params.session)?;
    if ending == Ending::Delete && call.hub.delete_saved(&session).await? {
        return Ok(Empty {});
    }
    let reason = match ending {
        Ending::Delete => "deleted",
        Ending::Close | Ending::Suspend => "closed",
    };
    let reason = reason.to_owned();
    call.hub
        .call(&session, |reply| Command::Close {
            reason,
            ending,
            reply,
        })
        .await?;
    Ok(Empty {})
}

/// The whole item, or the piece of it that was asked for.
fn piece_of(item: Item, params: &SessionItemParams) -> Result<SessionItemResult, RpcError> {
    let Some(field) = params.field else {
        let size: usize = serde_json::to_string(&item).map_or(usize::MAX, |json| json.len());
        if size >= MESSAGE_BYTES / 2 {
            return Err(RpcError::new(
                ErrorKind::TooLarge,
                "The item is too large for one message; read its fields in pieces with field, offset and limit.",
            ));
        }
        return Ok(SessionItemResult::Item {
            item: Box::new(item),
        });
    };
    let text = item.field(field).ok_or_else(|| {
        RpcError::not_found("field", format!("The item {} has no such field.", item.id))
    })?;
    let limit = params
        .limit
        .unwrap_or(PIECE_BYTES)
        .clamp(4, MESSAGE_BYTES as u64 / 4);
    let start = boundary(text, params.offset.unwrap_or_default());
    let end = boundary(text, (start as u64).saturating_add(limit));
    let data = text.get(start..end).unwrap_or_default().to_owned();
    let next_offset = (end < text.len()).then_some(end as u64);
    Ok(SessionItemResult::Piece { data, next_offset })
}

/// The last beginning of a character at or before a place.
fn boundary(text: &str, place: u64) -> usize {
    let mut place = usize::try_from(place).unwrap_or(usize::MAX).min(text.len());
    while !text.is_char_boundary(place) {
        place -= 1;
    }
    place
}
