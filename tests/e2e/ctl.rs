//! `crystal-ctl`: its commands, its JSON, and the exit codes of `run`.

use std::{path::Path, rc::Rc};

use crystal_tests::{
    client::Client,
    ctl::{Ctl, Finished},
    daemon::Daemon,
    home::Home,
    run_test,
    workspace::Workspace,
};
use serde_json::{Value, json};

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

async fn daemon_and_ctl() -> (Daemon, Ctl, Workspace) {
    let daemon = Daemon::start().await;
    let ctl = Ctl::new(daemon.share_home());
    (daemon, ctl, Workspace::new())
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
fn usage_errors_exit_2_and_failures_1() {
    run_test(async {
        let (_daemon, ctl, _workspace) = daemon_and_ctl().await;
        for arguments in [
            vec!["no-such-command"],
            vec!["status", "--no-such-flag"],
            vec!["send"],
        ] {
            assert!(!ctl.run(&arguments).await.expect(2).stderr.is_empty());
        }
        let end = ctl.run(&["items", "no-such-session"]).await;
        assert!(end.expect(1).stdout.is_empty());
        assert!(!end.stderr.is_empty());
        ctl.run(&["call", "no/such", "{}"]).await.expect(1);
        ctl.run(&["--version"]).await.expect(0);
        ctl.run(&["--help"]).await.expect(0);
    });
}

#[test]
fn commands_on_a_session_speak_the_protocol() {
    run_test(async {
        let (daemon, ctl, workspace) = daemon_and_ctl().await;
        let mut client = daemon.client().await;
        let session = client.create(&workspace, json!({})).await;
        let status = ctl.run(&["status", "--json"]).await.expect(0).json();
        assert_eq!(status["pid"], daemon.pid());
        let called = ctl
            .run(&[
                "call",
                "session/get",
                &json!({"session": session}).to_string(),
            ])
            .await;
        assert_eq!(called.expect(0).json()["session"]["id"], session.as_str());

        let sent = ctl
            .run(&["send", &session, "say the answer", "--wait"])
            .await;
        assert!(sent.expect(0).stdout.contains("the answer"), "{sent:?}");
        let items = ctl.run(&["items", &session, "--json"]).await;
        assert!(items.expect(0).stdout.contains("the answer"));
        let listed = ctl.run(&["sessions", "--json"]).await;
        assert!(listed.expect(0).stdout.contains(&session));
        let last = ctl
            .run_in(workspace.path(), &["items", "@last", "--json"])
            .await;
        assert!(last.expect(0).stdout.contains("the answer"));
        let by_prefix = ctl
            .run(&["items", &session[..session.len() - 1], "--json"])
            .await;
        by_prefix.expect(0);

        client.attach(&session).await;
        let turn = client.begin_turn(&session, "write made.txt: x").await;
        client.wait_approval(&session).await;
        let pending = ctl.run(&["pending", "--json"]).await;
        assert!(pending.expect(0).stdout.contains("write"));
        ctl.run(&["approve", &session]).await.expect(0);
        client.wait_turn(&session, &turn).await;
        assert_eq!(workspace.read("made.txt"), "x");

        let turn = client.begin_turn(&session, "write second.txt: x").await;
        let approval = client.wait_approval(&session).await;
        let deny = [
            "deny",
            session.as_str(),
            approval.id.as_str(),
            "--message",
            "not that",
        ];
        ctl.run(&deny).await.expect(0);
        client.wait_turn(&session, &turn).await;
        assert!(!workspace.has("second.txt"));

        let turn = client.begin_turn(&session, "write third.txt: x").await;
        client.wait_approval(&session).await;
        ctl.run(&["interrupt", &session]).await.expect(0);
        client.wait_turn(&session, &turn).await;
        ctl.run(&["close", &session]).await.expect(0);
        ctl.run(&["delete", &session]).await.expect(0);
        client
            .fails(-32002, "session/get", json!({"session": session}))
            .await;
    });
}

#[test]
fn tools_and_models_are_listed_and_a_tool_is_called_as_the_operator() {
    run_test(async {
        let (daemon, ctl, workspace) = daemon_and_ctl().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&workspace).await;
        let tools = ctl.run(&["tools", &session, "--json"]).await;
        assert!(tools.expect(0).stdout.contains("grep"));
        let models = ctl.run(&["models", "--json"]).await;
        assert!(models.expect(0).stdout.contains("demo:fast"));
        let read = |path: &str| json!({"path": path}).to_string();
        let call = ["tool", "call", &session, "read", &read("README.md")];
        assert!(
            ctl.run(&call)
                .await
                .expect(0)
                .stdout
                .contains("A small project.")
        );
        let call = ["tool", "call", &session, "read", &read("none.txt")];
        ctl.run(&call).await.expect(1);
        // Left out, the session is the one live session of the workspace.
        let here = ctl.run_in(workspace.path(), &["tools", "--json"]).await;
        assert!(here.expect(0).stdout.contains("grep"));
    });
}

#[test]
fn attach_streams_events_from_a_number() {
    run_test(async {
        let (daemon, ctl, workspace) = daemon_and_ctl().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&workspace).await;
        let after = client.attach(&session).await.head().to_string();
        client.complete_turn(&session, "say the first answer").await;
        let arguments = ["attach", &session, "--events", "--after", &after];
        let mut streaming = ctl.stream(Path::new("/"), &arguments);
        streaming.line(|line| line.contains("the first")).await;
        streaming.line(|line| line.contains("turnCompleted")).await;
        client
            .complete_turn(&session, "say the second answer")
            .await;
        let line = streaming.line(|line| line.contains("turnCompleted")).await;
        let event: Value = serde_json::from_str(&line).unwrap();
        assert!(event.to_string().contains("\"seq\""), "{event}");
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
