//! `stop`: no daemon runs afterwards.

use std::time::Duration;

use clap::Args;
use crystal_protocol::{
    client::{
        ClientError, StartPolicy,
        connect::{connect_local, is_absent},
    },
    error::ErrorKind,
    rpc::{DaemonShutdown, DaemonShutdownParams, Empty, ShutdownMode},
};
use tokio::time::Instant;

use crate::{context::Context, output::SUCCESS};

/// How long a daemon may take to save everything and go.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// Time between two looks.
const POLL: Duration = Duration::from_millis(20);

/// Stops the daemon and waits until it is gone. Interrupts turns, stops tasks, saves all. Fine when none runs.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// Only when no turn, task, open prompt or other client is there.
    #[arg(long, conflicts_with = "now")]
    if_idle: bool,
    /// At once; what was acknowledged is on disk all the same.
    #[arg(long)]
    now: bool,
}

pub(crate) async fn stop(cx: &Context, args: &StopArgs) -> anyhow::Result<u8> {
    let connection = match cx.connect(StartPolicy::Never).await {
        Ok(connection) => connection,
        Err(ClientError::NotRunning { .. }) => return report(cx, "not running").await,
        // It was on its way down already.
        Err(error) if error.is_disconnect() || is_going_down(&error) => {
            wait_until_gone(cx).await?;
            return report(cx, "stopped").await;
        }
        Err(error) => return Err(error.into()),
    };
    let mode = match (args.if_idle, args.now) {
        (true, _) => ShutdownMode::IfIdle,
        (false, true) => ShutdownMode::Now,
        (false, false) => ShutdownMode::Graceful,
    };
    let asked = connection
        .client
        .call::<DaemonShutdown>(DaemonShutdownParams { mode })
        .await;
    match asked {
        Ok(Empty {}) => {}
        Err(error) if error.is_disconnect() || is_going_down(&error) => {}
        Err(error) => return Err(error.into()),
    }
    drop(connection);
    wait_until_gone(cx).await?;
    report(cx, "stopped").await
}

fn is_going_down(error: &ClientError) -> bool {
    error.rpc().and_then(|error| error.kind()) == Some(ErrorKind::ShuttingDown)
}

async fn wait_until_gone(cx: &Context) -> anyhow::Result<()> {
    let deadline = Instant::now() + GONE_WITHIN;
    loop {
        match connect_local(&cx.home).await {
            Err(error) if is_absent(&error) => return Ok(()),
            Ok(_) | Err(_) => {}
        }
        anyhow::ensure!(
            Instant::now() < deadline,
            "the daemon is still there after {} s; try `crystal-ctl stop --now`",
            GONE_WITHIN.as_secs()
        );
        tokio::time::sleep(POLL).await;
    }
}

async fn report(cx: &Context, text: &str) -> anyhow::Result<u8> {
    cx.out.result(&Empty {}, |_| text.to_owned()).await?;
    Ok(SUCCESS)
}
