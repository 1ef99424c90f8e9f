//! Every path under `{home}`, and who may read what. Directories appear when first needed, 0700.

use std::{
    io,
    path::{Path, PathBuf},
};

use crystal_protocol::{home::Home, ids::SessionId};

use crate::stdx::atomic_file;

/// The files and directories of a home.
#[derive(Clone, Debug)]
pub struct HomePaths {
    home: Home,
}

impl HomePaths {
    /// The paths of `home`; nothing is touched.
    pub fn new(home: Home) -> Self {
        Self { home }
    }

    /// The home itself.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        self.home.path()
    }

    /// `config.json`.
    pub fn config(&self) -> PathBuf {
        self.root().join("config.json")
    }

    /// `providers.json`.
    pub fn providers(&self) -> PathBuf {
        self.root().join("providers.json")
    }

    /// `credentials.json`, 0600.
    pub fn credentials(&self) -> PathBuf {
        self.root().join("credentials.json")
    }

    /// `permissions.json`: lasting permission rules.
    pub fn permissions(&self) -> PathBuf {
        self.root().join("permissions.json")
    }

    /// `trusted.json`: workspaces trusted for good.
    pub fn trusted(&self) -> PathBuf {
        self.root().join("trusted.json")
    }

    /// The operator's own workspace, always trusted.
    pub fn space(&self) -> PathBuf {
        self.root().join("space")
    }

    /// `sessions/`.
    pub fn sessions(&self) -> PathBuf {
        self.root().join("sessions")
    }

    /// A session's head.
    pub fn session_head(&self, id: &SessionId) -> PathBuf {
        self.sessions().join(format!("{id}.json"))
    }

    /// A session's log.
    pub fn session_log(&self, id: &SessionId) -> PathBuf {
        self.sessions().join(format!("{id}.log"))
    }

    /// The cached list of sessions.
    pub fn session_index(&self) -> PathBuf {
        self.sessions().join("index.json")
    }

    /// `run/`: socket, lock.
    pub fn run(&self) -> PathBuf {
        self.home.run_dir()
    }

    /// The lock that makes the daemon the only one of its home.
    pub fn lock(&self) -> PathBuf {
        self.run().join("crystald.lock")
    }

    /// One empty file a session whose turn is open, so that a start after a crash finds them at once.
    pub fn open_turns(&self) -> PathBuf {
        self.run().join("turns")
    }

    /// `logs/`.
    pub fn logs(&self) -> PathBuf {
        self.home.logs_dir()
    }

    /// Makes the home and one of its directories, owner only. Blocks.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn make(&self, directory: &Path) -> io::Result<()> {
        atomic_file::private_directory(self.root())?;
        atomic_file::private_directory(directory)
    }
}
