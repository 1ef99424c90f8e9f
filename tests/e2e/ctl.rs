//! `crystal-ctl`: its commands, its JSON, and what it says of the daemon's health.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, rc::Rc};

use crystal_tests::{ctl::Ctl, daemon::Daemon, home::Home, run_test, workspace::Workspace};
use serde_json::{Value, json};

/// A daemon, commands on its home, and a workspace.
pub(crate) async fn daemon_and_ctl() -> (Daemon, Ctl, Workspace) {
    let daemon = Daemon::start().await;
    let ctl = Ctl::new(daemon.share_home());
    (daemon, ctl, Workspace::new())
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
fn json_has_hidden_characters_as_escapes_and_is_the_same_value() {
    run_test(async {
        let (daemon, ctl, workspace) = daemon_and_ctl().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&workspace).await;
        let after = client.attach(&session).await.head().to_string();
        let hidden = "\u{7f}\u{9b}31m\u{202e}\u{2066}\u{200b}\u{e0041}";
        let prompt = format!("say {hidden}");
        client.complete_turn(&session, &prompt).await;
        let get = json!({"session": session}).to_string();
        for arguments in [
            vec!["items", session.as_str(), "--json"],
            vec!["call", "session/items", get.as_str()],
            vec!["call", "session/items", get.as_str(), "--json"],
        ] {
            let end = ctl.run(&arguments).await;
            assert!(!end.expect(0).stdout.contains(is_hidden), "{end:?}");
            assert!(end.stdout.contains("\\u202e"), "{end:?}");
            let value: Vec<Value> = serde_json::Deserializer::from_str(&end.stdout)
                .into_iter()
                .collect::<Result<_, _>>()
                .unwrap();
            assert!(json!(value).to_string().contains(hidden), "{end:?}");
        }
        let arguments = ["attach", &session, "--events", "--after", &after];
        let mut streaming = ctl.stream(Path::new("/"), &arguments);
        let line = streaming.line(|line| line.contains("\\u202e")).await;
        assert!(!line.contains(is_hidden), "{line}");
        let unknown = json!({"session": hidden}).to_string();
        let refused = ctl.run(&["call", "session/get", &unknown, "--json"]).await;
        assert!(!refused.expect(1).stderr.contains(is_hidden), "{refused:?}");
        let error: Value = serde_json::from_str(&refused.stderr).unwrap();
        assert_eq!(error["code"], -32002);
    });
}

fn is_hidden(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..)
}

#[test]
fn status_tells_whether_the_daemon_runs_and_starts_none() {
    run_test(async {
        let (mut daemon, ctl, workspace) = daemon_and_ctl().await;
        let mut client = daemon.client().await;
        client.create(&workspace, json!({})).await;
        let status = ctl.run(&["status", "--json"]).await.expect(0).json();
        assert_eq!(status["pid"], daemon.pid());
        assert_eq!(status["home"], daemon.home().path().to_str().unwrap());
        assert_eq!(
            (&status["sessions"], &status["clients"], &status["tasks"]),
            (&json!(1), &json!(2), &json!(0))
        );
        assert!(status["residentBytes"].as_u64().unwrap() > 0);
        let shown = ctl.run(&["status"]).await;
        let first = format!("running, pid {}\n", daemon.pid());
        assert!(shown.expect(0).stdout.starts_with(&first), "{shown:?}");
        // What a killed daemon leaves behind does not count as one that runs.
        daemon.kill9().await;
        let status = ctl.run(&["status", "--json"]).await.expect(1).json();
        assert_eq!(status["running"], false);
        let again = ctl.run(&["status"]).await;
        assert!(again.expect(1).stdout.starts_with("not running"));
    });
}

#[test]
fn doctor_finds_what_is_broken_and_starts_nothing() {
    run_test(async {
        let home = Rc::new(Home::new());
        let ctl = Ctl::new(home.clone());
        let verdict = |report: &Value, name: &str| -> String {
            let checks = report["checks"].as_array().unwrap();
            let found = checks.iter().find(|check| check["name"] == name);
            found.unwrap_or_else(|| panic!("no {name} in {report}"))["verdict"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let report = ctl.run(&["doctor", "--json"]).await.expect(0).json();
        assert_eq!(report["ok"], true);
        assert_eq!(verdict(&report, "daemon"), "warning");
        assert!(!home.socket().exists());

        let _daemon = Daemon::start_on(home.clone(), Vec::new()).await;
        let report = ctl.run(&["doctor", "--json"]).await.expect(0).json();
        assert_eq!(report["ok"], true);
        for name in ["home", "run directory", "lock", "program", "shell"] {
            assert_eq!(verdict(&report, name), "ok", "{name}");
        }
        for name in ["socket", "daemon", "keys"] {
            assert_eq!(verdict(&report, name), "ok", "{name}");
        }

        let credentials = home.path().join("credentials.json");
        fs::write(&credentials, "{}").unwrap();
        fs::set_permissions(&credentials, fs::Permissions::from_mode(0o644)).unwrap();
        let report = ctl.run(&["doctor", "--json"]).await.expect(1).json();
        assert_eq!(report["ok"], false);
        assert_eq!(verdict(&report, "credentials"), "broken");
        let shown = ctl.run(&["doctor"]).await;
        assert!(shown.expect(1).stdout.contains("chmod 0600"), "{shown:?}");
    });
}
