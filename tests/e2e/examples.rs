//! The example clients of `protocol/examples`, run as their users run them.

use std::{process::Stdio, rc::Rc};

use crystal_tests::{
    WAIT_LIMIT,
    home::{Home, binary, send_signal, workspace_root},
    run_test,
    workspace::Workspace,
};
use rustix::process::Signal;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdout, Command},
};

/// An example client at work.
struct Example {
    child: Child,
    stdout: ChildStdout,
    stderr: Lines<BufReader<ChildStderr>>,
    /// What it printed so far.
    text: String,
}

impl Example {
    fn start(home: &Home, program: &[&str], arguments: &[&str]) -> Self {
        let mut child = Command::new(program[0])
            .arg(workspace_root().join("protocol/examples").join(program[1]))
            .args(arguments)
            .env("CRYSTALD", binary("crystald"))
            .env("CRYSTAL_HOME", home.path())
            .env("HOME", home.user_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{} must be installed for this test: {error}", program[0])
            });
        Self {
            stdout: child.stdout.take().unwrap(),
            stderr: BufReader::new(child.stderr.take().unwrap()).lines(),
            text: String::new(),
            child,
        }
    }

    /// The process that carries its present connection.
    async fn carrier(&mut self) -> u32 {
        loop {
            let line = self
                .stderr
                .next_line()
                .await
                .unwrap()
                .expect("it says how it is connected");
            if let Some((_, pid)) = line.split_once("through process ") {
                return pid.parse().unwrap();
            }
        }
    }

    async fn prints(&mut self, wanted: &str) {
        let mut buffer = [0; 4096];
        while !self.text.contains(wanted) {
            let read = tokio::time::timeout(WAIT_LIMIT, self.stdout.read(&mut buffer));
            let count = read.await.expect("it goes on").unwrap();
            assert_ne!(count, 0, "it ended before {wanted:?} came: {}", self.text);
            self.text
                .push_str(std::str::from_utf8(&buffer[..count]).expect("the text is ASCII"));
        }
    }

    /// Reads on to its end; gives its exit code and the lines of stderr that are left.
    async fn end(&mut self) -> (Option<i32>, Vec<String>) {
        self.stdout.read_to_string(&mut self.text).await.unwrap();
        let mut said = Vec::new();
        while let Some(line) = self.stderr.next_line().await.unwrap() {
            said.push(line);
        }
        (self.child.wait().await.unwrap().code(), said)
    }
}

/// Starts the daemon, works, loses its connection twice in the middle of an answer: the
/// answer is on the screen whole, and once.
async fn works_over_lost_connections(program: &[&str]) {
    let home = Rc::new(Home::new());
    let workspace = Workspace::new();
    let directory = workspace.path().display().to_string();
    let task = "stream 120\nwrite made.txt: by the example\nsay done";
    let arguments = ["--yes", "--model", "demo", &directory, task];
    let mut example = Example::start(&home, program, &arguments);
    for place in ["word20 ", "word60 "] {
        let carrier = example.carrier().await;
        example.prints(place).await;
        send_signal(carrier, Signal::KILL);
    }
    let (code, said) = example.end().await;
    assert_eq!(code, Some(0), "{said:?}\n{}", example.text);
    let words: String = (1..=120).map(|n| format!("word{n} ")).collect();
    assert_eq!(example.text.matches(&words).count(), 1, "{}", example.text);
    assert_eq!(
        example.text.matches("word").count(),
        120,
        "{}",
        example.text
    );
    assert!(
        said.iter().any(|line| line.starts_with("? write made.txt")),
        "{said:?}"
    );
    assert!(
        said.iter()
            .any(|line| line == "completed after 1 tool calls"),
        "{said:?}"
    );
    assert_eq!(
        std::fs::read_to_string(workspace.path().join("made.txt")).unwrap(),
        "by the example"
    );
}

#[test]
fn the_node_example_works_over_lost_connections() {
    run_test(works_over_lost_connections(&["node", "node/client.mjs"]));
}

#[test]
fn the_python_example_works_over_lost_connections() {
    run_test(works_over_lost_connections(&[
        "python3",
        "python/client.py",
    ]));
}

#[test]
fn both_examples_are_short_enough_to_read() {
    for example in ["node/client.mjs", "python/client.py"] {
        let text =
            std::fs::read_to_string(workspace_root().join("protocol/examples").join(example))
                .unwrap();
        assert!(text.lines().count() <= 150, "{example}");
    }
}
