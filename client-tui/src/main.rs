//! `crystal`: for people. This build has no terminal UI: only `version`, and `run` and `attach` by `crystal-ctl`.

use std::{
    ffi::OsString,
    io,
    path::PathBuf,
    process::{Command, ExitCode},
};

use clap::{Parser, Subcommand};

/// Crystal, a coding agent whose sessions live in a daemon.
#[derive(Parser)]
#[command(name = "crystal", version)]
struct Cli {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Prints the version.
    Version,
    /// Runs one task and exits: the same as `crystal-ctl run`, which has the help.
    #[command(disable_help_flag = true)]
    Run(Passed),
    /// Shows a session in lines as it goes on: the same as `crystal-ctl attach`, which has the help.
    #[command(disable_help_flag = true)]
    Attach(Passed),
}

#[derive(clap::Args)]
struct Passed {
    /// Arguments of `crystal-ctl`, passed on as they are.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

fn main() -> ExitCode {
    match Cli::parse().action {
        Some(Action::Version) => {
            println!("crystal {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Some(Action::Run(passed)) => hand_over("run", passed.arguments),
        Some(Action::Attach(passed)) => hand_over("attach", passed.arguments),
        None => {
            eprintln!("crystal: this build has no terminal UI. Use `crystal-ctl attach`.");
            ExitCode::FAILURE
        }
    }
}

/// Runs the `crystal-ctl` beside this program, else the one on PATH, and ends as it ends.
fn hand_over(command: &str, arguments: Vec<OsString>) -> ExitCode {
    let name = format!("crystal-ctl{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::current_exe()
        .ok()
        .map(|exe| exe.with_file_name(&name));
    let program = match beside {
        Some(path) if path.is_file() => path,
        _ => PathBuf::from(name),
    };
    match become_program(Command::new(&program).arg(command).args(arguments)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("crystal: {} cannot be run: {error}", program.display());
            ExitCode::FAILURE
        }
    }
}

/// Replaces this process, so that signals and the exit code are the other program's; returns only when that fails.
#[cfg(unix)]
fn become_program(command: &mut Command) -> io::Result<ExitCode> {
    Err(std::os::unix::process::CommandExt::exec(command))
}

#[cfg(not(unix))]
fn become_program(command: &mut Command) -> io::Result<ExitCode> {
    let code = command.status()?.code().unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}
