//! Real commands, the awkward ones above all.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    limits::TOOL_OUTPUT_CHARS,
    tools::{ToolStatus, Workspace},
};

/// No test command takes as long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a call may take after its main process ended or its time was up, and a loaded machine's delay.
const RETURN_TIME: Duration = Duration::from_millis(2_500);

struct Fixture {
    workspace: tempfile::TempDir,
    cx: ToolContext,
    output: Option<mpsc::Receiver<String>>,
}

impl Fixture {
    fn new() -> Self {
        let workspace = tempfile::tempdir().unwrap();
        let (sender, output) = mpsc::channel(4);
        let path = std::env::var("PATH").unwrap();
        Self {
            cx: ToolContext {
                workspace: Arc::new(Workspace {
                    root: workspace.path().canonicalize().unwrap(),
                    add_directories: Vec::new(),
                    home: "/nonexistent".into(),
                }),
                environment: Arc::new(BTreeMap::from([("PATH".to_owned(), path)])),
                bash_timeout: Some(PATIENCE),
                files: Arc::default(),
                output: sender,
                cancel: CancellationToken::new(),
            },
            workspace,
            output: Some(output),
        }
    }

    async fn run(&mut self, command: &str) -> ToolOutput {
        let args = BashArgs {
            command: command.to_owned(),
            description: None,
            timeout_seconds: None,
        };
        self.run_args(args).await
    }

    /// Runs a command while its output is drained into nothing.
    async fn run_args(&mut self, args: BashArgs) -> ToolOutput {
        if let Some(mut output) = self.output.take() {
            tokio::spawn(async move { while output.recv().await.is_some() {} });
        }
        let effects = Bash.plan(&args, &self.cx).await.unwrap();
        timeout(PATIENCE, Bash.run(args, &effects, &self.cx))
            .await
            .unwrap()
    }
}

fn lives(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim().starts_with('Z'))
}

fn pid_in(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap().trim().to_owned()
}

#[tokio::test]
async fn both_streams_arrive_in_the_order_of_writing() {
    let output = Fixture::new().run("echo 1; echo 2 >&2; echo 3").await;
    assert_eq!(output.status, ToolStatus::Succeeded);
    assert_eq!(output.text, "1\n2\n3");
    assert_eq!(output.exit_code, Some(0));
}

#[tokio::test]
async fn the_command_runs_in_the_workspace_without_input_and_with_exactly_its_environment() {
    let mut fixture = Fixture::new();
    let root = fixture.cx.workspace.root.display().to_string();
    let output = fixture
        .run("pwd; cat; tr '\\0' '\\n' </proc/$$/environ | grep -v ^PATH=; exit 0")
        .await;
    assert_eq!(output.text, root);
}

#[tokio::test]
async fn silence_and_a_bad_exit_are_said() {
    let output = Fixture::new().run("exit 7").await;
    assert_eq!(output.status, ToolStatus::Failed);
    assert_eq!(output.text, "(no output)\nexit code 7");
    assert_eq!(output.exit_code, Some(7));
}

#[tokio::test]
async fn a_signal_is_named() {
    let output = Fixture::new().run("echo last; kill -SEGV $$").await;
    assert_eq!(output.text, "last\nkilled by signal 11 (SIGSEGV)");
    assert_eq!(
        (output.status, output.exit_code),
        (ToolStatus::Failed, None)
    );
}

#[tokio::test]
async fn a_flood_is_bounded_and_keeps_its_ends() {
    let output = Fixture::new()
        .run("echo first; yes | head -c 50000000; echo last")
        .await;
    assert!(output.truncated && output.text.chars().count() <= TOOL_OUTPUT_CHARS);
    assert!(output.text.starts_with("first\ny\n") && output.text.ends_with("y\nlast"));
    assert_eq!(output.text.matches("characters left out").count(), 1);
}

#[tokio::test]
async fn a_character_written_in_two_halves_is_streamed_whole() {
    let mut fixture = Fixture::new();
    let mut watched = fixture.output.take().unwrap();
    let watch = tokio::spawn(async move {
        let mut pieces = Vec::new();
        while let Some(piece) = watched.recv().await {
            pieces.push(piece);
        }
        pieces
    });
    let output = fixture
        .run("printf 'a\\xe2\\x82'; sleep 0.1; printf '\\xac\\xff'")
        .await;
    assert_eq!(output.text, "a€\u{fffd}");
    drop(fixture);
    assert_eq!(watch.await.unwrap().concat(), "a€\u{fffd}");
}

#[tokio::test]
async fn a_timeout_kills_a_tree_that_ignores_terminate_and_keeps_its_output() {
    let mut fixture = Fixture::new();
    let start = Instant::now();
    let output = fixture
        .run_args(BashArgs {
            command: "trap '' TERM; (trap '' TERM; echo $BASHPID >pid; while :; do sleep 1000; done) & echo printed; wait".to_owned(),
            description: None,
            timeout_seconds: Some(TimeoutSetting::Seconds(1)),
        })
        .await;
    assert!(start.elapsed() < Duration::from_secs(1) + RETURN_TIME);
    assert_eq!(output.status, ToolStatus::Failed);
    assert_eq!(output.text, "printed\ntimed out after 1 s");
    assert!(!lives(&pid_in(&fixture.workspace.path().join("pid"))));
}

#[tokio::test]
async fn a_cancel_ends_the_tree_at_once_when_it_obeys() {
    let mut fixture = Fixture::new();
    let mut watched = fixture.output.take().unwrap();
    let cancel = fixture.cx.cancel.clone();
    tokio::spawn(async move {
        watched.recv().await.unwrap();
        cancel.cancel();
        while watched.recv().await.is_some() {}
    });
    let start = Instant::now();
    let output = fixture.run("sleep 1000 & echo $! | tee pid; wait").await;
    assert!(start.elapsed() < KILL_GRACE);
    assert_eq!(output.status, ToolStatus::Cancelled);
    assert!(output.text.ends_with("\ncancelled"), "{}", output.text);
    assert!(!lives(&pid_in(&fixture.workspace.path().join("pid"))));
}

#[tokio::test]
async fn a_background_process_that_keeps_the_output_open_is_ended_and_named() {
    let mut fixture = Fixture::new();
    let start = Instant::now();
    let output = fixture.run("sleep 1000 & echo $! >pid; echo done").await;
    assert!(start.elapsed() < RETURN_TIME);
    let pid = pid_in(&fixture.workspace.path().join("pid"));
    assert_eq!(
        output.text,
        format!(
            "done\nended with the command, because they were still running:\n- process {pid}: sleep 1000"
        )
    );
    assert_eq!(output.status, ToolStatus::Succeeded);
    assert!(!lives(&pid));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_orphan_of_another_session_is_found_by_the_output_it_holds() {
    let mut fixture = Fixture::new();
    let start = Instant::now();
    let output = fixture
        .run("setsid bash -c \"trap '' TERM; echo \\$\\$ >pid; sleep 1000; :\" & until [ -s pid ]; do :; done")
        .await;
    assert!(start.elapsed() < RETURN_TIME);
    let pid = pid_in(&fixture.workspace.path().join("pid"));
    assert!(
        output.text.contains(&format!("- process {pid}: bash -c")),
        "{}",
        output.text
    );
    assert!(!lives(&pid));
}

#[tokio::test]
async fn a_process_that_closes_its_output_and_lives_on_is_ended_too() {
    let mut fixture = Fixture::new();
    let output = fixture
        .run("sleep 1000 >/dev/null 2>&1 & echo $! >pid")
        .await;
    let pid = pid_in(&fixture.workspace.path().join("pid"));
    assert!(
        output
            .text
            .contains(&format!("- process {pid}: sleep 1000")),
        "{}",
        output.text
    );
    assert!(!lives(&pid));
}

#[tokio::test]
async fn what_a_background_process_writes_right_after_the_end_is_kept() {
    let output = Fixture::new()
        .run("(sleep 0.2; echo late) & echo early")
        .await;
    assert_eq!(output.text, "early\nlate");
}

#[tokio::test]
async fn a_missing_bash_and_a_missing_workspace_are_told_apart() {
    let mut fixture = Fixture::new();
    fixture.cx.environment = Arc::new(BTreeMap::from([("PATH".to_owned(), "/nowhere".to_owned())]));
    assert!(
        fixture
            .run("true")
            .await
            .text
            .contains("no `bash` in the PATH")
    );
    let mut fixture = Fixture::new();
    std::fs::remove_dir(fixture.workspace.path()).unwrap();
    assert!(
        fixture
            .run("true")
            .await
            .text
            .contains("not a directory any more")
    );
}

#[tokio::test]
async fn commands_that_no_shell_can_be_given_are_refused() {
    let fixture = Fixture::new();
    for (command, word) in [
        (" ".to_owned(), "empty"),
        ("a\0b".to_owned(), "NUL"),
        ("x".repeat(200_000), "200000 bytes"),
    ] {
        let args = BashArgs {
            command,
            description: None,
            timeout_seconds: None,
        };
        let refusal = Bash.plan(&args, &fixture.cx).await.unwrap_err();
        assert!(refusal.text.contains(word), "{}", refusal.text);
    }
}

#[tokio::test]
async fn a_plan_shows_what_the_eye_would_miss() {
    let fixture = Fixture::new();
    let args: BashArgs =
        serde_json::from_str(r#"{"command": "echo \u202ea\nls", "timeoutSeconds": null}"#).unwrap();
    assert_eq!(args.timeout_seconds, Some(TimeoutSetting::Unlimited));
    let effects = Bash.plan(&args, &fixture.cx).await.unwrap();
    assert_eq!(effects.title, "echo \\u{202e}a");
    assert_eq!(effects.summary, "echo \\u{202e}a\\nls");
    assert_eq!(
        effects.rule,
        Some(Rule::Command {
            text: args.command.clone()
        })
    );
}

#[test]
fn the_schema_names_the_arguments_and_refuses_others() {
    let schema = serde_json::to_value(schemars::schema_for!(BashArgs)).unwrap();
    assert_eq!(schema["required"], serde_json::json!(["command"]));
    assert_eq!(schema["additionalProperties"], false);
    assert!(schema["properties"]["timeoutSeconds"].is_object());
    assert!(serde_json::from_str::<BashArgs>(r#"{"command": "a", "cmd": 1}"#).is_err());
}
