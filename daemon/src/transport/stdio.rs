//! stdio: the same lines on stdin and stdout. Either joined to the shared daemon, or with a daemon of one's own.

use std::io;

use crystal_protocol::{client::connect, home::Home};
use tokio::io::{AsyncWriteExt, copy};

use super::connection::{self, Shared};

/// Carries lines between stdio and the home's daemon, starting it when it is absent; ends when either side does.
///
/// # Errors
/// When the daemon cannot be reached or started, or a stream breaks.
pub async fn join(home: &Home) -> Result<(), connect::JoinError> {
    let stream = connect::open_or_start(home).await?;
    let (mut from_daemon, mut to_daemon) = tokio::io::split(stream);
    let mut stdin = tokio::io::stdin();
    let mut stdout = tokio::io::stdout();
    let up = async {
        copy(&mut stdin, &mut to_daemon).await?;
        // The daemon answers what it has, then closes its side.
        to_daemon.shutdown().await
    };
    let down = async {
        copy(&mut from_daemon, &mut stdout).await?;
        stdout.flush().await
    };
    tokio::pin!(up, down);
    let result: io::Result<()> = tokio::select! {
        result = &mut down => result,
        result = &mut up => match result {
            Ok(()) => down.await,
            Err(error) => Err(error),
        },
    };
    result.map_err(connect::JoinError::from)
}

/// Serves one client on stdio, until it closes its side.
pub async fn serve(shared: Shared) {
    connection::serve(shared, tokio::io::stdin(), tokio::io::stdout()).await;
}
