//! Starting the daemon: the `crystald` beside this executable, else the one on PATH, detached from this terminal.
//!
//! What it prints before it has a log of its own goes to `{home}/logs/crystald.stderr`, whose last line is what a
//! user is told when the start fails.

use std::{
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use tokio::process::{Child, Command};

use super::ClientError;
use crate::home::Home;

/// Exit code of a daemon that found another one holding the home.
pub const EXIT_HOME_HELD: i32 = 3;

/// The file of earlier starts is begun anew beyond this size, in bytes.
const STDERR_FILE_BYTES: u64 = 1024 * 1024;

/// How much of the file's end is searched for the last line, in bytes.
const STDERR_TAIL_BYTES: u64 = 4096;

/// A daemon that was started and may not be ready yet. Dropping it leaves it running; the runtime reaps it.
#[derive(Debug)]
pub struct StartedDaemon {
    child: Child,
    program: PathBuf,
    stderr: PathBuf,
    /// Where this start's lines begin in the file.
    begin: u64,
}

/// How a started daemon ended before it was ready.
#[derive(Debug)]
pub enum EarlyEnd {
    /// Another daemon holds the home; it will answer.
    HomeHeld,
    /// It failed; the text says how.
    Failed(String),
}

/// The program that [`start`] would run.
pub fn daemon_program() -> PathBuf {
    let name = format!("crystald{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::current_exe()
        .ok()
        .and_then(|exe| exe.parent().map(|dir| dir.join(&name)));
    match beside {
        Some(path) if path.is_file() => path,
        _ => PathBuf::from(name),
    }
}

/// Starts a daemon on the home and returns at once.
///
/// # Errors
/// [`ClientError::Start`] when the log file cannot be made or the program cannot be run.
pub async fn start(home: &Home) -> Result<StartedDaemon, ClientError> {
    let home = home.clone();
    let started = tokio::task::spawn_blocking(move || start_blocking(&home)).await;
    let (mut command, program, stderr, begin) = started
        .map_err(|error| ClientError::Start(format!("starting the daemon failed: {error}")))??;
    let child = command.spawn().map_err(|error| {
        ClientError::Start(format!(
            "the daemon {} cannot be started: {error}. Put crystald beside this program or on PATH.",
            program.display()
        ))
    })?;
    Ok(StartedDaemon {
        child,
        program,
        stderr,
        begin,
    })
}

fn start_blocking(home: &Home) -> Result<(Command, PathBuf, PathBuf, u64), ClientError> {
    let logs = home.logs_dir();
    let stderr = logs.join("crystald.stderr");
    let refuse = |error: io::Error| {
        ClientError::Start(format!(
            "{} cannot be written: {error}. Check the permissions of the home or choose another with --home DIR.",
            stderr.display()
        ))
    };
    make_private_dir(home.path()).map_err(refuse)?;
    make_private_dir(&logs).map_err(refuse)?;
    let file = open_stderr(&stderr).map_err(refuse)?;
    let begin = file.metadata().map_err(refuse)?.len();
    let program = daemon_program();
    let mut command = Command::new(&program);
    command
        .arg("--home")
        .arg(home.path())
        .arg("--detached")
        // A workspace must not stay in use because a daemon was started from it.
        .current_dir(home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file);
    #[cfg(unix)]
    command.process_group(0);
    #[cfg(windows)]
    {
        const DETACHED_PROCESS: u32 = 0x0000_0008;
        const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;
        command.creation_flags(DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP);
    }
    Ok((command, program, stderr, begin))
}

fn make_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn open_stderr(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    if file.metadata()?.len() > STDERR_FILE_BYTES {
        file.set_len(0)?;
    }
    Ok(file)
}

impl StartedDaemon {
    /// Whether it has ended already, and how.
    ///
    /// # Errors
    /// When the child cannot be asked.
    pub async fn early_end(&mut self) -> Result<Option<EarlyEnd>, ClientError> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(None);
        };
        if status.code() == Some(EXIT_HOME_HELD) {
            return Ok(Some(EarlyEnd::HomeHeld));
        }
        let (stderr, begin) = (self.stderr.clone(), self.begin);
        let line = tokio::task::spawn_blocking(move || last_line(&stderr, begin)).await;
        let line = line.ok().and_then(Result::ok).flatten();
        Ok(Some(EarlyEnd::Failed(self.failure(status, line))))
    }

    fn failure(&self, status: ExitStatus, line: Option<String>) -> String {
        let said = line.map_or_else(
            || "it printed nothing".to_owned(),
            |line| format!("it said: {line}"),
        );
        format!(
            "the daemon {} ended while it was starting ({status}); {said}. See {} and run `crystal-ctl doctor`.",
            self.program.display(),
            self.stderr.display()
        )
    }

    /// What a user is told when it runs but never answers.
    pub(super) fn unanswered(&self) -> String {
        format!(
            "the daemon was started and does not answer. See {} and run `crystal-ctl doctor`.",
            self.stderr.display()
        )
    }
}

fn last_line(path: &Path, begin: u64) -> io::Result<Option<String>> {
    let mut file = std::fs::File::open(path)?;
    let from = begin.max(file.metadata()?.len().saturating_sub(STDERR_TAIL_BYTES));
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(STDERR_TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text
        .lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty())
        .map(|line| line.trim_end_matches('.').to_owned()))
}
