//! `crystald`: arguments in, exit code out.

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;
use crystal_daemon::{
    lifecycle::LockError,
    transport::stdio,
    wiring::{self, Serving},
};
use crystal_protocol::home::Home;

/// Exit code of a daemon whose home another one holds.
const HOME_HELD: u8 = 3;

/// The daemon that holds coding-agent sessions. Without flags it serves the home's socket in the foreground.
#[derive(Debug, Parser)]
#[command(name = "crystald", version)]
struct Args {
    /// The data directory; else CRYSTAL_HOME, else ~/.crystal.
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Speak the protocol on stdin and stdout, joined to the home's daemon (started when absent).
    #[arg(long)]
    stdio: bool,
    /// With --stdio: serve from this process, which then is the home's daemon, and end with the client.
    #[arg(long, requires = "stdio")]
    standalone: bool,
    /// Leave the terminal's session; for clients that start the daemon.
    #[arg(long, conflicts_with = "stdio")]
    detached: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crystald: {error:#}");
            match error.downcast_ref::<LockError>() {
                Some(LockError::Held { .. }) => ExitCode::from(HOME_HELD),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    let home = Home::locate(args.home.as_deref())?;
    if args.stdio && !args.standalone {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let result = runtime.block_on(stdio::join(&home));
        runtime.shutdown_background();
        return Ok(result?);
    }
    #[cfg(unix)]
    if args.detached
        && let Err(error) = rustix::process::setsid()
    {
        // It leads a session already: nothing to leave.
        tracing::debug!(%error, "no new session");
    }
    wiring::run(
        home,
        if args.standalone {
            Serving::Stdio
        } else {
            Serving::Socket
        },
    )
}
