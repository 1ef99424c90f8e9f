//! Start and end of the daemon: one a home, graceful on TERM, INT and by call, gone by itself when nothing is alive.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use crystal_protocol::{event::DaemonEvent, rpc::ShutdownMode, time::Timestamp};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    home::HomePaths,
    hub::Hub,
    store::error::StoreError,
    transport::{connection::Shared, socket::LocalSocket},
};

/// How long sessions may take to be saved at the end.
const SAVE_WITHIN: Duration = Duration::from_secs(10);

/// How long connections may take to get their last answers.
const DRAIN_WITHIN: Duration = Duration::from_secs(2);

/// The lock that makes a daemon the only one of its home. Held as long as it lives; a crash releases it.
#[derive(Debug)]
pub struct HomeLock {
    _file: File,
}

/// A home could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another daemon has it.
    #[error("the home {} is held by another crystald ({holder}); stop it with `crystal-ctl stop`, or use another --home", home.display())]
    Held {
        /// The home.
        home: PathBuf,
        /// Who holds it.
        holder: String,
    },
    /// The file system refuses.
    #[error("the home {} cannot be used: {source}; check that it is yours and that the disk takes writes", home.display())]
    Io {
        /// The home.
        home: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl HomeLock {
    /// Takes a home. Blocks for moments.
    ///
    /// # Errors
    /// When another daemon has it, or the file system refuses.
    pub fn take(paths: &HomePaths) -> Result<Self, LockError> {
        let refused = |source| LockError::Io {
            home: paths.root().to_owned(),
            source,
        };
        paths.make(&paths.run()).map_err(refused)?;
        check_owner(paths.root()).map_err(refused)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        let mut file = options.open(paths.lock()).map_err(refused)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Who holds it is a help, no more: an unreadable text changes nothing.
                if file.read_to_string(&mut holder).is_err() || holder.trim().is_empty() {
                    "just starting".clone_into(&mut holder);
                }
                return Err(LockError::Held {
                    home: paths.root().to_owned(),
                    holder: holder.trim().to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(refused(source)),
        }
        let text = format!("pid {}, since {}\n", std::process::id(), Timestamp::now());
        let write = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(text.as_bytes()));
        write.map_err(refused)?;
        Ok(Self { _file: file })
    }
}

/// Refuses a home that somebody else owns.
#[cfg(unix)]
fn check_owner(home: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    if std::fs::metadata(home)?.uid() == rustix::process::geteuid().as_raw() {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it belongs to another user",
        ))
    }
}

#[cfg(not(unix))]
fn check_owner(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Why the daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Signal,
    Call(ShutdownMode),
    Idle,
    Unlisted,
}

/// Serves the home's socket until something ends the daemon. Clients are greeted while the sessions are still being listed.
///
/// # Errors
/// When the signals or the socket cannot be had, or the sessions cannot be listed.
pub async fn run(
    hub: Arc<Hub>,
    mut socket: LocalSocket,
    shared: Shared,
    mut shutdown: mpsc::Receiver<ShutdownMode>,
    idle_exit: Option<Duration>,
) -> anyhow::Result<()> {
    let tasks = TaskTracker::new();
    let ending = shared.ending.clone();
    let mut signals = Signals::listen()?;
    let keeper = tokio::spawn(hub.clone().keep_index());
    let opening = hub.open();
    tokio::pin!(opening);
    let mut failure = None;
    let end = loop {
        let end = tokio::select! {
            opened = &mut opening, if !hub.is_open() => match opened {
                Ok(()) => continue,
                Err(error) => {
                    failure = Some(error);
                    End::Unlisted
                }
            },
            () = socket.serve(&shared, &tasks) => End::Signal,
            () = signals.next() => End::Signal,
            mode = shutdown.recv() => End::Call(mode.unwrap_or(ShutdownMode::Graceful)),
            () = idle(&hub, idle_exit) => End::Idle,
        };
        if end != End::Idle {
            break end;
        }
        // Out of sight first, then one more look: a client that found the socket before is served, not left unanswered.
        if hub.begin_shutdown(Some(0)) {
            if !socket.retire(&shared, &tasks).await {
                break end;
            }
            hub.cancel_shutdown();
            socket.rebind()?;
        }
    };
    tracing::info!(?end, "the daemon ends");
    hub.begin_shutdown(None);
    hub.tell(&DaemonEvent::ShuttingDown {
        reason: reason(end).to_owned(),
    });
    socket.unlink();
    if end != End::Call(ShutdownMode::Now)
        && tokio::time::timeout(SAVE_WITHIN, hub.suspend_all(reason(end)))
            .await
            .is_err()
    {
        tracing::error!("some sessions were not saved in time; their logs have everything");
    }
    finish(&tasks, &ending).await;
    keeper.abort();
    settle(failure)
}

fn settle(failure: Option<StoreError>) -> anyhow::Result<()> {
    failure.map_or(Ok(()), |error| {
        Err(error).context("the sessions could not be listed")
    })
}

/// Serves one client of a daemon of its own, until the client is gone or something ends the daemon.
///
/// # Errors
/// When the signals cannot be had, or the sessions cannot be listed.
pub async fn run_for(
    hub: &Arc<Hub>,
    client: impl Future<Output = ()>,
    mut shutdown: mpsc::Receiver<ShutdownMode>,
) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let keeper = tokio::spawn(hub.clone().keep_index());
    let opening = hub.open();
    tokio::pin!(opening, client);
    let mut failure = None;
    let end = loop {
        break tokio::select! {
            opened = &mut opening, if !hub.is_open() => match opened {
                Ok(()) => continue,
                Err(error) => {
                    failure = Some(error);
                    End::Unlisted
                }
            },
            () = &mut client => End::Idle,
            () = signals.next() => End::Signal,
            mode = shutdown.recv() => End::Call(mode.unwrap_or(ShutdownMode::Graceful)),
        };
    };
    hub.begin_shutdown(None);
    if end != End::Call(ShutdownMode::Now)
        && tokio::time::timeout(SAVE_WITHIN, hub.suspend_all(reason(end)))
            .await
            .is_err()
    {
        tracing::error!("some sessions were not saved in time; their logs have everything");
    }
    keeper.abort();
    settle(failure)
}

fn reason(end: End) -> &'static str {
    match end {
        End::Signal => "the daemon was told to end",
        End::Call(_) => "a client ended the daemon",
        End::Idle => "nothing was alive",
        End::Unlisted => "the sessions could not be listed",
    }
}

async fn finish(tasks: &TaskTracker, ending: &CancellationToken) {
    ending.cancel();
    tasks.close();
    if tokio::time::timeout(DRAIN_WITHIN, tasks.wait())
        .await
        .is_err()
    {
        tracing::debug!("some clients did not take their last answers");
    }
}

/// Ends when nothing has been alive for as long as configured; never, when that is never.
async fn idle(hub: &Hub, after: Option<Duration>) {
    let Some(after) = after else {
        return std::future::pending().await;
    };
    let look_every = (after / 10).clamp(Duration::from_millis(100), Duration::from_secs(60));
    let mut since = Instant::now();
    loop {
        tokio::time::sleep(look_every).await;
        if hub.connections() > 0 || hub.has_live_work() {
            since = Instant::now();
        } else if since.elapsed() >= after {
            return;
        }
    }
}

/// Signals that end the daemon.
#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// TERM or INT; a hangup ends nothing, since closing a terminal must not.
    async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => {}
            }
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use crystal_protocol::home::Home;

    use super::*;

    #[test]
    fn a_second_daemon_hears_who_holds_the_home_and_the_lock_ends_with_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let paths = HomePaths::new(Home::locate(Some(dir.path())).unwrap());
        let first = HomeLock::take(&paths).unwrap();
        let error = HomeLock::take(&paths).unwrap_err().to_string();
        assert!(
            error.contains(&format!("pid {}", std::process::id())),
            "{error}"
        );
        drop(first);
        HomeLock::take(&paths).unwrap();
    }
}
