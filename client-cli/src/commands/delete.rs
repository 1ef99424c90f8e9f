//! `delete`: removes a session. It must be named: nobody deletes by standing in the wrong directory.

use crystal_protocol::rpc::{SessionDelete, SessionParams};

use crate::{context::Context, output::SUCCESS, session_ref};

pub(crate) async fn delete(cx: &Context, session: String) -> anyhow::Result<u8> {
    let client = cx.client().await?;
    let session = session_ref::resolve(&client, Some(&session)).await?;
    let done = client
        .call::<SessionDelete>(SessionParams { session })
        .await?;
    cx.out.result(&done, |_| "deleted".to_owned()).await?;
    Ok(SUCCESS)
}
