//! `queue`: the prompts that wait their turn.

use clap::Subcommand;
use crystal_protocol::{
    ids::QueuedId,
    rpc::{
        QueueEdit, QueueEditParams, QueueList, QueueRemove, QueueRemoveParams, QueueResult,
        QueueSend, QueueSendParams, SessionParams,
    },
    span::{Span, plain_text},
};

use crate::{
    context::{Context, read_stdin},
    output::{SUCCESS, table},
    session_ref,
};

/// Lists, sends, edits and removes prompts that wait their turn.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Lists them.
    List {
        /// The session.
        session: Option<String>,
    },
    /// Sends those that are held, or one of them.
    Send {
        /// The session.
        session: Option<String>,
        /// The prompt; else all.
        id: Option<String>,
    },
    /// Replaces the message of one.
    Edit {
        /// The session.
        session: String,
        /// The prompt.
        id: String,
        /// Its new message; read from stdin when absent or `-`.
        text: Option<String>,
    },
    /// Takes one back, or all.
    Remove {
        /// The session.
        session: String,
        /// The prompt.
        #[arg(required_unless_present = "all")]
        id: Option<String>,
        /// All of them.
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
}

pub(crate) async fn queue(cx: &Context, command: QueueCommand) -> anyhow::Result<u8> {
    let client = cx.client().await?;
    let word = match &command {
        QueueCommand::List { session } | QueueCommand::Send { session, .. } => session.as_deref(),
        QueueCommand::Edit { session, .. } | QueueCommand::Remove { session, .. } => {
            Some(session.as_str())
        }
    };
    let session = session_ref::resolve(&client, word).await?;
    let result = match command {
        QueueCommand::List { .. } => client.call::<QueueList>(SessionParams { session }).await?,
        QueueCommand::Send { id, .. } => {
            let id = id.map(QueuedId::new);
            client
                .call::<QueueSend>(QueueSendParams { session, id })
                .await?
        }
        QueueCommand::Edit { id, text, .. } => {
            let text = match text {
                Some(text) if text != "-" => text,
                _ => read_stdin().await?,
            };
            let params = QueueEditParams {
                session,
                id: QueuedId::new(id),
                spans: vec![Span::Text { text }],
            };
            client.call::<QueueEdit>(params).await?
        }
        QueueCommand::Remove { id, .. } => {
            let id = id.map(QueuedId::new);
            client
                .call::<QueueRemove>(QueueRemoveParams { session, id })
                .await?
        }
    };
    cx.out.result(&result, human).await?;
    Ok(SUCCESS)
}

fn human(result: &QueueResult) -> String {
    if result.queue.is_empty() {
        return "the queue is empty".to_owned();
    }
    let rows: Vec<Vec<String>> = result
        .queue
        .iter()
        .map(|prompt| {
            vec![
                prompt.id.to_string(),
                if prompt.held { "held" } else { "waits" }.to_owned(),
                prompt.by.name.clone(),
                plain_text(&prompt.spans).replace('\n', " "),
            ]
        })
        .collect();
    table(&rows)
}
