//! From a home to an initialized connection.

use std::{
    io,
    time::{Duration, Instant},
};

use interprocess::local_socket::{
    GenericFilePath, GenericNamespaced, Name, ToFsName as _, ToNsName as _,
    tokio::Stream,
    traits::{StreamCommon as _, tokio::Stream as _},
};
use tokio::process::Command;

use super::{
    Client, ClientError, Notifications,
    spawn::{self, EarlyEnd, StartedDaemon},
};
use crate::{
    client_ref::Role,
    home::Home,
    rpc::{ClientInfo, Environment, InitializeParams, InitializeResult},
    version,
};

/// How long a daemon may take to be there and to answer `initialize`.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// First wait between two attempts to connect; it doubles up to [`LONGEST_POLL`].
const SHORTEST_POLL: Duration = Duration::from_millis(5);

/// Longest wait between two attempts to connect.
const LONGEST_POLL: Duration = Duration::from_millis(50);

/// How long another daemon that holds the home may stay silent before a start is tried again: it may be going down.
const HELD_PATIENCE: Duration = Duration::from_millis(500);

/// Connections that may end before `initialize` is answered (a daemon just going down) until that is an error.
const LOST_CONNECTIONS: u32 = 20;

/// Whether a client starts a daemon that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartPolicy {
    /// It does.
    IfAbsent,
    /// It fails with [`ClientError::NotRunning`].
    Never,
}

/// Who connects, and how.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The client's name and version.
    pub client: ClientInfo,
    /// What it wants to do.
    pub role: Role,
    /// The environment for the sessions that it creates.
    pub environment: Option<Environment>,
    /// What to do when no daemon is there.
    pub start: StartPolicy,
}

impl ConnectOptions {
    /// A controller of that name with this process's environment, which starts the daemon when it is absent.
    pub fn controller(name: &str, version: &str) -> Self {
        Self {
            client: ClientInfo {
                name: name.to_owned(),
                version: version.to_owned(),
                title: None,
            },
            role: Role::Controller,
            environment: Some(Environment::of_this_process()),
            start: StartPolicy::IfAbsent,
        }
    }

    fn initialize(&self) -> InitializeParams {
        InitializeParams {
            protocol: version::SUPPORTED,
            client: self.client.clone(),
            role: self.role,
            environment: self.environment.clone(),
        }
    }
}

/// An initialized connection.
#[derive(Debug)]
pub struct Connection {
    /// For calls.
    pub client: Client,
    /// What the daemon sends by itself. A client that wants none may drop it.
    pub notifications: Notifications,
    /// The answer to `initialize`.
    pub server: InitializeResult,
}

/// Connects to the home's socket (a named pipe on Windows) and says nothing yet.
///
/// # Errors
/// `NotFound` and `ConnectionRefused` when no daemon is there, others as the system gives them.
pub async fn connect_local(home: &Home) -> io::Result<Stream> {
    let stream = Stream::connect(socket_name(home)?).await?;
    check_peer(&stream)?;
    Ok(stream)
}

/// Refuses a socket that another user listens on: what a client says of itself holds its environment.
#[cfg(unix)]
fn check_peer(stream: &Stream) -> io::Result<()> {
    let uid = stream.peer_creds()?.euid();
    if uid == Some(rustix::process::geteuid().as_raw()) {
        return Ok(());
    }
    let message = "the socket belongs to another user's process; remove it or choose another home";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

#[cfg(not(unix))]
fn check_peer(_: &Stream) -> io::Result<()> {
    Ok(())
}

fn socket_name(home: &Home) -> io::Result<Name<'static>> {
    if cfg!(windows) {
        home.pipe_name().to_ns_name::<GenericNamespaced>()
    } else {
        home.socket_path().to_fs_name::<GenericFilePath>()
    }
}

/// Whether a failed [`connect_local`] means that no daemon is there.
pub fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

/// Connects to the home's daemon and initializes the connection; starts the daemon first when it is absent and
/// `options.start` allows that. Two clients that start at once end with one daemon.
///
/// # Errors
/// [`ClientError::NotRunning`], [`ClientError::Start`], the daemon's refusal of `initialize`, or what the system says.
pub async fn connect_or_start(
    home: &Home,
    options: &ConnectOptions,
) -> Result<Connection, ClientError> {
    let deadline = Instant::now() + READY_WITHIN;
    let mut started: Option<StartedDaemon> = None;
    let mut held_until: Option<Instant> = None;
    let mut poll = SHORTEST_POLL;
    let mut lost = 0;
    loop {
        match open(home, options, deadline).await {
            Ok(connection) => return Ok(connection),
            Err(Failure::Absent) => {
                if options.start == StartPolicy::Never {
                    return Err(ClientError::NotRunning {
                        home: home.path().to_owned(),
                    });
                }
                match &mut started {
                    None if held_until.is_none_or(|until| Instant::now() >= until) => {
                        started = Some(spawn::start(home).await?);
                        held_until = None;
                    }
                    None => {}
                    Some(daemon) => match daemon.early_end().await? {
                        None => {}
                        Some(EarlyEnd::HomeHeld) => {
                            started = None;
                            held_until = Some(Instant::now() + HELD_PATIENCE);
                        }
                        Some(EarlyEnd::Failed(text)) => return Err(ClientError::Start(text)),
                    },
                }
            }
            Err(Failure::Lost(error)) => {
                lost += 1;
                if lost > LOST_CONNECTIONS {
                    return Err(error);
                }
            }
            Err(Failure::Busy) => {}
            Err(Failure::Fatal(error)) => return Err(error),
        }
        if Instant::now() + poll > deadline {
            return Err(ClientError::Start(
                started.map_or_else(|| silent(home), |daemon| daemon.unanswered()),
            ));
        }
        tokio::time::sleep(poll).await;
        poll = (poll * 2).min(LONGEST_POLL);
    }
}

fn silent(home: &Home) -> String {
    format!(
        "a daemon holds {} and does not answer. Try `crystal-ctl doctor`; the process id is in {}.",
        home.path().display(),
        home.run_dir().join("crystald.lock").display()
    )
}

enum Failure {
    Absent,
    /// The listener's queue is full for the moment.
    Busy,
    /// The connection ended before `initialize` was answered.
    Lost(ClientError),
    Fatal(ClientError),
}

async fn open(
    home: &Home,
    options: &ConnectOptions,
    deadline: Instant,
) -> Result<Connection, Failure> {
    let stream = connect_local(home)
        .await
        .map_err(|error| match error.kind() {
            _ if is_absent(&error) => Failure::Absent,
            io::ErrorKind::WouldBlock
            | io::ErrorKind::Interrupted
            | io::ErrorKind::ResourceBusy => Failure::Busy,
            _ => Failure::Fatal(error.into()),
        })?;
    let (reader, writer) = tokio::io::split(stream);
    let (client, notifications) = Client::new(reader, writer);
    let answer = client.initialize(options.initialize());
    let server = match tokio::time::timeout_at(deadline.into(), answer).await {
        Ok(Ok(server)) => server,
        Ok(Err(error)) if error.is_disconnect() => return Err(Failure::Lost(error)),
        Ok(Err(error)) => return Err(Failure::Fatal(error)),
        Err(_) => return Err(Failure::Fatal(ClientError::Start(silent(home)))),
    };
    Ok(Connection {
        client,
        notifications,
        server,
    })
}

/// Speaks with a child over its stdin and stdout (`crystald --stdio`, here or through ssh); its stderr is this
/// process's. The child is waited for when the connection ends, and killed when it does not end by itself.
///
/// # Errors
/// When the child cannot be started, or the daemon refuses `initialize`.
pub async fn connect_stdio(
    mut command: Command,
    options: &ConnectOptions,
) -> Result<Connection, ClientError> {
    use std::process::Stdio;
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let (Some(reader), Some(writer)) = (child.stdout.take(), child.stdin.take()) else {
        return Err(ClientError::Start(
            "the program that serves the connection has no stdin or stdout".to_owned(),
        ));
    };
    let (client, notifications) = Client::with_child(reader, writer, Some(child));
    let server = client.initialize(options.initialize()).await?;
    Ok(Connection {
        client,
        notifications,
        server,
    })
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
