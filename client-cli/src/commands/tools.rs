//! `tools`: what the model may call.

use crystal_protocol::rpc::{SessionParams, ToolList, ToolListResult};

use crate::{
    context::Context,
    output::{SUCCESS, table},
    session_ref,
    wire::name_of,
};

pub(crate) async fn tools(cx: &Context, session: Option<String>) -> anyhow::Result<u8> {
    let client = cx.client().await?;
    let session = session_ref::resolve(&client, session.as_deref()).await?;
    let list = client.call::<ToolList>(SessionParams { session }).await?;
    cx.out.result(&list, human).await?;
    Ok(SUCCESS)
}

fn human(list: &ToolListResult) -> String {
    let rows: Vec<Vec<String>> = list
        .tools
        .iter()
        .map(|tool| {
            let first = tool.description.lines().next().unwrap_or_default();
            vec![tool.name.clone(), name_of(&tool.source), first.to_owned()]
        })
        .collect();
    table(&rows)
}
