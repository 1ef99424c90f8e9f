//! `crystal-ctl`: scripts and people drive the daemon with it. Speaks the protocol and nothing else.
//!
//! [`cli`] has the command line, [`commands`] a file for each command, [`run`] the headless run, [`follow`] what
//! waits for a turn, [`show`] and [`transcript`] how events read for people, [`output`] what reaches stdout and stderr.

mod cli;
mod commands;
mod context;
mod escape;
mod follow;
mod output;
mod run;
mod session_ref;
mod show;
mod signals;
mod transcript;
mod wire;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser as _;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match cli::Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && cli::names_run(&arguments) => {
            // When stderr is gone, the exit code is all that is left to tell it by.
            let _unprinted = error.print();
            return ExitCode::from(run::exit::Exit::Invalid.code());
        }
        Err(error) => error.exit(),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("crystal-ctl: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = match runtime.block_on(cli::dispatch(cli)) {
        Ok(code) => code,
        Err(error) => {
            if !output::is_broken_pipe(&error) {
                eprintln!("crystal-ctl: {}", escape::harmless(&output::chain(&error)));
            }
            output::FAILURE
        }
    };
    // A read of stdin that nobody waits for any more would hold the end up.
    runtime.shutdown_background();
    ExitCode::from(code)
}
