//! `crystal-ctl run`: exit codes, JSON lines, and answers from elsewhere.

use std::rc::Rc;

use crystal_tests::{
    client::Client,
    ctl::{Ctl, Finished},
    daemon::{Daemon, Options},
    home::Home,
    run_test,
    workspace::Workspace,
};
use serde_json::{Value, json};

use crate::ctl::daemon_and_ctl;

/// `run` in a workspace that needs no trust, with the instant demo model.
async fn run(ctl: &Ctl, workspace: &Workspace, more: &[&str]) -> Finished {
    let mut arguments = vec![
        "run",
        "--workspace",
        workspace.text_path(),
        "--workspace-trust",
        "off",
    ];
    arguments.extend(["--provider", "demo", "--model", "demo:fast"]);
    arguments.extend(more);
    ctl.run(&arguments).await
}

#[test]
fn run_exits_0_when_done_and_prints_the_text_alone_on_stdout() {
    run_test(async {
        let (_daemon, ctl, workspace) = daemon_and_ctl().await;
        let end = run(&ctl, &workspace, &["read README.md\nsay the answer"]).await;
        assert!(end.expect(0).stdout.contains("the answer"), "{end:?}");
        let mut arguments = vec!["run", "--workspace-trust", "off", "--provider", "demo"];
        arguments.extend(["--model", "demo:fast"]);
        let from_stdin = ctl
            .run_with_input(workspace.path(), &arguments, "say from stdin\n")
            .await;
        assert!(from_stdin.expect(0).stdout.contains("from stdin"));
    });
}

#[test]
fn run_exits_1_when_it_cannot_begin() {
    run_test(async {
        let (_daemon, ctl, workspace) = daemon_and_ctl().await;
        for more in [
            vec!["--workspace", "/no/such/directory", "say x"],
            vec!["--provider", "nobody", "say x"],
            vec!["--model", "no-such-model", "say x"],
            vec!["--disable-tool", "no_such_tool", "say x"],
        ] {
            let mut arguments = vec!["run", "--workspace-trust", "off"];
            if !more.contains(&"--workspace") {
                arguments.extend(["--workspace", workspace.text_path()]);
            }
            arguments.extend(more);
            let end = ctl.run(&arguments).await;
            assert!(!end.expect(1).stderr.is_empty());
        }
        let untrusted = ["run", "--workspace", workspace.text_path(), "say x"];
        ctl.run(&untrusted).await.expect(1);
    });
}

#[test]
fn run_exits_1_when_the_key_is_missing() {
    run_test(async {
        let keyless = json!({"keyless": {
            "protocol": "openai", "baseUri": "http://127.0.0.1:9/v1",
            "models": {"m": {"contextWindow": 1_000}},
        }});
        let options = Options {
            providers: Some(keyless),
            ..Options::default()
        };
        let daemon = Daemon::start_with(options).await;
        let ctl = Ctl::new(daemon.share_home());
        let workspace = Workspace::new();
        let arguments = [
            "run",
            "--workspace",
            workspace.text_path(),
            "--workspace-trust",
            "off",
            "--provider",
            "keyless",
            "say x",
        ];
        let end = ctl.run(&arguments).await;
        assert!(end.expect(1).stderr.contains("keyless"), "{end:?}");
    });
}

#[test]
fn run_exits_2_when_the_model_request_failed() {
    run_test(async {
        let (_daemon, ctl, workspace) = daemon_and_ctl().await;
        for kind in ["quota", "badRequest", "contentFilter"] {
            let end = run(&ctl, &workspace, &[&format!("fail {kind}")]).await;
            assert!(!end.expect(2).stderr.is_empty(), "{kind}");
        }
    });
}

#[test]
fn run_exits_3_at_a_limit() {
    run_test(async {
        let (_daemon, ctl, workspace) = daemon_and_ctl().await;
        let lists = "list .\nlist .\nlist .";
        run(&ctl, &workspace, &["--model-calls", "1", lists])
            .await
            .expect(3);
        run(&ctl, &workspace, &["--tool-calls", "1", lists])
            .await
            .expect(3);
        run(&ctl, &workspace, &["fail length"]).await.expect(3);
        run(&ctl, &workspace, &["fail contextOverflow"])
            .await
            .expect(3);
    });
}

#[test]
fn run_exits_4_when_something_was_denied() {
    run_test(async {
        let (_daemon, ctl, workspace) = daemon_and_ctl().await;
        run(&ctl, &workspace, &["write made.txt: x"])
            .await
            .expect(4);
        assert!(!workspace.has("made.txt"));
        run(
            &ctl,
            &workspace,
            &["--approval", "edit", "write made.txt: x"],
        )
        .await
        .expect(0);
        assert_eq!(workspace.read("made.txt"), "x");
    });
}

#[test]
fn run_exits_5_when_interrupted() {
    run_test(async {
        let (daemon, ctl, workspace) = daemon_and_ctl().await;
        workspace.make_gate("gate");
        let mut arguments = vec![
            "run",
            "--workspace-trust",
            "off",
            "--provider",
            "demo",
            "--model",
            "demo:fast",
        ];
        arguments.extend([
            "--approval",
            "full",
            "--format",
            "json",
            "run touch begun; cat gate",
        ]);
        let streaming = ctl.stream(workspace.path(), &arguments);
        let mut client = daemon.client().await;
        let session = loop {
            let list = client.ok("session/list", json!({})).await;
            if let Some(id) = list["sessions"][0]["id"].as_str() {
                break id.to_owned();
            }
        };
        client.attach(&session).await;
        let running = |activity: &crystal_protocol::turn::Activity| {
            activity.kind == crystal_protocol::turn::ActivityKind::RunningTool
        };
        if !running(&client.watched(&session).folded().activity) {
            client
                .wait_for(&session, |event| {
                    matches!(event, crystal_protocol::event::Event::ActivityChanged { activity } if running(activity))
                })
                .await;
        }
        streaming.interrupt();
        let end = streaming.finish().await;
        end.expect(5);
    });
}

#[test]
fn run_prints_json_lines_of_the_documented_shapes() {
    run_test(async {
        let (_daemon, ctl, workspace) = daemon_and_ctl().await;
        let prompt = "read README.md\nwrite made.txt: x\nsay the answer";
        let end = run(&ctl, &workspace, &["--format", "json", prompt]).await;
        let lines = end.expect(4).json_lines();
        let of_type = |name: &str| -> Vec<&Value> {
            lines.iter().filter(|line| line["type"] == name).collect()
        };
        for line in &lines {
            assert!(
                line["timestamp"].is_string() || line["timestamp"].is_u64(),
                "{line}"
            );
            assert!(line["sessionID"].is_string(), "{line}");
        }
        assert!(!of_type("step_start").is_empty());
        let tools = of_type("tool_use");
        assert_eq!(tools.len(), 2);
        assert_eq!(tools[0]["name"], "read");
        assert_eq!(tools[0]["status"], "succeeded");
        assert!(tools[0]["callId"].is_string() && !tools[0]["arguments"].is_null());
        assert!(
            tools[0]["output"]
                .as_str()
                .unwrap()
                .contains("small project")
        );
        assert_eq!(tools[1]["status"], "rejected");
        let text: String = of_type("text")
            .iter()
            .map(|line| line["text"].as_str().unwrap_or_default())
            .collect();
        assert!(text.contains("the answer"), "{lines:?}");
        let finish = of_type("step_finish");
        assert_eq!(finish.last().unwrap()["toolCalls"], 2);
        assert!(finish.last().unwrap()["modelCalls"].as_u64().unwrap() >= 3);
        assert!(finish.last().unwrap()["reason"].is_string());
    });
}

#[test]
fn run_starts_a_daemon_when_there_is_none_and_keep_leaves_the_session_live() {
    run_test(async {
        let home = Rc::new(Home::new());
        let ctl = Ctl::new(home.clone());
        let workspace = Workspace::new();
        let end = run(&ctl, &workspace, &["--keep", "say hello"]).await;
        let mut client = Client::connect_to(&home.socket()).await;
        end.expect(0);
        let list = client.ok("session/list", json!({})).await;
        assert_eq!(list["sessions"][0]["live"], true);
        run(&ctl, &workspace, &["say hello"]).await.expect(0);
        let list = client.ok("session/list", json!({})).await;
        let live = list["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|session| session["live"] == true);
        assert_eq!(live.count(), 1);
        ctl.run(&["stop"]).await.expect(0);
        client.wait_closed().await;
    });
}

#[test]
fn no_terminal_escape_of_a_model_or_tool_reaches_the_terminal() {
    run_test(async {
        let (_daemon, ctl, workspace) = daemon_and_ctl().await;
        workspace.write("evil.txt", "a\u{1b}]0;title\u{7}b\u{1b}[2Jc\n");
        let prompt = "run cat evil.txt\nsay red \u{1b}[31m text";
        let end = run(&ctl, &workspace, &["--approval", "full", prompt]).await;
        end.expect(0);
        assert!(
            !end.stdout.contains('\u{1b}') && !end.stderr.contains('\u{1b}'),
            "{end:?}"
        );
    });
}

#[test]
fn run_exits_1_on_a_bad_command_line_that_exits_2_elsewhere() {
    run_test(async {
        let ctl = Ctl::new(Rc::new(Home::new()));
        for more in [
            vec!["--no-such-flag", "say x"],
            vec!["--workspace-trust", "maybe", "say x"],
            vec!["--approval", "sometimes", "say x"],
            vec!["--duration", "5d", "say x"],
            vec!["--bash-timeout", "0", "say x"],
            vec!["--plan", "--work", "say x"],
            vec!["say x", "say y"],
            vec!["--model"],
        ] {
            let arguments = [vec!["run"], more.clone()].concat();
            let end = ctl.run(&arguments).await;
            assert!(!end.expect(1).stderr.is_empty(), "{more:?}");
            assert!(end.stdout.is_empty(), "{more:?}");
        }
        let behind = ["--json", "run", "--no-such-flag"];
        ctl.run(&behind).await.expect(1);
        let help = ctl.run(&["run", "--help"]).await;
        assert!(help.expect(0).stdout.contains("--workspace-trust"));
        ctl.run(&["send", "run", "--no-such-flag"]).await.expect(2);
    });
}

#[test]
fn run_prints_the_notes_about_its_session_as_lines() {
    run_test(async {
        let home = Rc::new(Home::bare());
        let _daemon = Daemon::start_on(home.clone(), Vec::new()).await;
        let (ctl, workspace) = (Ctl::new(home), Workspace::new());
        let mut arguments = vec!["run", "--workspace", workspace.text_path()];
        arguments.extend(["--workspace-trust", "off", "say x"]);
        let people = ctl.run(&arguments).await;
        assert!(
            people.expect(0).stderr.contains("no language"),
            "{people:?}"
        );
        arguments.extend(["--format", "json"]);
        let end = ctl.run(&arguments).await;
        let lines = end.expect(0).json_lines();
        assert_eq!(lines[0]["type"], "session");
        let note = &lines[1];
        assert_eq!(
            (&note["type"], &note["level"]),
            (&json!("note"), &json!("info"))
        );
        assert!(note["text"].as_str().unwrap().contains("no language"));
        assert_eq!(note["sessionID"], lines[0]["sessionID"]);
        assert!(!end.stderr.contains("no language"), "{end:?}");
    });
}

#[test]
fn run_that_asks_goes_by_the_answer_of_another_process() {
    run_test(async {
        let (daemon, ctl, workspace) = daemon_and_ctl().await;
        let mut client = daemon.client().await;
        for (answer, code) in [("approve", 0), ("deny", 4)] {
            let file = format!("{answer}.txt");
            let prompt = format!("write {file}: x");
            let mut arguments = vec!["run", "--workspace-trust", "off", "--ask"];
            arguments.extend(["--format", "json", &prompt]);
            let mut streaming = ctl.stream(workspace.path(), &arguments);
            let line = streaming.line(|line| line.contains("step_start")).await;
            let line: Value = serde_json::from_str(&line).unwrap();
            let session = line["sessionID"].as_str().unwrap();
            if client.attach(session).await.folded().approvals.is_empty() {
                client.wait_approval(session).await;
            }
            let pending = ctl.run(&["pending", session, "--json"]).await;
            assert!(pending.expect(0).stdout.contains(&file), "{pending:?}");
            assert!(!workspace.has(&file));
            ctl.run(&[answer, session]).await.expect(0);
            let end = streaming.finish().await;
            assert!(
                end.expect(code)
                    .stderr
                    .contains(&format!(" {answer} {session}"))
            );
            assert_eq!(workspace.has(&file), code == 0);
        }
    });
}
