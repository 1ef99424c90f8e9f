//! `attach`: a session's events as they come.

use clap::Args;
use crystal_protocol::{
    client::{RawUpdate, SessionStream, Update},
    client_ref::Role,
    event::AnyEvent,
    ids::Seq,
    session::Snapshot,
};
use serde::Serialize;

use crate::{
    context::Context,
    output::SUCCESS,
    session_ref,
    signals::Signals,
    transcript::{Piece, Thinking, Transcript},
};

/// Shows a session as it goes on, in lines. Ends with Ctrl+C, which ends nothing in the session, or when it is closed.
///
/// With --events (or --json) each line is the JSON of a `session/event` or `session/resync` notification as the
/// daemon sent it, hidden characters written as escapes. A snapshot, which comes first and whenever missed events are
/// no longer there, is a line `{"session", "seq", "snapshot"}`.
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// The session.
    session: Option<String>,
    /// Prints events as JSON, one a line.
    #[arg(long)]
    events: bool,
    /// Begins after this event, without a snapshot if the events since are still there.
    #[arg(long, value_name = "SEQ")]
    after: Option<Seq>,
    /// Attaches as someone who only looks.
    #[arg(long)]
    observer: bool,
    /// Items in the snapshot.
    #[arg(long, value_name = "N")]
    items: Option<u64>,
    /// Shows the model's reasoning.
    #[arg(long)]
    show_thinking: bool,
}

#[derive(Serialize)]
struct SnapshotLine<'a> {
    session: &'a str,
    seq: Seq,
    snapshot: &'a Snapshot,
}

pub(crate) async fn attach(cx: &Context, args: AttachArgs) -> anyhow::Result<u8> {
    let mut signals = Signals::listen()?;
    let session = {
        let client = cx.client().await?;
        session_ref::resolve(&client, args.session.as_deref()).await?
    };
    let role = if args.observer {
        Role::Observer
    } else {
        Role::Controller
    };
    let mut stream = cx.stream(session, role, args.after, args.items).await?;
    let shown = async {
        if args.events || cx.out.json {
            events(cx, &mut stream).await
        } else {
            lines(cx, &mut stream, args.show_thinking).await
        }
    };
    tokio::select! {
        end = shown => end?,
        () = signals.next() => {}
    }
    Ok(SUCCESS)
}

async fn events(cx: &Context, stream: &mut SessionStream) -> anyhow::Result<()> {
    let session = stream.info().id.clone();
    while let Some(update) = stream.next_raw().await? {
        let (snapshot, seq) = match update {
            RawUpdate::Notification(notification) => {
                let line = notification.params.get().replace(['\n', '\r'], " ");
                cx.out.json_text(&line).await?;
                continue;
            }
            RawUpdate::Disconnected | RawUpdate::Reattached { snapshot: None, .. } => continue,
            RawUpdate::Snapshot(snapshot, seq) => (snapshot, seq),
            RawUpdate::Reattached {
                snapshot: Some(snapshot),
                seq,
            } => (snapshot, seq),
        };
        let line = SnapshotLine {
            session: session.as_str(),
            seq,
            snapshot: &snapshot,
        };
        cx.out.json_line(&line).await?;
    }
    Ok(())
}

async fn lines(cx: &Context, stream: &mut SessionStream, thinking: bool) -> anyhow::Result<()> {
    let hints = cx.hints(&stream.info().id);
    let thinking = if thinking {
        Thinking::Shown
    } else {
        Thinking::Hidden
    };
    let mut transcript = Transcript::new(Some(hints), thinking);
    while let Some(update) = stream.next().await? {
        let pieces = match &update {
            Update::Event(event) => match &event.event {
                AnyEvent::Known(event) => transcript.event(event),
                AnyEvent::Unknown(_) => Vec::new(),
            },
            Update::Snapshot(snapshot, _) => transcript.snapshot(snapshot),
            Update::Resync(resync) => transcript.snapshot(&resync.snapshot),
            Update::Disconnected => {
                let text = "- the connection to the daemon was lost; trying to get it back";
                cx.out.note(text).await?;
                Vec::new()
            }
            Update::Reattached { snapshot, .. } => {
                cx.out.note("- the connection is back").await?;
                snapshot
                    .as_ref()
                    .map_or_else(Vec::new, |s| transcript.snapshot(s))
            }
        };
        for Piece { text, .. } in pieces {
            cx.out.text(&text).await?;
        }
    }
    Ok(())
}
