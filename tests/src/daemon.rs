//! A real `crystald` on a private home.

use std::{
    cell::Cell,
    fs::OpenOptions,
    process::{ExitStatus, Stdio},
    rc::Rc,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::Value;
use tokio::{
    net::UnixStream,
    process::{Child, Command},
};

use crate::{
    WAIT_LIMIT,
    client::Client,
    home::{Home, binary, send_signal},
};

/// Longest a daemon may take until its socket answers.
const READY_LIMIT: Duration = Duration::from_secs(10);

/// Between two looks at a socket that is not there yet.
const READY_POLL: Duration = Duration::from_millis(2);

/// How a daemon is started; the default is a home whose configuration chooses the demo model.
#[derive(Debug, Default)]
pub struct Options {
    /// `config.json`, in place of the usual one.
    pub config: Option<Value>,
    /// `providers.json`.
    pub providers: Option<Value>,
    /// Variables besides `PATH` and `HOME`.
    pub environment: Vec<(String, String)>,
}

/// A running `crystald`; killed when dropped.
#[derive(Debug)]
pub struct Daemon {
    home: Rc<Home>,
    environment: Vec<(String, String)>,
    child: Child,
    pid: u32,
    memory_calls: Cell<u32>,
}

impl Daemon {
    /// Starts a daemon on a new home and waits until its socket answers.
    ///
    /// # Panics
    /// When the binary is not built, or does not answer.
    pub async fn start() -> Self {
        Self::start_with(Options::default()).await
    }

    /// Starts a daemon on a new home, with options.
    ///
    /// # Panics
    /// When the binary is not built, or does not answer.
    pub async fn start_with(options: Options) -> Self {
        let home = Home::new();
        if let Some(config) = &options.config {
            home.write_config(config);
        }
        if let Some(providers) = &options.providers {
            home.write_providers(providers);
        }
        Self::start_on(Rc::new(home), options.environment).await
    }

    /// Starts a daemon on a home that exists.
    ///
    /// # Panics
    /// When the binary is not built, or does not answer.
    pub async fn start_on(home: Rc<Home>, environment: Vec<(String, String)>) -> Self {
        let child = spawn(&home, &environment, &[]);
        let pid = child.id().expect("a new child has a pid");
        let mut daemon = Self {
            home,
            environment,
            child,
            pid,
            memory_calls: Cell::new(0),
        };
        daemon.wait_ready().await;
        daemon
    }

    async fn wait_ready(&mut self) {
        let begun = Instant::now();
        let socket = self.home.socket();
        loop {
            if UnixStream::connect(&socket).await.is_ok() {
                return;
            }
            if let Some(status) = self.child.try_wait().expect("a child can be asked") {
                panic!("crystald ended at its start: {status}");
            }
            assert!(
                begun.elapsed() < READY_LIMIT,
                "crystald did not answer on {}",
                socket.display()
            );
            tokio::time::sleep(READY_POLL).await;
        }
    }

    /// The home.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The home, to keep beyond the daemon's life.
    pub fn share_home(&self) -> Rc<Home> {
        self.home.clone()
    }

    /// The daemon's process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// A new client that has said `initialize`.
    pub async fn client(&self) -> Client {
        Client::connect(self).await
    }

    /// Kills the daemon as a power cut would, and reaps it.
    pub async fn kill9(&mut self) {
        send_signal(self.pid, Signal::KILL);
        self.wait_exit().await;
    }

    /// Asks the daemon to end, as a service manager does.
    pub fn terminate(&self) {
        send_signal(self.pid, Signal::TERM);
    }

    /// Waits for the daemon to end.
    ///
    /// # Panics
    /// When it does not.
    pub async fn wait_exit(&mut self) -> ExitStatus {
        tokio::time::timeout(WAIT_LIMIT, self.child.wait())
            .await
            .expect("crystald ends")
            .expect("a child can be waited for")
    }

    /// Starts a daemon on the same home again; one that still runs is killed first.
    pub async fn restart(&mut self) {
        if self
            .child
            .try_wait()
            .expect("a child can be asked")
            .is_none()
        {
            self.kill9().await;
        }
        self.child = spawn(&self.home, &self.environment, &[]);
        self.pid = self.child.id().expect("a new child has a pid");
        self.wait_ready().await;
    }

    /// Memory of the daemon in bytes, looked at once in a thousand calls, else 0: for use in a loop over events.
    pub fn memory_now_and_then(&self) -> u64 {
        const EVERY: u32 = 1000;
        let calls = self.memory_calls.get();
        self.memory_calls.set(calls.wrapping_add(1));
        if calls.is_multiple_of(EVERY) {
            self.memory().pss_bytes
        } else {
            0
        }
    }

    /// Memory of the daemon.
    pub fn memory(&self) -> Memory {
        Memory::of(self.pid)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        const LOOKS: u32 = 500;
        // An error means that it is gone already.
        drop(self.child.start_kill());
        // The home may be removed only when nobody writes to it.
        for _ in 0..LOOKS {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(READY_POLL);
        }
    }
}

/// Starts `crystald` without waiting for anything; stderr is appended to the home's file.
pub fn spawn(home: &Home, environment: &[(String, String)], arguments: &[&str]) -> Child {
    let stderr = OpenOptions::new()
        .create(true)
        .append(true)
        .open(home.stderr_path())
        .expect("stderr can be kept");
    command(home, environment, arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .expect("crystald can be run")
}

/// `crystald --home HOME ARGUMENTS` in an environment that holds nothing of the tester's but `PATH`.
pub fn command(home: &Home, environment: &[(String, String)], arguments: &[&str]) -> Command {
    let mut command = Command::new(binary("crystald"));
    command
        .arg("--home")
        .arg(home.path())
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.user_dir())
        .env("LANG", "C.UTF-8")
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .kill_on_drop(true);
    command
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Its own pages and its share of common ones.
    pub pss_bytes: u64,
    /// All pages that are resident.
    pub rss_bytes: u64,
}

impl Memory {
    /// Reads the memory of a process.
    ///
    /// # Panics
    /// When the process is gone.
    pub fn of(pid: u32) -> Self {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
            .expect("the process lives");
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name))
                .and_then(|rest| rest.split_whitespace().next())
                .and_then(|kib| kib.parse::<u64>().ok())
                .map_or(0, |kib| kib * 1024)
        };
        Self {
            pss_bytes: field("Pss:"),
            rss_bytes: field("Rss:"),
        }
    }
}
