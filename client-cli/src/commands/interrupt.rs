//! `interrupt`: ends the running turn.

use crystal_protocol::rpc::{TurnInterrupt, TurnInterruptParams};

use crate::{context::Context, output::SUCCESS, session_ref};

pub(crate) async fn interrupt(cx: &Context, session: Option<String>) -> anyhow::Result<u8> {
    let client = cx.client().await?;
    let session = session_ref::resolve(&client, session.as_deref()).await?;
    let params = TurnInterruptParams {
        session,
        then_send_queue: None,
    };
    let result = client.call::<TurnInterrupt>(params).await?;
    cx.out
        .result(&result, |result| {
            let text = if result.interrupted {
                "interrupted"
            } else {
                "no turn was running"
            };
            text.to_owned()
        })
        .await?;
    Ok(SUCCESS)
}
