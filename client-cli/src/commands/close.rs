//! `close`: unloads a session.

use crystal_protocol::rpc::{SessionClose, SessionParams};

use crate::{context::Context, output::SUCCESS, session_ref};

pub(crate) async fn close(cx: &Context, session: Option<String>) -> anyhow::Result<u8> {
    let client = cx.client().await?;
    let session = session_ref::resolve(&client, session.as_deref()).await?;
    let done = client
        .call::<SessionClose>(SessionParams { session })
        .await?;
    cx.out.result(&done, |_| "closed".to_owned()).await?;
    Ok(SUCCESS)
}
