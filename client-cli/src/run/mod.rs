//! `run`: one task in a session of its own, then the end, with an exit code that a script can go by.

pub(crate) mod args;
pub(crate) mod exit;
pub(crate) mod lines;
mod schema;

use std::io::IsTerminal as _;

use crystal_protocol::{
    client::{Client, SessionStream},
    client_ref::Role,
    error::ErrorKind,
    item::Note,
    rpc::{
        Empty, ModelList, SessionClose, SessionCreate, SessionParams, TurnSubmit, TurnSubmitParams,
        WhenBusy,
    },
    session::SessionInfo,
    span::Span,
    time::Timestamp,
};

use crate::{
    context::{Context, read_stdin},
    follow::{self, Ended, Followed},
    run::{
        args::{Format, RunArgs},
        exit::Exit,
        lines::Lines,
        schema::AnswerSchema,
    },
    show::{Form, Show},
    signals::Signals,
    transcript::{Thinking, Transcript},
    wire::name_of,
};

/// Runs the task; gives the exit code.
///
/// # Errors
/// What ends with exit code 1: nothing was begun, or the connection was lost for good.
pub(crate) async fn run(context: &Context, args: RunArgs) -> anyhow::Result<u8> {
    let params = args.session()?;
    let schema = match &args.json_schema {
        Some(path) => Some(AnswerSchema::load(path).await?),
        None => None,
    };
    let task = match args.task.as_deref() {
        Some(task) if task != "-" => task.to_owned(),
        None if std::io::stdin().is_terminal() => String::new(),
        _ => read_stdin().await?,
    };
    anyhow::ensure!(
        !task.trim().is_empty(),
        "there is no task: give one as an argument or on stdin"
    );
    let mut signals = Signals::listen()?;
    let client = context.client().await?;
    let created = match client.call::<SessionCreate>(params).await {
        Ok(created) => created,
        Err(error) => {
            let kind = error.rpc().and_then(|error| error.kind());
            if kind == Some(ErrorKind::WorkspaceNotTrusted) {
                let program = context.command_name();
                anyhow::bail!(
                    "{error} Pass --workspace-trust off to trust it for this run, or run `{program} trust` in it."
                );
            }
            context.out.note(&format!("crystal-ctl: {error}")).await?;
            return Ok(Exit::of_error(&error).code());
        }
    };
    let run = Run {
        context,
        client,
        info: created.session,
        json: context.out.json || args.format == Format::Json,
    };
    let end = match run.open(&created.notes).await {
        Ok(()) => run.task(&args, task, schema, &mut signals).await,
        Err(error) => Err(error.into()),
    };
    if args.keep {
        run.note(&format!("- session {} stays live", run.info.id))
            .await?;
    } else {
        run.close().await?;
    }
    end.map(Exit::code)
}

struct Run<'a> {
    context: &'a Context,
    client: Client,
    info: SessionInfo,
    json: bool,
}

impl Run<'_> {
    /// Says which session it is, and what the daemon had to say about making it.
    async fn open(&self, notes: &[Note]) -> std::io::Result<()> {
        if !self.json {
            for note in notes {
                self.note(&format!("- {}", note.text)).await?;
            }
            return Ok(());
        }
        let out = self.context.out;
        let lines = Lines::new(self.info.id.clone());
        out.json_line(&lines.session(&self.info)).await?;
        for note in notes {
            out.json_line(&lines.note(Timestamp::now(), note.level, &note.text))
                .await?;
        }
        Ok(())
    }

    /// Refuses a model whose key was not found: that is a wrong configuration, not a failed request.
    async fn check_key(&self) -> anyhow::Result<()> {
        let list = self.client.call::<ModelList>(Empty {}).await?;
        let missing = list.models.iter().any(|model| {
            model.provider == self.info.provider
                && model.model == self.info.model
                && !model.key_present
        });
        if missing {
            anyhow::bail!(
                "there is no key for the provider {}; set its variable in the environment, or apiKey in providers.json",
                self.info.provider
            );
        }
        Ok(())
    }

    async fn task(
        &self,
        args: &RunArgs,
        task: String,
        schema: Option<AnswerSchema>,
        signals: &mut Signals,
    ) -> anyhow::Result<Exit> {
        self.check_key().await?;
        let id = self.info.id.clone();
        let mut stream = self
            .context
            .stream(id.clone(), Role::Controller, None, None)
            .await?;
        let lines = Lines::new(id);
        let mut show = self.show(args);
        let message = match &schema {
            Some(schema) => format!("{task}\n\n{}", schema.instruction()),
            None => task,
        };
        let mut end = self.turn(message, &mut stream, &mut show, signals).await?;
        if let (Ending::Turn(followed), Some(schema)) = (&end, &schema)
            && let Some(fault) = self.fault(schema, followed).await?
        {
            self.note(&format!("- the answer is asked for again: {fault}"))
                .await?;
            let denied = followed.denied;
            end = self
                .turn(schema.complaint(&fault), &mut stream, &mut show, signals)
                .await?;
            if let Ending::Turn(followed) = &mut end {
                followed.denied |= denied;
                if let Some(fault) = self.fault(schema, followed).await? {
                    return self.bad_answer(&lines, &fault).await;
                }
            }
        }
        let (exit, reason) = match &end {
            Ending::Refused(exit, message) => {
                if self.json {
                    self.context
                        .out
                        .json_line(&lines.error("refused", message))
                        .await?;
                }
                (*exit, "refused".to_owned())
            }
            Ending::Abandoned => (Exit::Interrupted, "interrupted".to_owned()),
            Ending::Turn(followed) if followed.stopped => {
                (Exit::Interrupted, "interrupted".to_owned())
            }
            Ending::Turn(followed) => {
                let reason = followed.completed.reason;
                (Exit::of_turn(reason, followed.denied), name_of(&reason))
            }
        };
        if self.json && exit != Exit::Done {
            let reason = if exit == Exit::Denied {
                "denied"
            } else {
                &reason
            };
            self.context
                .out
                .json_line(&lines.stopped(reason, exit.code()))
                .await?;
        }
        Ok(exit)
    }

    fn show(&self, args: &RunArgs) -> Show {
        let hints = args.ask.then(|| self.context.hints(&self.info.id));
        let thinking = if args.show_thinking {
            Thinking::Shown
        } else {
            Thinking::Hidden
        };
        Show {
            out: self.context.out,
            form: if self.json {
                Form::Lines(Lines::new(self.info.id.clone()))
            } else {
                Form::People(Box::new(Transcript::new(hints.clone(), thinking)))
            },
            hints,
        }
    }

    async fn turn(
        &self,
        message: String,
        stream: &mut SessionStream,
        show: &mut Show,
        signals: &mut Signals,
    ) -> anyhow::Result<Ending> {
        let params = TurnSubmitParams {
            session: self.info.id.clone(),
            spans: vec![Span::Text { text: message }],
            when_busy: WhenBusy::Queue,
        };
        let submitted = match self.client.call::<TurnSubmit>(params).await {
            Ok(submitted) => submitted,
            Err(error) => {
                self.context
                    .out
                    .note(&format!("crystal-ctl: {error}"))
                    .await?;
                return Ok(Ending::Refused(Exit::of_error(&error), error.to_string()));
            }
        };
        let ended = follow::turn(self.context, stream, &submitted, show, signals).await?;
        Ok(match ended {
            Ended::Turn(followed) => Ending::Turn(followed),
            Ended::Abandoned => Ending::Abandoned,
        })
    }

    /// What is wrong with the answer of a turn that the model ended by itself.
    async fn fault(
        &self,
        schema: &AnswerSchema,
        followed: &Followed,
    ) -> anyhow::Result<Option<String>> {
        let exit = Exit::of_turn(followed.completed.reason, followed.denied);
        if !matches!(exit, Exit::Done | Exit::Denied) || followed.stopped {
            return Ok(None);
        }
        let Some(item) = &followed.answer else {
            return Ok(Some("there is no message".to_owned()));
        };
        let text = follow::whole_text(self.context, &self.info.id, item).await?;
        Ok(schema.fault(&text))
    }

    async fn bad_answer(&self, lines: &Lines, fault: &str) -> anyhow::Result<Exit> {
        let message = format!("the answer does not keep the schema: {fault}");
        if self.json {
            let out = self.context.out;
            out.json_line(&lines.error("jsonSchema", &message)).await?;
            out.json_line(&lines.stopped("jsonSchema", Exit::Invalid.code()))
                .await?;
        }
        self.context
            .out
            .note(&format!("crystal-ctl: {message}"))
            .await?;
        Ok(Exit::Invalid)
    }

    async fn note(&self, text: &str) -> std::io::Result<()> {
        self.context.out.note(text).await
    }

    /// Closes the session, on a connection of its own: the first one may have gone with a daemon that crashed.
    async fn close(&self) -> anyhow::Result<()> {
        let session = self.info.id.clone();
        let closed = async {
            let client = self.context.client().await?;
            client.call::<SessionClose>(SessionParams { session }).await
        };
        if let Err(error) = closed.await {
            let id = &self.info.id;
            self.note(&format!("! session {id} could not be closed: {error}"))
                .await?;
        }
        Ok(())
    }
}

/// How a turn of the run ended.
enum Ending {
    Turn(Box<Followed>),
    Abandoned,
    /// The daemon did not take the message.
    Refused(Exit, String),
}
