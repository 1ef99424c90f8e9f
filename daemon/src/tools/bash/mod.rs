//! `bash`: one command in the foreground, its output on the way while it runs, its whole process tree gone when the call
//! returns.
//!
//! Standard output and standard error are one pipe, so their order is that of writing. Three things end a call: the main
//! process, the time limit, a cancel. After the last two the tree gets TERM, then KILL. After the first, what is left of
//! the tree has a moment to finish writing; then it is ended too and named in the result.

mod end;
mod transcript;

use std::{future::Future, io, pin::Pin, process::Stdio, time::Duration};

use async_trait::async_trait;
use crystal_protocol::{
    approval::{Authority, CommandPart, Preview, Risk},
    limits::OUTPUT_DELTA_BYTES,
    rpc::TimeoutSetting,
    session::Mode,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
    sync::mpsc,
    time::{Instant, sleep_until, timeout, timeout_at},
};

use self::{
    end::{Cause, End},
    transcript::Transcript,
};
use super::{BuiltIn, Effects, ToolContext, ToolOutput};
use crate::{
    limits::KILL_GRACE,
    stdx::{
        process_tree::{Member, ProcessTree},
        truncate,
        utf8_chunks::{Utf8Chunks, pieces},
        visible,
    },
    terms::Rule,
};

/// How long what is left of a tree may go on writing after its main process ended. With the times below it stays within
/// [`KILL_GRACE`].
const LEFTOVER_PATIENCE: Duration = Duration::from_millis(1000);

/// Between TERM and KILL for leftovers.
const LEFTOVER_GRACE: Duration = Duration::from_millis(400);

/// How long output that is already in the pipe is read after the tree is gone.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Between two looks at what is left.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Longest command in bytes: Linux passes no longer single argument (128 KiB with its end).
const COMMAND_BYTES: usize = 128 * 1024 - 1;

/// Longest title, in characters.
const TITLE_CHARS: usize = 80;

/// Runs shell commands.
#[derive(Default)]
pub struct Bash;

/// Arguments of `bash`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BashArgs {
    /// The command, as `bash -c` takes it.
    pub command: String,
    /// What it is for, in a few words.
    #[serde(default)]
    pub description: Option<String>,
    /// Seconds after which it is ended, instead of the session's limit; null or "unlimited" for none.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "TimeoutSetting")]
    pub timeout_seconds: Option<TimeoutSetting>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TimeoutSetting>, D::Error> {
    TimeoutSetting::deserialize(deserializer).map(Some)
}

#[async_trait]
impl BuiltIn for Bash {
    type Args = BashArgs;

    const NAME: &'static str = "bash";
    const TITLE: &'static str = "Run a command";
    const DESCRIPTION: &'static str = include_str!("../../../../prompts/tools/bash.md");
    const CATALOGS: &'static [Mode] = &[Mode::Work];

    async fn plan(&self, args: &BashArgs, _: &ToolContext) -> Result<Effects, ToolOutput> {
        check_command(&args.command)?;
        let reason = "A shell command can change anything in the workspace.";
        Ok(Effects {
            title: title(args),
            risk: Risk::Write,
            authority: Authority::Workspace,
            reason: reason.to_owned(),
            summary: visible::escape_invisible(&args.command),
            preview: Some(Preview::Commands {
                commands: vec![CommandPart {
                    text: visible::escape_invisible_lines(&args.command),
                    risk: Risk::Write,
                    reason: reason.to_owned(),
                }],
            }),
            rule: Some(Rule::Command {
                text: args.command.clone(),
            }),
            paths: Vec::new(),
        })
    }

    async fn run(&self, args: BashArgs, _: &Effects, cx: &ToolContext) -> ToolOutput {
        if let Err(refusal) = check_command(&args.command) {
            return refusal;
        }
        let limit = match args.timeout_seconds {
            Some(setting) => setting.duration(),
            None => cx.bash_timeout,
        };
        let (mut tree, output) = match start(&args.command, cx) {
            Ok(started) => started,
            Err(error) => return start_failure(&error, cx),
        };
        let mut transcript = Transcript::default();
        let end = {
            let pump = std::pin::pin!(pump(output, &mut transcript, &cx.output));
            Call {
                tree: &mut tree,
                pump,
                drained: false,
            }
            .drive(limit, cx)
            .await
        };
        end.into_output(&transcript)
    }
}

/// Refuses what no shell could be given.
fn check_command(command: &str) -> Result<(), ToolOutput> {
    if command.trim().is_empty() {
        Err(ToolOutput::failure("`command` is empty: say what to run."))
    } else if command.contains('\0') {
        Err(ToolOutput::failure(
            "`command` has a NUL character in it, which no command can have: write it as an escape, `\\0`.",
        ))
    } else if command.len() > COMMAND_BYTES {
        Err(ToolOutput::failure(format!(
            "`command` has {} bytes, and at most {COMMAND_BYTES} can be passed to bash: write the script to a file and run that.",
            command.len()
        )))
    } else {
        Ok(())
    }
}

fn title(args: &BashArgs) -> String {
    let text = args
        .description
        .as_deref()
        .filter(|description| !description.trim().is_empty())
        .unwrap_or(&args.command);
    visible::escape_invisible(&truncate::one_line(text, TITLE_CHARS))
}

type Output = Box<dyn AsyncRead + Send + Unpin>;

/// Starts the command with one pipe for both streams.
#[cfg(unix)]
fn start(text: &str, cx: &ToolContext) -> io::Result<(ProcessTree, Output)> {
    use crate::stdx::process_tree::PipeId;

    let (reader, writer) = io::pipe()?;
    let pipe = PipeId::of(&reader)?;
    let output = tokio::net::unix::pipe::Receiver::from_owned_fd(reader.into())?;
    let mut command = command(text, cx);
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut tree = ProcessTree::spawn(&mut command)?;
    tree.claim_output(pipe);
    // The command holds the pipe's write ends, which must be the child's alone.
    drop(command);
    Ok((tree, Box::new(output)))
}

/// Starts the command; its output is read before its errors here.
#[cfg(not(unix))]
fn start(text: &str, cx: &ToolContext) -> io::Result<(ProcessTree, Output)> {
    let mut command = command(text, cx);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tree = ProcessTree::spawn(&mut command)?;
    let child = tree.child();
    let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::other("the process has no output"));
    };
    Ok((tree, Box::new(output.chain(errors))))
}

fn command(text: &str, cx: &ToolContext) -> Command {
    let mut command = Command::new("bash");
    command
        .arg("-c")
        .arg(text)
        .current_dir(&cx.workspace.root)
        .env_clear()
        .envs(cx.environment.iter())
        .stdin(Stdio::null());
    command
}

fn start_failure(error: &io::Error, cx: &ToolContext) -> ToolOutput {
    let root = cx.workspace.root.display();
    ToolOutput::failure(match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if !cx.workspace.root.is_dir() => {
            format!("The workspace {root} is not a directory any more, so no command can run in it.")
        }
        io::ErrorKind::NotFound => {
            "There is no `bash` in the PATH of this session, so no command can run.".to_owned()
        }
        io::ErrorKind::ArgumentListTooLong => {
            "The command and its environment are too long for the system: write the script to a file and run that."
                .to_owned()
        }
        _ => format!("bash could not be started: {error}."),
    })
}

/// Reads the output to its end: into the transcript, and to those who watch.
async fn pump(mut output: Output, transcript: &mut Transcript, watchers: &mpsc::Sender<String>) {
    let mut decoder = Utf8Chunks::new();
    let mut buffer = vec![0; OUTPUT_DELTA_BYTES];
    loop {
        // A pipe that cannot be read any more is as good as one that has ended.
        let read = output.read(&mut buffer).await.unwrap_or_default();
        let text = match read {
            0 => decoder.finish(),
            _ => decoder.push(&buffer[..read]),
        };
        transcript.push(&text);
        for piece in pieces(&text, OUTPUT_DELTA_BYTES) {
            // Nobody watches when this fails; the result is made all the same.
            watchers.send(piece.to_owned()).await.ok();
        }
        if read == 0 {
            return;
        }
    }
}

/// A command that runs.
struct Call<'a, P> {
    tree: &'a mut ProcessTree,
    pump: Pin<&'a mut P>,
    /// The output has ended.
    drained: bool,
}

impl<P: Future<Output = ()>> Call<'_, P> {
    async fn drive(mut self, limit: Option<Duration>, cx: &ToolContext) -> End {
        let cause = self.wait(limit, cx).await;
        let leftovers = match cause {
            Cause::Exited => self.settle(cx).await,
            Cause::TimedOut(_) | Cause::Cancelled | Cause::Lost(_) => {
                self.end(KILL_GRACE).await;
                Vec::new()
            }
        };
        // A process that even KILL does not end is left to the runtime, which reaps it when it does.
        let status = timeout(LAST_WORDS, self.tree.reap()).await;
        self.pump_for(LAST_WORDS).await;
        End {
            cause,
            status: status.ok().and_then(Result::ok),
            leftovers,
            output_open: !self.drained,
        }
    }

    /// Until the main process ends, its time is up or the call is cancelled.
    async fn wait(&mut self, limit: Option<Duration>, cx: &ToolContext) -> Cause {
        let deadline = limit.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        let time_up = async {
            match deadline {
                Some((at, limit)) => {
                    sleep_until(at).await;
                    limit
                }
                None => std::future::pending().await,
            }
        };
        let mut time_up = std::pin::pin!(time_up);
        loop {
            tokio::select! {
                biased;
                () = cx.cancel.cancelled() => return Cause::Cancelled,
                ended = self.tree.leader_ended() => return match ended {
                    Ok(()) => Cause::Exited,
                    Err(error) => Cause::Lost(error),
                },
                limit = &mut time_up => return Cause::TimedOut(limit),
                () = &mut self.pump, if !self.drained => self.drained = true,
            }
        }
    }

    /// After the main process's end: waits a moment for the rest of the tree, then ends and returns it.
    async fn settle(&mut self, cx: &ToolContext) -> Vec<Member> {
        let deadline = Instant::now() + LEFTOVER_PATIENCE;
        if !self.drained {
            tokio::select! {
                () = &mut self.pump => self.drained = true,
                () = sleep_until(deadline) => {}
                () = cx.cancel.cancelled() => {}
            }
        }
        if self.drained {
            // The usual end, and no process table is read for it.
            if self.tree.reap().await.is_ok() && self.tree.group_is_empty() {
                return Vec::new();
            }
            while Instant::now() < deadline && !cx.cancel.is_cancelled() {
                if self.tree.group_is_empty() || self.tree.leftovers().await.is_empty() {
                    return Vec::new();
                }
                sleep_until(deadline.min(Instant::now() + LOOK_INTERVAL)).await;
            }
        }
        let leftovers = self.tree.leftovers().await;
        self.end(LEFTOVER_GRACE).await;
        leftovers
    }

    /// Ends the tree, and goes on reading meanwhile.
    async fn end(&mut self, grace: Duration) {
        let mut ending = std::pin::pin!(self.tree.end(grace));
        loop {
            tokio::select! {
                // Waiting for it fails only where there is nothing to wait for.
                _ = &mut ending => return,
                () = &mut self.pump, if !self.drained => self.drained = true,
            }
        }
    }

    async fn pump_for(&mut self, patience: Duration) {
        if !self.drained {
            let deadline = Instant::now() + patience;
            self.drained = timeout_at(deadline, &mut self.pump).await.is_ok();
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
