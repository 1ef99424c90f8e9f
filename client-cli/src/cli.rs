//! The command line: each command a variant here, a file in [`crate::commands`], and an arm in [`dispatch`].

use std::{ffi::OsString, path::PathBuf};

use clap::{Parser, Subcommand};
use crystal_protocol::home::Home;

use crate::{commands as c, context::Context, output::Output, run};

/// Drives the Crystal daemon: sessions, turns, approvals, tools.
///
/// The daemon is found by its home and started when it is absent. SESSION is an id, a prefix of at least 4
/// characters, `@last` (the one that changed last), or `@here` (the one live session that works in the current
/// directory); where it may be left out, `@here` is meant.
///
/// Errors go to stderr with exit code 1; a wrong command line exits 2, that of `run` 1. `run` and `send --wait` have
/// more exit codes: see `run --help`.
#[derive(Debug, Parser)]
#[command(name = "crystal-ctl", version)]
pub(crate) struct Cli {
    /// The data directory; else CRYSTAL_HOME, else ~/.crystal.
    #[arg(long, global = true, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Prints results as JSON: one value, or one a line for streams.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Says how the daemon is. Starts none.
    Status,
    /// Starts the daemon, unless it runs.
    Start,
    Stop(c::stop::StopArgs),
    /// Lists live sessions with what they wait for.
    Ps,
    Sessions(c::sessions::SessionsArgs),
    New(c::new::NewArgs),
    Attach(c::attach::AttachArgs),
    Send(c::send::SendArgs),
    /// Interrupts the running turn.
    Interrupt {
        /// The session.
        session: Option<String>,
    },
    /// Lists approvals and questions that wait for an answer.
    Pending {
        /// Only those of this session.
        session: Option<String>,
    },
    Approve(c::approve::ApproveArgs),
    Deny(c::approve::DenyArgs),
    Answer(c::answer::AnswerArgs),
    Items(c::items::ItemsArgs),
    Configure(c::configure::ConfigureArgs),
    /// Ends what runs in the session, saves it, and unloads it.
    Close {
        /// The session.
        session: Option<String>,
    },
    /// Closes the session and removes its files.
    Delete {
        /// The session; must be named.
        session: String,
    },
    #[command(subcommand)]
    Queue(c::queue::QueueCommand),
    /// Lists the tools of the session's present mode.
    Tools {
        /// The session.
        session: Option<String>,
    },
    #[command(subcommand)]
    Tool(c::tool::ToolCommand),
    /// Lists the models of the catalog.
    Models,
    Trust(c::trust::TrustArgs),
    Call(c::call::CallArgs),
    /// Checks home, permissions, daemon, keys, shells and sandbox. Starts nothing; exits 1 when something is broken.
    Doctor,
    Completions(c::completions::CompletionsArgs),
    Run(Box<run::args::RunArgs>),
}

/// Whether the command is `run`, of a command line (program name first) that need not be right.
pub(crate) fn names_run(arguments: &[OsString]) -> bool {
    let mut arguments = arguments.iter().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--home" {
            arguments.next();
        } else if !argument.as_encoded_bytes().starts_with(b"-") {
            return argument == "run";
        }
    }
    false
}

/// Runs the command; gives the exit code.
pub(crate) async fn dispatch(cli: Cli) -> anyhow::Result<u8> {
    let context = Context {
        home: Home::locate(cli.home.as_deref())?,
        home_flag: cli.home,
        out: Output { json: cli.json },
    };
    let cx = &context;
    match cli.command {
        Command::Status => c::status::status(cx).await,
        Command::Start => c::start::start(cx).await,
        Command::Stop(args) => c::stop::stop(cx, &args).await,
        Command::Ps => c::ps::ps(cx).await,
        Command::Sessions(args) => c::sessions::sessions(cx, args).await,
        Command::New(args) => c::new::new(cx, args).await,
        Command::Attach(args) => c::attach::attach(cx, args).await,
        Command::Send(args) => c::send::send(cx, args).await,
        Command::Interrupt { session } => c::interrupt::interrupt(cx, session).await,
        Command::Pending { session } => c::pending::pending(cx, session).await,
        Command::Approve(args) => c::approve::approve(cx, args).await,
        Command::Deny(args) => c::approve::deny(cx, args).await,
        Command::Answer(args) => c::answer::answer(cx, args).await,
        Command::Items(args) => c::items::items(cx, args).await,
        Command::Configure(args) => c::configure::configure(cx, args).await,
        Command::Close { session } => c::close::close(cx, session).await,
        Command::Delete { session } => c::delete::delete(cx, session).await,
        Command::Queue(command) => c::queue::queue(cx, command).await,
        Command::Tools { session } => c::tools::tools(cx, session).await,
        Command::Tool(command) => c::tool::tool(cx, command).await,
        Command::Models => c::models::models(cx).await,
        Command::Trust(args) => c::trust::trust(cx, args).await,
        Command::Call(args) => c::call::call(cx, args).await,
        Command::Doctor => c::doctor::doctor(cx).await,
        Command::Completions(args) => c::completions::completions(cx, &args).await,
        Command::Run(args) => run::run(cx, *args).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_takes_json_and_home_and_has_help() {
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
        let cli = Cli::try_parse_from(["crystal-ctl", "ps", "--json", "--home", "/h"]).unwrap();
        assert!(cli.json);
        assert_eq!(cli.home, Some(PathBuf::from("/h")));
    }

    #[test]
    fn run_is_told_from_other_commands_behind_what_holds_for_all() {
        let names_run = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            super::names_run(&arguments)
        };
        for line in [
            "crystal-ctl run --bad",
            "crystal-ctl --home /h --json run x",
            "crystal-ctl --home=/h run x",
            "crystal-ctl --home run run",
        ] {
            assert!(names_run(line), "{line}");
        }
        for line in [
            "crystal-ctl",
            "run",
            "crystal-ctl status run",
            "crystal-ctl --home run status",
            "crystal-ctl --home",
        ] {
            assert!(!names_run(line), "{line}");
        }
    }

    #[test]
    fn a_lasting_yes_is_one_or_the_other() {
        let parse = |args: &[&str]| Cli::try_parse_from([&["crystal-ctl"], args].concat());
        assert!(parse(&["approve", "abcd", "a1", "--session"]).is_ok());
        assert!(parse(&["approve", "abcd", "--always"]).is_ok());
        assert!(parse(&["approve", "abcd", "--always", "--session"]).is_err());
        assert!(parse(&["run", "x", "--plan", "--work"]).is_err());
    }
}
