//! What every command has at hand: the home, the way to print, and connections to the daemon.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use crystal_protocol::{
    client::{
        Client, ClientError, ConnectOptions, Connection, LocalReconnect, SessionStream,
        StartPolicy, connect::connect_or_start,
    },
    client_ref::Role,
    home::Home,
    ids::{Seq, SessionId},
    limits,
};
use tokio::io::AsyncReadExt as _;

use crate::{output::Output, transcript::inquiry::Hints};

/// The name that the daemon, and other clients, know this program by.
const CLIENT_NAME: &str = "crystal-ctl";

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// The home in force.
    pub(crate) home: Home,
    /// `--home`, when it was given: commands that are shown to the user need it too.
    pub(crate) home_flag: Option<PathBuf>,
    /// How to print.
    pub(crate) out: Output,
}

impl Context {
    /// For calls only; the daemon is started when it is absent.
    pub(crate) async fn client(&self) -> Result<Client, ClientError> {
        Ok(self.connect(StartPolicy::IfAbsent).await?.client)
    }

    /// An initialized connection.
    pub(crate) async fn connect(&self, start: StartPolicy) -> Result<Connection, ClientError> {
        connect_or_start(&self.home, &self.options(Role::Controller, start)).await
    }

    /// A session's events, on a connection of their own: whatever is not printed yet holds no call up.
    pub(crate) async fn stream(
        &self,
        session: SessionId,
        role: Role,
        after: Option<Seq>,
        items: Option<u64>,
    ) -> Result<SessionStream, ClientError> {
        let options = self.options(role, StartPolicy::IfAbsent);
        let connection = connect_or_start(&self.home, &options).await?;
        let reconnect = LocalReconnect {
            home: self.home.clone(),
            options,
        };
        SessionStream::attach(connection, reconnect, session, after, items).await
    }

    fn options(&self, role: Role, start: StartPolicy) -> ConnectOptions {
        ConnectOptions {
            role,
            start,
            ..ConnectOptions::controller(CLIENT_NAME, env!("CARGO_PKG_VERSION"))
        }
    }

    /// This program as the user would call it on the same home, for commands that are shown.
    pub(crate) fn command_name(&self) -> String {
        match &self.home_flag {
            Some(home) => format!("crystal-ctl --home {}", shell_word(home)),
            None => "crystal-ctl".to_owned(),
        }
    }

    /// What a shown command about a session needs.
    pub(crate) fn hints(&self, session: &SessionId) -> Hints {
        Hints {
            program: self.command_name(),
            session: session.clone(),
        }
    }
}

/// A path as a shell reads it back.
fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// All of stdin as text, at most as long as a message may be.
pub(crate) async fn read_stdin() -> anyhow::Result<String> {
    let bound = limits::MESSAGE_BYTES as u64;
    let mut bytes = Vec::new();
    tokio::io::stdin()
        .take(bound + 1)
        .read_to_end(&mut bytes)
        .await
        .context("stdin cannot be read")?;
    anyhow::ensure!(
        bytes.len() as u64 <= bound,
        "stdin is longer than {bound} bytes, more than a message may have"
    );
    String::from_utf8(bytes).context("stdin is not UTF-8 text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_with_odd_characters_survives_a_shell() {
        assert_eq!(shell_word(Path::new("/a/b-c")), "/a/b-c");
        assert_eq!(shell_word(Path::new("/a b")), "'/a b'");
        assert_eq!(shell_word(Path::new("/it's")), "'/it'\\''s'");
    }
}
