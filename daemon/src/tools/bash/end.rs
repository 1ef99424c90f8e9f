//! How a command ended, and the result that says so.

use std::{io, process::ExitStatus, time::Duration};

use super::transcript::Transcript;
use crate::{
    stdx::{process_tree::Member, truncate, visible},
    tools::ToolOutput,
};

/// Leftovers that are named in a result.
const NAMED_LEFTOVERS: usize = 10;

/// Longest command line of a named leftover, in characters.
const LEFTOVER_CHARS: usize = 200;

/// How a call ended.
pub(super) struct End {
    /// Why.
    pub(super) cause: Cause,
    /// The main process's status; `None` when it could not be had.
    pub(super) status: Option<ExitStatus>,
    /// What was still running when the main process had ended, and was ended with it.
    pub(super) leftovers: Vec<Member>,
    /// Something that could not be ended keeps the output open.
    pub(super) output_open: bool,
}

/// Why a call ended.
pub(super) enum Cause {
    /// The main process ended.
    Exited,
    /// It ran for so long.
    TimedOut(Duration),
    /// It was told to.
    Cancelled,
    /// Its main process cannot be waited for.
    Lost(io::Error),
}

impl End {
    /// The result: the output, then what there is to say about the end.
    pub(super) fn into_output(self, transcript: &Transcript) -> ToolOutput {
        let mut text = transcript.text();
        if text.is_empty() {
            text.push_str("(no output)");
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let lines = self.status_lines();
        text.push_str(&lines.join("\n"));
        let text = text.trim_end_matches('\n');
        let output = match &self.cause {
            Cause::Cancelled => ToolOutput::cancelled(text),
            Cause::Exited if self.status.is_some_and(|status| status.success()) => {
                ToolOutput::success(text)
            }
            Cause::Exited | Cause::TimedOut(_) | Cause::Lost(_) => ToolOutput::failure(text),
        };
        output
            .with_truncated(transcript.is_cut())
            .with_exit_code(self.status.and_then(|status| status.code()))
    }

    fn status_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.cause {
            Cause::Exited => lines.extend(self.status.and_then(status_line)),
            Cause::TimedOut(limit) => lines.push(format!("timed out after {} s", limit.as_secs())),
            Cause::Cancelled => lines.push("cancelled".to_owned()),
            Cause::Lost(error) => lines.push(format!("the command was lost: {error}")),
        }
        if !self.leftovers.is_empty() {
            lines.push("ended with the command, because they were still running:".to_owned());
        }
        lines.extend(self.leftovers.iter().take(NAMED_LEFTOVERS).map(|member| {
            let command_line = truncate::one_line(&member.command_line, LEFTOVER_CHARS);
            format!(
                "- process {}: {}",
                member.pid,
                visible::escape_invisible(&command_line)
            )
        }));
        if let Some(more @ 1..) = self.leftovers.len().checked_sub(NAMED_LEFTOVERS) {
            lines.push(format!("- and {more} more"));
        }
        if self.output_open {
            lines.push(
                "a process that could not be ended keeps the output open; it is not read any more"
                    .to_owned(),
            );
        }
        lines
    }
}

/// What there is to say of an exit status; nothing for success.
fn status_line(status: ExitStatus) -> Option<String> {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if let Some(signal) = status.signal() {
            return Some(match signal_name(signal) {
                Some(name) => format!("killed by signal {signal} ({name})"),
                None => format!("killed by signal {signal}"),
            });
        }
    }
    status
        .code()
        .filter(|code| *code != 0)
        .map(|code| format!("exit code {code}"))
}

#[cfg(unix)]
fn signal_name(signal: i32) -> Option<&'static str> {
    use rustix::process::Signal;

    const NAMES: &[(Signal, &str)] = &[
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
    ];
    NAMES
        .iter()
        .find(|(known, _)| known.as_raw() == signal)
        .map(|(_, name)| *name)
}
