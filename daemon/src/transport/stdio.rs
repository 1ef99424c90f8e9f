//! stdio: the same lines on stdin and stdout. Either joined to the shared daemon, or with a daemon of one's own.

use std::{io, sync::Arc};

use crystal_protocol::{
    client::{
        ClientError,
        connect::{ConnectOptions, connect_local, connect_or_start},
    },
    home::Home,
};
use interprocess::local_socket::tokio::Stream;
use tokio::io::{AsyncWriteExt, copy};

use super::{
    connection::{self, Shared},
    half::Half,
};

/// Carries lines between stdio and the home's daemon, starting it when it is absent; ends when either side does.
///
/// # Errors
/// When the daemon cannot be reached or started, or a stream breaks.
pub async fn join(home: &Home) -> Result<(), ClientError> {
    // A connection of our own keeps the daemon from going away before the client's is there.
    let probe = connect_or_start(
        home,
        &ConnectOptions::controller("crystald --stdio", env!("CARGO_PKG_VERSION")),
    )
    .await?;
    let stream = connect_local(home).await?;
    probe.client.close().await;
    Ok(carry(stream).await?)
}

async fn carry(stream: Stream) -> io::Result<()> {
    let stream = Arc::new(stream);
    let (mut from_daemon, mut to_daemon) = (Half::of(&stream), Half::of(&stream));
    drop(stream);
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
    tokio::select! {
        result = &mut down => result,
        result = &mut up => {
            result?;
            down.await
        }
    }
}

/// Serves one client on stdio, until it closes its side.
pub async fn serve(shared: Shared) {
    connection::serve(shared, tokio::io::stdin(), tokio::io::stdout()).await;
}
