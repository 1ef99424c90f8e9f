//! Private homes for daemons, and where the binaries under test are.

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A data directory of one test, removed at its end together with every process that was started on it.
///
/// Its path is short, because a socket's may be at most 107 bytes long.
#[derive(Debug)]
pub struct Home {
    dir: TempDir,
}

impl Home {
    /// A new home whose `config.json` chooses the demo model.
    pub fn new() -> Self {
        let home = Self::bare();
        home.write_config(
            &json!({"provider": "demo", "model": "demo:fast", "idleExitMinutes": null}),
        );
        home
    }

    /// A new home without any file.
    pub fn bare() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("cr-")
            .rand_bytes(6)
            .tempdir_in("/tmp")
            .expect("/tmp takes a directory");
        std::fs::create_dir(dir.path().join("h")).expect("a home can be made");
        std::fs::create_dir(dir.path().join("u")).expect("a user directory can be made");
        Self { dir }
    }

    /// What is passed as `--home`.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("h")
    }

    /// What `HOME` is for the daemon and its children.
    pub fn user_dir(&self) -> PathBuf {
        self.dir.path().join("u")
    }

    /// The local socket.
    pub fn socket(&self) -> PathBuf {
        self.path().join("run/crystald.sock")
    }

    /// Where a daemon's stderr is kept.
    pub fn stderr_path(&self) -> PathBuf {
        self.dir.path().join("stderr")
    }

    /// Replaces `config.json`.
    pub fn write_config(&self, config: &Value) {
        self.write("config.json", config);
    }

    /// Replaces `providers.json`.
    pub fn write_providers(&self, providers: &Value) {
        self.write("providers.json", providers);
    }

    fn write(&self, name: &str, value: &Value) {
        std::fs::write(self.path().join(name), value.to_string()).expect("the home is writable");
    }

    /// The ends of stderr and of all log files.
    pub fn logs(&self) -> String {
        let mut text = tail_of(&self.stderr_path());
        let entries = std::fs::read_dir(self.path().join("logs"));
        for entry in entries.into_iter().flatten().flatten() {
            text.push_str(&tail_of(&entry.path()));
        }
        text
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let dir = self.dir.path().as_os_str().as_encoded_bytes();
        kill_those(|process| {
            ["cmdline", "environ"].iter().any(|file| {
                let bytes = std::fs::read(process.join(file)).unwrap_or_default();
                bytes.windows(dir.len()).any(|window| window == dir)
            })
        });
        if std::thread::panicking() {
            eprintln!("--- the daemon's words ---\n{}", self.logs());
        }
    }
}

/// Sends a signal; a process that is gone already is no error.
pub fn send_signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid
        && let Err(error) = kill_process(pid, signal)
    {
        assert_eq!(error, rustix::io::Errno::SRCH, "cannot signal {pid:?}");
    }
}

/// Kills every process whose directory in `/proc` is picked, this one excepted. What is looked for must be of one test
/// only, such as its temporary directory.
pub(crate) fn kill_those(picked: impl Fn(&Path) -> bool) {
    let own = std::process::id();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let pid = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some(pid) = pid.filter(|pid| *pid != own)
            && picked(&process.path())
        {
            send_signal(pid, Signal::KILL);
        }
    }
}

/// Whether a process exists and is no zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    matches!(state, Some(state) if state != 'Z' && state != 'X')
}

/// A binary of this workspace, built by the same profile as the test that asks.
///
/// # Panics
/// When it is not there.
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a process knows its executable");
    test.ancestors()
        .skip(1)
        .take(2)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| {
            panic!(
                "{name} is not beside {}: run `cargo build --workspace` first (with the same profile)",
                test.display()
            )
        })
}

/// The root of the source tree.
pub fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests are a member of a workspace")
}

fn tail_of(path: &Path) -> String {
    const TAIL_BYTES: usize = 8 * 1024;
    let bytes = std::fs::read(path).unwrap_or_default();
    let tail = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
    format!("[{}]\n{}\n", path.display(), String::from_utf8_lossy(tail))
}
