//! Runs the real `crystal-ctl` on a private home.

use std::{path::Path, process::Stdio, rc::Rc};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::{
    TEST_LIMIT, WAIT_LIMIT,
    home::{Home, binary, send_signal},
};

/// Runs `crystal-ctl` commands on one home.
#[derive(Clone, Debug)]
pub struct Ctl {
    home: Rc<Home>,
    environment: Vec<(String, String)>,
}

/// What a finished command left behind.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Exit code; -1 when a signal ended it.
    pub code: i32,
    /// All of stdout.
    pub stdout: String,
    /// All of stderr.
    pub stderr: String,
}

impl Finished {
    /// Fails unless the command exited with `code`.
    ///
    /// # Panics
    /// When it did not; shows what it printed.
    #[track_caller]
    pub fn expect(&self, code: i32) -> &Self {
        assert_eq!(
            self.code, code,
            "stdout:\n{}\nstderr:\n{}",
            self.stdout, self.stderr
        );
        self
    }

    /// Stdout as one JSON value.
    ///
    /// # Panics
    /// When it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }

    /// Stdout as JSON values, one a line.
    ///
    /// # Panics
    /// When a line is none.
    pub fn json_lines(&self) -> Vec<Value> {
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        self.stdout.lines().map(parse).collect()
    }
}

impl Ctl {
    /// Commands on this home.
    pub fn new(home: Rc<Home>) -> Self {
        Self {
            home,
            environment: Vec::new(),
        }
    }

    /// Adds a variable to the environment of the commands.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    fn command(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary("crystal-ctl"));
        command
            .arg("--home")
            .arg(self.home.path())
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.user_dir())
            .env("LANG", "C.UTF-8")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs a command in `/` to its end.
    pub async fn run(&self, arguments: &[&str]) -> Finished {
        self.run_in(Path::new("/"), arguments).await
    }

    /// Runs a command in a directory to its end.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn run_in(&self, directory: &Path, arguments: &[&str]) -> Finished {
        let output = self.command(directory, arguments).output();
        let output = tokio::time::timeout(TEST_LIMIT, output)
            .await
            .unwrap_or_else(|_| panic!("crystal-ctl {arguments:?} does not end"))
            .expect("crystal-ctl can be run");
        Finished {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs a command in a directory to its end, with something on its stdin.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn run_with_input(
        &self,
        directory: &Path,
        arguments: &[&str],
        input: &str,
    ) -> Finished {
        let mut command = self.command(directory, arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .spawn()
            .expect("crystal-ctl can be run");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        stdin
            .write_all(input.as_bytes())
            .await
            .expect("stdin takes the text");
        drop(stdin);
        let output = tokio::time::timeout(TEST_LIMIT, child.wait_with_output())
            .await
            .unwrap_or_else(|_| panic!("crystal-ctl {arguments:?} does not end"))
            .expect("crystal-ctl can be waited for");
        Finished {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Starts a command whose lines are read while it runs.
    pub fn stream(&self, directory: &Path, arguments: &[&str]) -> Streaming {
        let mut child = self
            .command(directory, arguments)
            .spawn()
            .expect("crystal-ctl can be run");
        let stdout = child.stdout.take().expect("stdout is piped");
        Streaming {
            lines: BufReader::new(stdout).lines(),
            child,
            seen: Vec::new(),
        }
    }
}

/// A command that runs; killed when dropped.
#[derive(Debug)]
pub struct Streaming {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<String>,
}

impl Streaming {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Interrupts it as Ctrl+C does.
    pub fn interrupt(&self) {
        send_signal(self.pid(), rustix::process::Signal::INT);
    }

    /// The next line that `pick` takes.
    ///
    /// # Panics
    /// When none comes; shows those that came.
    pub async fn line(&mut self, pick: impl Fn(&str) -> bool) -> String {
        loop {
            let next = tokio::time::timeout(WAIT_LIMIT, self.lines.next_line()).await;
            match next {
                Ok(Ok(Some(line))) if pick(&line) => return line,
                Ok(Ok(Some(line))) => self.seen.push(line),
                end => panic!("no such line ({end:?}) after:\n{}", self.seen.join("\n")),
            }
        }
    }

    /// Waits for its end; gives its exit code, the rest of its stdout, and its stderr.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn finish(mut self) -> Finished {
        let rest = async {
            let mut stdout = String::new();
            while let Some(line) = self.lines.next_line().await.expect("stdout can be read") {
                stdout.push_str(&line);
                stdout.push('\n');
            }
            let mut stderr = String::new();
            if let Some(mut pipe) = self.child.stderr.take() {
                pipe.read_to_string(&mut stderr)
                    .await
                    .expect("stderr can be read");
            }
            let status = self.child.wait().await.expect("it can be waited for");
            Finished {
                code: status.code().unwrap_or(-1),
                stdout,
                stderr,
            }
        };
        tokio::time::timeout(WAIT_LIMIT, rest)
            .await
            .expect("crystal-ctl ends")
    }
}
