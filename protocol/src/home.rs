//! Where a home keeps its socket: the one path rule that clients and daemon share.
//!
//! Source: protocol/README.md, "Transports".

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Longest socket path in bytes, its terminating zero not counted (`sockaddr_un` on Linux; less elsewhere).
#[cfg(any(
    target_os = "macos",
    target_os = "ios",
    target_os = "freebsd",
    target_os = "openbsd",
    target_os = "netbsd"
))]
pub const SOCKET_PATH_BYTES: usize = 103;
/// Longest socket path in bytes, its terminating zero not counted (`sockaddr_un` on Linux; less elsewhere).
#[cfg(not(any(
    target_os = "macos",
    target_os = "ios",
    target_os = "freebsd",
    target_os = "openbsd",
    target_os = "netbsd"
)))]
pub const SOCKET_PATH_BYTES: usize = 107;

/// A data directory, `{home}`, as an absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home(PathBuf);

/// No home could be found.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Neither a flag nor a variable nor the user's home directory says where.
    #[error("there is no home directory to put .crystal into: set CRYSTAL_HOME or pass --home DIR")]
    NoHome,
    /// The path could not be made absolute.
    #[error("the home {path} cannot be made an absolute path: {source}")]
    Absolute {
        /// The path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Home {
    /// The home in force: `flag`, else `CRYSTAL_HOME`, else `~/.crystal`. Nothing is created.
    ///
    /// # Errors
    /// When none of the three is there, or the path cannot be made absolute.
    pub fn locate(flag: Option<&Path>) -> Result<Self, HomeError> {
        let path = match flag {
            Some(path) => path.to_owned(),
            None => match std::env::var_os("CRYSTAL_HOME").filter(|v| !v.is_empty()) {
                Some(path) => path.into(),
                None => directories::BaseDirs::new()
                    .ok_or(HomeError::NoHome)?
                    .home_dir()
                    .join(".crystal"),
            },
        };
        let absolute =
            std::path::absolute(&path).map_err(|source| HomeError::Absolute { path, source })?;
        // Two spellings of one directory are one home; one that does not exist yet has only its own spelling.
        Ok(Self(absolute.canonicalize().unwrap_or(absolute)))
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// `{home}/run`: socket, lock, token. Mode 0700.
    pub fn run_dir(&self) -> PathBuf {
        self.0.join("run")
    }

    /// `{home}/logs`.
    pub fn logs_dir(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// Where the daemon listens: in `run/`, or, when that path is too long for a socket, in a directory of the
    /// user's runtime directory that is named by a hash of the home.
    pub fn socket_path(&self) -> PathBuf {
        let path = self.run_dir().join("crystald.sock");
        if path.as_os_str().len() <= SOCKET_PATH_BYTES {
            return path;
        }
        runtime_dir()
            .join(format!("crystal-{}", self.hash()))
            .join("crystald.sock")
    }

    /// 16 hex digits that stand for this home.
    pub fn hash(&self) -> String {
        let digest = Sha256::digest(self.0.as_os_str().as_encoded_bytes());
        digest
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Name of the named pipe on Windows: derived from the user and the home.
    pub fn pipe_name(&self) -> String {
        let user = std::env::var("USERNAME").unwrap_or_default();
        format!("crystald-{user}-{}", self.hash())
    }
}

fn runtime_dir() -> PathBuf {
    std::env::var_os("XDG_RUNTIME_DIR")
        .filter(|v| !v.is_empty())
        .map_or_else(fallback_runtime_dir, PathBuf::from)
}

/// A directory of one's own under the temporary directory; the daemon makes it 0700 and checks its owner.
fn fallback_runtime_dir() -> PathBuf {
    #[cfg(unix)]
    {
        std::env::temp_dir().join(format!("crystal-{}", rustix::process::getuid().as_raw()))
    }
    #[cfg(not(unix))]
    {
        std::env::temp_dir()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_home_falls_back_to_a_short_socket_path() {
        let long = Home(PathBuf::from(format!("/{}", "x".repeat(200))));
        assert!(long.socket_path().as_os_str().len() <= SOCKET_PATH_BYTES);
        assert_ne!(
            long.socket_path(),
            Home(PathBuf::from(format!("/{}", "y".repeat(200)))).socket_path()
        );
        let short = Home(PathBuf::from("/h"));
        assert_eq!(short.socket_path(), Path::new("/h/run/crystald.sock"));
    }
}
