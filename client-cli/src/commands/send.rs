//! `send`: a message to a session.

use clap::Args;
use crystal_protocol::{
    client_ref::Role,
    rpc::{TurnSubmit, TurnSubmitParams, TurnSubmitResult, WhenBusy},
    span::Span,
};

use crate::{
    context::{Context, read_stdin},
    follow::{self, Ended},
    output::SUCCESS,
    run::exit::Exit,
    session_ref,
    show::{Form, Show},
    signals::Signals,
    transcript::{Thinking, Transcript},
};

/// Sends a message. While a turn runs it waits in the queue.
///
/// With --wait the model's answer goes to stdout, all else to stderr, and the exit code is that of `run`; with --json
/// too, the end of the turn is printed instead.
#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The session.
    session: String,
    /// The message; read from stdin when absent or `-`.
    text: Option<String>,
    /// Waits for the end of the turn. Ctrl+C interrupts it.
    #[arg(long)]
    wait: bool,
    /// Fails while a turn runs.
    #[arg(long)]
    reject_busy: bool,
}

pub(crate) async fn send(cx: &Context, args: SendArgs) -> anyhow::Result<u8> {
    let text = match args.text {
        Some(text) if text != "-" => text,
        _ => read_stdin().await?,
    };
    let client = cx.client().await?;
    let session = session_ref::resolve(&client, Some(&args.session)).await?;
    let params = TurnSubmitParams {
        session: session.clone(),
        spans: vec![Span::Text { text }],
        when_busy: if args.reject_busy {
            WhenBusy::Reject
        } else {
            WhenBusy::Queue
        },
    };
    if !args.wait {
        let submitted = client.call::<TurnSubmit>(params).await?;
        cx.out.result(&submitted, human).await?;
        return Ok(SUCCESS);
    }
    let mut signals = Signals::listen()?;
    // Attached first, so that no event of the turn is missed.
    let mut stream = cx.stream(session, Role::Controller, None, Some(1)).await?;
    let submitted = client.call::<TurnSubmit>(params).await?;
    if let TurnSubmitResult::Queued { .. } = submitted {
        cx.out.note(&format!("- {}", human(&submitted))).await?;
    }
    let hints = Some(cx.hints(&stream.info().id));
    let mut show = Show {
        out: cx.out,
        form: if cx.out.json {
            Form::Nothing
        } else {
            Form::People(Box::new(Transcript::new(hints.clone(), Thinking::Hidden)))
        },
        hints,
    };
    match follow::turn(cx, &mut stream, &submitted, &mut show, &mut signals).await? {
        Ended::Abandoned => Ok(Exit::Interrupted.code()),
        Ended::Turn(followed) => {
            if cx.out.json {
                cx.out.json_line(&followed.completed).await?;
            }
            Ok(Exit::of_turn(followed.completed.reason, followed.denied).code())
        }
    }
}

fn human(submitted: &TurnSubmitResult) -> String {
    match submitted {
        TurnSubmitResult::Started { turn, .. } => format!("turn {turn} began"),
        TurnSubmitResult::Queued { queued } => {
            format!("queued as {} at place {}", queued.id, queued.position + 1)
        }
    }
}
