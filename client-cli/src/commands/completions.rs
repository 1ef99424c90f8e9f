//! `completions`: a completion script for a shell.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::{cli::Cli, context::Context, output::SUCCESS};

/// Prints a completion script for a shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub(crate) async fn completions(cx: &Context, args: &CompletionsArgs) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "crystal-ctl", &mut script);
    if cx.out.json {
        cx.out.json_line(&String::from_utf8_lossy(&script)).await?;
    } else {
        cx.out.bytes(&script).await?;
    }
    Ok(SUCCESS)
}
