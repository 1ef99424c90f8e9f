//! The daemon as a process: one a home, how it starts, how it ends, who may reach it.

use std::{os::unix::fs::PermissionsExt, process::Stdio, rc::Rc};

use crystal_protocol::turn::TurnReason;
use crystal_tests::{
    WAIT_LIMIT,
    client::Client,
    ctl::Ctl,
    daemon::{Daemon, command, spawn},
    home::{Home, is_alive},
    raw::RawConnection,
    run_test,
    workspace::Workspace,
};
use serde_json::{Value, json};

/// Clients that start at once.
const STARTERS: usize = 10;

/// Runs `crystald` to its end; gives its exit code and stderr.
async fn run_crystald(home: &Home, arguments: &[&str]) -> (Option<i32>, String) {
    let output = command(home, &[], arguments).stdin(Stdio::null()).output();
    let output = tokio::time::timeout(WAIT_LIMIT, output)
        .await
        .expect("crystald ends")
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), stderr)
}

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_second_daemon_on_the_same_home_says_who_holds_it() {
    run_test(async {
        let daemon = Daemon::start().await;
        let (code, stderr) = run_crystald(daemon.home(), &[]).await;
        assert_eq!(code, Some(3), "{stderr}");
        assert!(stderr.contains(&daemon.pid().to_string()), "{stderr}");
        daemon.client().await.ok("daemon/status", json!({})).await;
    });
}

#[test]
fn a_stale_socket_is_replaced_and_a_file_in_its_place_is_not() {
    run_test(async {
        let mut daemon = Daemon::start().await;
        daemon.kill9().await;
        let socket = daemon.home().socket();
        assert!(socket.exists(), "a killed daemon leaves its socket");
        daemon.restart().await;
        daemon.client().await;
        daemon.terminate();
        daemon.wait_exit().await;
        assert!(!socket.exists(), "a daemon that ends takes its socket away");
        std::fs::write(&socket, "not a socket").unwrap();
        let (code, stderr) = run_crystald(daemon.home(), &[]).await;
        assert_ne!(code, Some(0));
        assert!(stderr.contains("crystald.sock"), "{stderr}");
        assert_eq!(std::fs::read_to_string(&socket).unwrap(), "not a socket");
    });
}

#[test]
fn a_daemon_that_cannot_list_its_sessions_ends_and_says_why() {
    run_test(async {
        let home = Home::new();
        std::fs::write(home.path().join("sessions"), "no directory").unwrap();
        let (code, stderr) = run_crystald(&home, &[]).await;
        assert_eq!(code, Some(1), "{stderr}");
        assert!(
            stderr.contains("the sessions could not be listed"),
            "{stderr}"
        );
        assert!(!home.socket().exists(), "its socket goes with it");
    });
}

#[test]
fn what_follows_the_greeting_at_once_is_answered_when_the_sessions_are_listed() {
    run_test(async {
        let mut daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        let session = client.create(&workspace, json!({})).await;
        daemon.kill9().await;
        // Without its cache the list is made from the sessions themselves.
        let cache = daemon.home().path().join("sessions/index.json");
        if cache.exists() {
            std::fs::remove_file(cache).unwrap();
        }
        daemon.restart().await;
        let mut raw = RawConnection::open(&daemon.home().socket()).await;
        raw.send_line(format!(
            "{}\n{}\n{}",
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol":{"min":1,"max":1},"client":{"name":"t","version":"1"}}}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"session/list"}"#,
            r#"[{"jsonrpc":"2.0","id":3,"method":"session/list"}]"#,
        ).as_bytes())
        .await;
        let answers = [
            raw.next().await.unwrap(),
            raw.next().await.unwrap(),
            raw.next().await.unwrap(),
        ];
        assert_eq!(answers[1]["result"]["sessions"][0]["id"], session.as_str());
        assert_eq!(
            answers[2][0]["result"]["sessions"][0]["id"],
            session.as_str()
        );
    });
}

#[test]
fn a_termination_interrupts_the_turn_and_saves() {
    run_test(async {
        let mut daemon = Daemon::start().await;
        let workspace = Workspace::new();
        workspace.make_gate("gate");
        let mut client = daemon.client().await;
        client.ok("daemon/subscribe", json!({})).await;
        let session = client.create_full(&workspace).await;
        client.attach(&session).await;
        let turn = client
            .begin_turn(&session, "run echo $$ > pid; echo started; cat gate")
            .await;
        client.wait_delta(&session, "started").await;
        daemon.terminate();
        loop {
            if client.next_notification().await["type"] == "shuttingDown" {
                break;
            }
        }
        client.wait_closed().await;
        assert_eq!(daemon.wait_exit().await.code(), Some(0));
        let child: u32 = workspace.read("pid").trim().parse().unwrap();
        assert!(!is_alive(child));
        daemon.restart().await;
        let mut client = daemon.client().await;
        assert_eq!(
            client.wait_turn(&session, &turn).await.reason,
            TurnReason::Interrupted
        );
    });
}

#[test]
fn shutdown_waits_for_idleness_only_when_asked_to() {
    run_test(async {
        let mut daemon = Daemon::start().await;
        let workspace = Workspace::new();
        workspace.make_gate("gate");
        let mut client = daemon.client().await;
        let session = client.create_full(&workspace).await;
        client.attach(&session).await;
        let turn = client
            .begin_turn(&session, "run echo started; cat gate")
            .await;
        client.wait_delta(&session, "started").await;
        let if_idle = json!({"mode": "ifIdle"});
        let error = client
            .fails(-32003, "daemon/shutdown", if_idle.clone())
            .await;
        assert_eq!(error.data.unwrap()["kind"], "sessionBusy");
        workspace.open_gate("gate").await;
        client.wait_turn(&session, &turn).await;
        let other = daemon.client().await;
        client
            .fails(-32003, "daemon/shutdown", if_idle.clone())
            .await;
        drop(other);
        // The daemon sees the other leave a moment after us.
        while client.ok("daemon/status", json!({})).await["clients"] != 1 {}
        client.ok("daemon/shutdown", if_idle).await;
        assert_eq!(daemon.wait_exit().await.code(), Some(0));

        for mode in ["graceful", "now"] {
            daemon.restart().await;
            let mut client = daemon.client().await;
            client.attach(&session).await;
            client
                .begin_turn(&session, "run echo again; cat gate")
                .await;
            client.wait_delta(&session, "again").await;
            client.ok("daemon/shutdown", json!({"mode": mode})).await;
            assert_eq!(daemon.wait_exit().await.code(), Some(0), "{mode}");
        }
    });
}

#[test]
fn nobody_else_can_reach_or_read_what_is_the_users() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        client.complete_turn(&session, "say hello").await;
        client
            .ok("session/close", json!({"session": session}))
            .await;
        let home = daemon.home().path();
        assert_eq!(mode(&home.join("run")), 0o700);
        assert_eq!(mode(&daemon.home().socket()), 0o600);
        for ending in ["log", "json"] {
            let file = home.join(format!("sessions/{session}.{ending}"));
            let closed = mode(&file) & 0o077 == 0 || mode(&home.join("sessions")) & 0o077 == 0;
            assert!(closed, "{} can be read by others", file.display());
        }
    });
}

#[test]
fn the_status_tells_how_the_daemon_is() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        client.create_full(&Workspace::new()).await;
        let status = client.ok("daemon/status", json!({})).await;
        assert_eq!(status["pid"], daemon.pid());
        assert_eq!(status["sessions"], 1);
        assert_eq!(status["tasks"], 0);
        assert!(status["clients"].as_u64().unwrap() >= 1);
        assert!(status["residentBytes"].as_u64().unwrap() > 0);
        assert!(status["uptimeMs"].is_u64());
        let models = client.ok("model/list", json!({})).await;
        let demo = models["models"]
            .as_array()
            .unwrap()
            .iter()
            .find(|model| model["model"] == "demo:fast");
        assert_eq!(demo.unwrap()["provider"], "demo");
    });
}

#[test]
fn a_wrong_configuration_names_the_key_and_refuses_to_start() {
    run_test(async {
        for (config, key) in [
            (json!({"workspaceTrust": "yes"}), "workspaceTrust"),
            (json!({"idleExitMinutes": "soon"}), "idleExitMinutes"),
            (json!({"approval": "sometimes"}), "approval"),
        ] {
            let home = Home::bare();
            home.write_config(&config);
            let (code, stderr) = run_crystald(&home, &[]).await;
            assert!(code.is_some_and(|code| code != 0), "{config}: {stderr}");
            assert!(stderr.contains(key), "{stderr}");
        }
    });
}

#[test]
fn without_any_configuration_the_demo_model_is_chosen_with_a_note() {
    run_test(async {
        let daemon = Daemon::start_on(Rc::new(Home::bare()), Vec::new()).await;
        let workspace = Workspace::new();
        let mut client =
            Client::connect_as(&daemon, json!({"environment": {"PATH": "/usr/bin:/bin"}})).await;
        let params = json!({"workspace": workspace.text_path(), "trust": true});
        let created = client.ok("session/create", params).await;
        assert_eq!(created["session"]["provider"], "demo");
        let notes: Vec<&Value> = created["notes"].as_array().unwrap().iter().collect();
        assert!(
            notes
                .iter()
                .any(|note| note["text"].as_str().unwrap().contains("demo")),
            "{notes:?}"
        );
        assert!(
            !workspace.has(".crystal"),
            "nothing is written to the workspace"
        );
    });
}

/// A client over the stdio of a `crystald`.
fn over_stdio(child: &mut tokio::process::Child) -> Client {
    Client::over(child.stdout.take().unwrap(), child.stdin.take().unwrap())
}

fn spawn_stdio(home: &Home, arguments: &[&str]) -> tokio::process::Child {
    command(home, &[], arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

async fn wait_end(child: &mut tokio::process::Child) -> Option<i32> {
    let end = tokio::time::timeout(WAIT_LIMIT, child.wait()).await;
    end.expect("crystald ends with its input").unwrap().code()
}

#[test]
fn stdio_joins_the_shared_daemon() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut socket = daemon.client().await;
        let session = socket.create_full(&Workspace::new()).await;
        let mut child = spawn_stdio(daemon.home(), &["--stdio"]);
        let mut client = over_stdio(&mut child);
        client.initialize(json!({})).await.unwrap();
        assert_eq!(client.hello()["server"]["pid"], daemon.pid());
        client.attach(&session).await;
        socket.complete_turn(&session, "say hello").await;
        client.wait_turn_end(&session).await;
        client.send_line("garbage").await;
        assert_eq!(client.next_other().await["error"]["code"], -32700);
        client.close_writer().await;
        client.wait_closed().await;
        assert_eq!(wait_end(&mut child).await, Some(0));
        socket.complete_turn(&session, "say still here").await;
    });
}

#[test]
fn stdio_starts_the_shared_daemon_when_there_is_none() {
    run_test(async {
        let home = Home::new();
        let mut child = spawn_stdio(&home, &["--stdio"]);
        let mut client = over_stdio(&mut child);
        client.initialize(json!({})).await.unwrap();
        let pid = u32::try_from(client.hello()["server"]["pid"].as_u64().unwrap()).unwrap();
        assert_ne!(Some(pid), child.id());
        client.close_writer().await;
        assert_eq!(wait_end(&mut child).await, Some(0));
        assert!(
            is_alive(pid),
            "the daemon outlives the client that started it"
        );
        Client::connect_to(&home.socket())
            .await
            .ok("daemon/status", json!({}))
            .await;
    });
}

#[test]
fn standalone_stdio_serves_itself_and_ends_with_its_input() {
    run_test(async {
        let home = Home::new();
        let mut child = spawn_stdio(&home, &["--stdio", "--standalone"]);
        let mut client = over_stdio(&mut child);
        client.initialize(json!({})).await.unwrap();
        assert_eq!(
            client.hello()["server"]["pid"].as_u64(),
            child.id().map(u64::from)
        );
        let session = client.create_full(&Workspace::new()).await;
        client.complete_turn(&session, "say hello").await;
        assert!(!home.socket().exists());
        client.close_writer().await;
        assert_eq!(wait_end(&mut child).await, Some(0));
    });
}

#[test]
fn many_starters_at_once_end_with_one_daemon() {
    run_test(async {
        let home = Rc::new(Home::new());
        let ctl = Ctl::new(home.clone());
        let mut running: Vec<_> = (0..STARTERS)
            .map(|_| ctl.stream(std::path::Path::new("/"), &["start"]))
            .collect();
        let mut ends = Vec::new();
        while let Some(starter) = running.pop() {
            ends.push(starter.finish().await);
        }
        let mut client = Client::connect_to(&home.socket()).await;
        let pid = u32::try_from(client.hello()["server"]["pid"].as_u64().unwrap()).unwrap();
        for end in &ends {
            end.expect(0);
        }
        let status = ctl.run(&["status", "--json"]).await.expect(0).json();
        assert_eq!(status["pid"], pid);
        client.ok("daemon/status", json!({})).await;
        let path = home.path();
        let daemons = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter(|entry| {
                let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).into_owned();
                line.contains("crystald") && line.contains(path.to_str().unwrap())
            });
        assert_eq!(daemons.count(), 1);
    });
}

#[test]
fn many_daemons_at_once_end_with_one() {
    run_test(async {
        let home = Rc::new(Home::new());
        let mut starters = tokio::task::JoinSet::new();
        for _ in 0..STARTERS {
            let mut child = spawn(&home, &[], &[]);
            starters.spawn(async move { child.wait().await.unwrap() });
        }
        let all_but_one = async {
            for _ in 1..STARTERS {
                let status = starters.join_next().await.unwrap().unwrap();
                assert_eq!(status.code(), Some(3));
            }
        };
        tokio::time::timeout(WAIT_LIMIT, all_but_one)
            .await
            .expect("one daemon is left");
        // The one that is left may still be on its way to its socket; a client waits for that.
        Ctl::new(home.clone()).run(&["start"]).await.expect(0);
        Client::connect_to(&home.socket())
            .await
            .ok("daemon/status", json!({}))
            .await;
    });
}
