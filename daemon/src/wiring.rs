//! The composition root: builds each service once, in order, and hands them to each other.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use crystal_protocol::{
    frame::Budget, home::Home, item::NoteLevel, limits::UNFINISHED_LINES_BYTES,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use crate::{
    config::{Catalog, Config, PermissionStore, TrustStore},
    engine::services::Services,
    home::HomePaths,
    hub::Hub,
    lifecycle::{self, HomeLock},
    rpc::Table,
    stdx::{
        process_tree,
        rotating_file::{RotatingFile, Rotation},
    },
    transport::{connection::Shared, socket::LocalSocket, stdio},
};

/// Log files that are kept: a new one begins each day, and when one is full.
const LOG_FILES: usize = 7;

/// Largest log file, in bytes.
const LOG_BYTES: u64 = 16 * 1024 * 1024;

/// Lines that may wait for the log file; their places are taken when the daemon starts. What comes faster is left out.
const LOG_LINES: usize = 4_096;

/// Ends of the daemon that clients may ask for at once.
const SHUTDOWN_CALLS: usize = 8;

/// Descriptors that the daemon wants: each client takes one, each running command three.
#[cfg(unix)]
const DESCRIPTORS: u64 = 8_192;

/// Whom the daemon serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// All clients of the home, on its socket.
    Socket,
    /// One client, on stdin and stdout.
    Stdio,
}

/// Runs a daemon to its end.
///
/// # Errors
/// When the home is held by another daemon, its configuration is wrong, or the system refuses what is needed; each says
/// what to do.
pub fn run(home: Home, serving: Serving) -> anyhow::Result<()> {
    // Before anything else is opened: what this process inherited must not reach the commands it runs.
    process_tree::close_descriptors_on_exec().context("inherited descriptors cannot be closed")?;
    let paths = HomePaths::new(home);
    let lock = HomeLock::take(&paths)?;
    let _log_guard = start_logging(&paths)?;
    raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("crystald")
        .build()
        .context("the runtime could not start")?;
    let result = runtime.block_on(serve(paths, serving));
    // A read of stdin that waits for its client would keep the process; nothing else is left to wait for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    drop(lock);
    result
}

async fn serve(paths: HomePaths, serving: Serving) -> anyhow::Result<()> {
    let (config, config_notes) = Config::load(&paths)?;
    let (catalog, catalog_notes) = Catalog::load(&paths)?;
    for note in config_notes.iter().chain(&catalog_notes) {
        match note.level {
            NoteLevel::Info => tracing::info!("{}", note.text),
            NoteLevel::Warning | NoteLevel::Error => tracing::warn!("{}", note.text),
        }
    }
    let idle_exit = config.idle_exit;
    let services = Arc::new(Services {
        key_variables: catalog.key_variables(),
        permissions: PermissionStore::new(&paths),
        trust: TrustStore::new(&paths),
        config,
        catalog,
        paths: paths.clone(),
    });
    // The name is taken before the sessions are listed, so that clients wait in line and not for a file to appear.
    let socket = match serving {
        Serving::Socket => {
            Some(LocalSocket::bind(paths.home()).with_context(|| socket_failed(paths.root()))?)
        }
        Serving::Stdio => None,
    };
    let (shutdown, shutdown_calls) = mpsc::channel(SHUTDOWN_CALLS);
    let hub = Arc::new(Hub::new(services, shutdown.clone()));
    let table = Arc::new(Table::new(hub.clone()).context("the method table is broken")?);
    let shared = Shared {
        hub: hub.clone(),
        table,
        budget: Budget::new(UNFINISHED_LINES_BYTES),
        ending: CancellationToken::new(),
        shutdown,
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        "crystald is up"
    );
    match socket {
        Some(socket) => lifecycle::run(hub, socket, shared, shutdown_calls, idle_exit).await?,
        None => lifecycle::run_for(&hub, stdio::serve(shared), shutdown_calls).await?,
    }
    Ok(())
}

fn socket_failed(home: &Path) -> String {
    format!(
        "the daemon cannot listen for the clients of {}",
        home.display()
    )
}

/// Logs go to files of their own, owner only; what they hold is names, numbers and errors, never texts of sessions or keys.
fn start_logging(paths: &HomePaths) -> anyhow::Result<WorkerGuard> {
    paths
        .make(&paths.logs())
        .with_context(|| format!("{} cannot be made", paths.logs().display()))?;
    let file = RotatingFile::open(Rotation {
        directory: paths.logs(),
        prefix: "crystald".to_owned(),
        max_bytes: LOG_BYTES,
        keep: LOG_FILES,
    })
    .with_context(|| format!("the log in {} cannot be written", paths.logs().display()))?;
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(LOG_LINES)
        .finish(file);
    let filter = EnvFilter::try_from_env("CRYSTAL_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(writer)
        .init();
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        // Not its message: that may quote a session.
        tracing::error!(%place, "a task panicked");
    }));
    Ok(guard)
}

#[cfg(unix)]
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit
        .maximum
        .map_or(DESCRIPTORS, |most| most.min(DESCRIPTORS));
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            maximum: limit.maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of descriptors stays as it is");
        }
    }
}

#[cfg(not(unix))]
fn raise_descriptor_limit() {}
