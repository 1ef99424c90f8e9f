//! Approvals: what passes, what asks, what an answer covers.

use crystal_protocol::{
    approval::{Approval, DecidedVia, Decision, Grant, Preview},
    event::Event,
    item::{CallOutcome, ToolCallStatus},
    turn::TurnReason,
};
use crystal_tests::{client::Client, daemon::Daemon, run_test, workspace::Workspace};
use serde_json::json;

/// Begins a turn that must ask, and gives what it asks.
async fn ask(client: &mut Client, session: &str, prompt: &str) -> (String, Approval) {
    let turn = client.begin_turn(session, prompt).await;
    (turn, client.wait_approval(session).await)
}

async fn resolution(client: &mut Client, session: &str) -> (Decision, DecidedVia) {
    client
        .wait_some(session, |event| match event {
            Event::ApprovalResolved { decision, via, .. } => Some((*decision, *via)),
            _ => None,
        })
        .await
}

#[test]
fn each_mode_passes_what_it_says_and_asks_for_the_rest() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let outside = workspace.outside("beside.txt");
        std::fs::write(&outside, "beside").unwrap();
        let mut client = daemon.client().await;
        let read_outside = format!("read {}", outside.display());
        let write_outside = format!("write {}: x", workspace.outside("new.txt").display());
        for (mode, passes, asks) in [
            (
                "default",
                vec!["read README.md", "list .", "grep hello"],
                vec!["write a.txt: x", "run echo hi", &read_outside],
            ),
            (
                "edit",
                vec!["write a.txt: x", "edit README.md: Sample => Example"],
                vec!["run echo hi", &write_outside],
            ),
            (
                "full",
                vec!["write a.txt: x", "run echo hi > b.txt"],
                vec![write_outside.as_str()],
            ),
        ] {
            let session = client.create(&workspace, json!({"approval": mode})).await;
            client.attach(&session).await;
            for prompt in passes {
                let end = client.run_turn(&session, prompt).await;
                assert_eq!(end.reason, TurnReason::Completed, "{mode}: {prompt}");
                client.wait_turn_end(&session).await;
                let call = client.calls(&session).await.pop().unwrap();
                assert_eq!(
                    call.approval.unwrap().outcome,
                    CallOutcome::Allowed,
                    "{mode}: {prompt}"
                );
            }
            for prompt in asks {
                let (turn, approval) = ask(&mut client, &session, prompt).await;
                client.respond(&session, approval.id.as_str(), "deny").await;
                client.wait_turn(&session, &turn).await;
                let call = client.calls(&session).await.pop().unwrap();
                assert_eq!(call.status, ToolCallStatus::Rejected, "{mode}: {prompt}");
                assert_eq!(call.approval.unwrap().outcome, CallOutcome::Denied);
            }
            assert!(!workspace.outside("new.txt").exists());
        }
    });
}

#[test]
fn an_approval_shows_what_would_happen() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        let session = client.create(&workspace, json!({})).await;
        client.attach(&session).await;
        let (turn, edit) = ask(&mut client, &session, "edit notes/todo.txt: second => 2nd").await;
        let Some(Preview::Diff { diff }) = &edit.preview else {
            panic!("an edit shows a diff: {edit:?}");
        };
        assert!(diff.contains("-second") && diff.contains("+2nd"), "{diff}");
        assert_eq!(edit.offered, [Grant::Once, Grant::Session, Grant::Always]);
        assert!(edit.rules.session.is_some() && edit.rules.always.is_some());
        assert_eq!(
            client.watched(&session).folded().activity.kind,
            crystal_protocol::turn::ActivityKind::AwaitingApproval
        );
        assert_eq!(client.info(&session).await["status"], "waiting");
        let listed = client.ok("approval/list", json!({})).await;
        assert_eq!(listed["approvals"][0]["id"], edit.id.as_str());
        assert_eq!(listed["approvals"][0]["session"], session.as_str());
        client.respond(&session, edit.id.as_str(), "once").await;
        client.wait_turn(&session, &turn).await;
        assert_eq!(workspace.read("notes/todo.txt"), "first\n2nd\nthird\n");

        let (_, run) = ask(&mut client, &session, "run echo one && echo two | cat").await;
        let Some(Preview::Commands { commands }) = &run.preview else {
            panic!("a command shows its parts: {run:?}");
        };
        let texts: Vec<&str> = commands.iter().map(|part| part.text.as_str()).collect();
        assert_eq!(texts.join("\n"), "echo one && echo two | cat");
        client
            .ok("turn/interrupt", json!({"session": session}))
            .await;
    });
}

#[test]
fn once_covers_the_call_and_session_covers_the_rule_in_this_session() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        let session = client.create(&workspace, json!({})).await;
        client.attach(&session).await;
        let (turn, first) = ask(&mut client, &session, "run git status").await;
        client.respond(&session, first.id.as_str(), "once").await;
        client.wait_turn(&session, &turn).await;
        let (turn, second) = ask(&mut client, &session, "run git status").await;
        assert_ne!(first.id, second.id);
        client
            .respond(&session, second.id.as_str(), "session")
            .await;
        client.wait_turn(&session, &turn).await;
        client.complete_turn(&session, "run git status").await;
        let call = client.calls(&session).await.pop().unwrap();
        assert_eq!(call.status, ToolCallStatus::Succeeded);
        assert!(call.approval.unwrap().rule.is_some());
        // Another subcommand, a redirection and an assignment are not covered.
        for other in [
            "run git log",
            "run git status > out.txt",
            "run A=1 git status",
        ] {
            let (turn, approval) = ask(&mut client, &session, other).await;
            client.respond(&session, approval.id.as_str(), "deny").await;
            client.wait_turn(&session, &turn).await;
        }
        let other = client.create(&workspace, json!({})).await;
        client.attach(&other).await;
        let (turn, approval) = ask(&mut client, &other, "run git status").await;
        client.respond(&other, approval.id.as_str(), "deny").await;
        client.wait_turn(&other, &turn).await;
    });
}

#[test]
fn always_is_kept_over_a_restart_for_this_workspace() {
    run_test(async {
        let mut daemon = Daemon::start().await;
        let (workspace, elsewhere) = (Workspace::new(), Workspace::new());
        let mut client = daemon.client().await;
        let session = client.create(&workspace, json!({})).await;
        client.attach(&session).await;
        let (turn, approval) = ask(&mut client, &session, "run git status").await;
        client
            .respond(&session, approval.id.as_str(), "always")
            .await;
        client.wait_turn(&session, &turn).await;
        let stored =
            std::fs::read_to_string(daemon.home().path().join("permissions.json")).unwrap();
        assert!(stored.contains("git status"), "{stored}");
        daemon.restart().await;
        let mut client = daemon.client().await;
        let session = client.create(&workspace, json!({})).await;
        client.complete_turn(&session, "run git status").await;
        let call = client.calls(&session).await.pop().unwrap();
        assert_eq!(call.status, ToolCallStatus::Succeeded);
        let other = client.create(&elsewhere, json!({})).await;
        client.attach(&other).await;
        ask(&mut client, &other, "run git status").await;
    });
}

#[test]
fn a_denial_may_carry_a_message_for_the_model() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        let session = client.create(&workspace, json!({})).await;
        client.attach(&session).await;
        let (turn, approval) = ask(&mut client, &session, "write a.txt: x").await;
        let params = json!({"session": session, "id": approval.id.as_str(), "decision": "deny", "message": "use another name"});
        client.ok("approval/respond", params).await;
        let end = client.wait_turn(&session, &turn).await;
        assert_eq!(end.reason, TurnReason::Completed);
        assert_eq!(
            resolution(&mut client, &session).await,
            (Decision::Deny, DecidedVia::Client)
        );
        let call = client.calls(&session).await.pop().unwrap();
        assert_eq!(call.status, ToolCallStatus::Rejected);
        assert!(call.output.unwrap().contains("use another name"));
        assert!(!workspace.has("a.txt"));
        client.wait_turn_end(&session).await;
        client.assert_folded(&daemon, &session).await;
    });
}

#[test]
fn an_interrupt_cancels_an_open_approval() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        let session = client.create(&workspace, json!({})).await;
        client.attach(&session).await;
        let (turn, approval) = ask(&mut client, &session, "write a.txt: x").await;
        client
            .ok("turn/interrupt", json!({"session": session}))
            .await;
        assert_eq!(
            client.wait_turn(&session, &turn).await.reason,
            TurnReason::Interrupted
        );
        assert_eq!(
            resolution(&mut client, &session).await.1,
            DecidedVia::Cancelled
        );
        let params = json!({"session": session, "id": approval.id.as_str(), "decision": "once"});
        client.fails(-32005, "approval/respond", params).await;
        assert!(!workspace.has("a.txt"));
        client.assert_folded(&daemon, &session).await;
    });
}

#[test]
fn an_operators_call_asks_too_and_goes_with_its_connection() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        let session = client.create(&workspace, json!({})).await;
        client.attach(&session).await;
        let mut caller = daemon.client().await;
        let params = json!({"session": session, "name": "write", "arguments": {"path": "a.txt", "content": "x"}});
        let id = caller.send("tool/call", params.clone()).await;
        let approval = client.wait_approval(&session).await;
        assert!(approval.turn.is_none());
        client.respond(&session, approval.id.as_str(), "once").await;
        assert_eq!(caller.answer(id).await.unwrap()["status"], "succeeded");
        assert_eq!(workspace.read("a.txt"), "x");

        caller.send("tool/call", params).await;
        client.wait_approval(&session).await;
        drop(caller);
        loop {
            if resolution(&mut client, &session).await.1 == DecidedVia::Cancelled {
                break;
            }
        }
        client.complete_turn(&session, "say free again").await;
    });
}

#[test]
fn a_session_that_must_not_ask_denies_by_policy() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        for more in [json!({"asking": "deny"}), json!({"whenUnattended": "deny"})] {
            let session = client.create(&workspace, more).await;
            let end = client.complete_turn(&session, "write a.txt: x").await;
            assert_eq!(end.tool_calls, 1);
            let call = client.calls(&session).await.pop().unwrap();
            assert_eq!(call.status, ToolCallStatus::Rejected);
            assert!(!workspace.has("a.txt"));
        }
    });
}

#[test]
fn what_is_forbidden_is_refused_without_a_question_in_every_mode() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        workspace.write(".ssh/id_rsa", "secret");
        workspace.write("server.pem", "secret");
        let mut client = daemon.client().await;
        for mode in ["default", "full"] {
            let session = client.create(&workspace, json!({"approval": mode})).await;
            client.attach(&session).await;
            for (name, arguments) in [
                ("read", json!({"path": ".ssh/id_rsa"})),
                ("read", json!({"path": "server.pem"})),
                ("write", json!({"path": "server.pem", "content": "x"})),
                (
                    "read",
                    json!({"path": daemon.home().path().join("permissions.json")}),
                ),
            ] {
                let result = client.tool(&session, name, arguments.clone()).await;
                assert_eq!(
                    result["status"], "rejected",
                    "{mode} {name} {arguments}: {result}"
                );
                assert!(!result["output"].as_str().unwrap().contains("secret"));
            }
            assert!(client.watched(&session).folded().approvals.is_empty());
        }
        assert_eq!(workspace.read("server.pem"), "secret");
    });
}
