//! How the events of a followed turn are shown.

use std::io;

use crystal_protocol::{
    event::{AnyEvent, Event, SessionEvent},
    item::ItemBody,
    session::Snapshot,
    time::Timestamp,
    turn::TurnCompleted,
};

use crate::{
    output::Output,
    run::lines::Lines,
    transcript::{
        Channel, Piece, Transcript,
        inquiry::{self, Hints},
    },
};

/// In which form.
pub(crate) enum Form {
    /// For people: the answer on stdout, the rest on stderr.
    People(Box<Transcript>),
    /// JSON lines on stdout.
    Lines(Lines),
    /// Not at all.
    Nothing,
}

/// Shows events, and on stderr, in every form, what waits for a person.
pub(crate) struct Show {
    /// How to print.
    pub(crate) out: Output,
    /// In which form.
    pub(crate) form: Form,
    /// For the commands that answer what waits; `None` when nothing waits, since the session denies by itself.
    pub(crate) hints: Option<Hints>,
}

impl Show {
    /// An event of the turn.
    pub(crate) async fn event(&mut self, event: &SessionEvent) -> io::Result<()> {
        let AnyEvent::Known(known) = &event.event else {
            return Ok(());
        };
        match &mut self.form {
            // Who follows a message has written it.
            Form::People(_) if is_user_message(known) => Ok(()),
            Form::People(transcript) => print(self.out, transcript.event(known)).await,
            Form::Lines(lines) => {
                for line in lines.event(event.time, known) {
                    self.out.json_line(&line).await?;
                }
                self.inquiry(known).await
            }
            Form::Nothing => self.inquiry(known).await,
        }
    }

    /// The state after events that are not known one by one.
    pub(crate) async fn snapshot(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        match &mut self.form {
            Form::People(transcript) => print(self.out, transcript.snapshot(snapshot)).await,
            Form::Lines(lines) => {
                for line in lines.snapshot(snapshot) {
                    self.out.json_line(&line).await?;
                }
                Ok(())
            }
            Form::Nothing => Ok(()),
        }
    }

    /// The end of a turn that no event told of.
    pub(crate) async fn completed(&mut self, completed: &TurnCompleted) -> io::Result<()> {
        match &mut self.form {
            Form::People(transcript) => {
                let event = Event::TurnCompleted(completed.clone());
                print(self.out, transcript.event(&event)).await
            }
            Form::Lines(lines) => {
                for line in lines.turn(Timestamp::now(), completed) {
                    self.out.json_line(&line).await?;
                }
                Ok(())
            }
            Form::Nothing => Ok(()),
        }
    }

    async fn inquiry(&self, event: &Event) -> io::Result<()> {
        let Some(hints) = &self.hints else {
            return Ok(());
        };
        match event {
            Event::ApprovalRequested { approval } => {
                self.out.note(&inquiry::approval(approval, hints)).await
            }
            Event::QuestionRequested { question } => {
                self.out.note(&inquiry::question(question, hints)).await
            }
            _ => Ok(()),
        }
    }
}

fn is_user_message(event: &Event) -> bool {
    matches!(event, Event::ItemCompleted { item } if matches!(item.body, ItemBody::UserMessage { .. }))
}

async fn print(out: Output, pieces: Vec<Piece>) -> io::Result<()> {
    for piece in pieces {
        match piece.channel {
            Channel::Answer => out.text(&piece.text).await?,
            Channel::Rest => out.aside(&piece.text).await?,
        }
    }
    Ok(())
}
