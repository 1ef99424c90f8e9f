//! `items`: a page of a session's transcript.

use clap::Args;
use crystal_protocol::{
    event::Event,
    ids::{ItemId, SessionId},
    rpc::{SessionItems, SessionItemsParams, SessionItemsResult},
};

use crate::{
    context::Context,
    output::SUCCESS,
    session_ref,
    transcript::{Thinking, Transcript},
};

/// Prints items of a session, oldest first: the last ones, or those before an item.
#[derive(Debug, Args)]
pub(crate) struct ItemsArgs {
    /// The session.
    session: Option<String>,
    /// Only items before this one.
    #[arg(long, value_name = "ITEM")]
    before: Option<String>,
    /// At most so many, 1 to 1000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: Option<u64>,
}

pub(crate) async fn items(cx: &Context, args: ItemsArgs) -> anyhow::Result<u8> {
    let client = cx.client().await?;
    let session = session_ref::resolve(&client, args.session.as_deref()).await?;
    let params = SessionItemsParams {
        session: session.clone(),
        before: args.before.map(ItemId::new),
        limit: args.limit,
    };
    let page = client.call::<SessionItems>(params).await?;
    cx.out
        .result(&page, |page| human(cx, &session, page))
        .await?;
    Ok(SUCCESS)
}

fn human(cx: &Context, session: &SessionId, page: &SessionItemsResult) -> String {
    let hints = cx.hints(session);
    let mut transcript = Transcript::new(Some(hints), Thinking::Shown);
    let mut text = String::new();
    if let (true, Some(first)) = (page.has_more, page.items.first()) {
        text.push_str(&format!("(older ones with --before {})\n", first.id));
    }
    for item in &page.items {
        for piece in transcript.event(&Event::ItemCompleted { item: item.clone() }) {
            text.push_str(&piece.text);
        }
    }
    text
}
