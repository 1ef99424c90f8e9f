//! Turns: the demo commands, the queue, interrupts, limits and ends.

use crystal_protocol::{item::ToolCallStatus, turn::TurnReason};
use crystal_tests::{
    daemon::Daemon, driving::submission, home::is_alive, run_test, workspace::Workspace,
};
use serde_json::json;

#[test]
fn every_command_of_the_demo_model_does_its_work() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        let session = client.create_full(&workspace).await;
        client.attach(&session).await;
        let end = client
            .complete_turn(
                &session,
                "read README.md\nlist src\ngrep hello\nwrite made/new.txt: one line\nedit notes/todo.txt: second => SECOND\nrun echo printed\nsay the end",
            )
            .await;
        assert_eq!(end.tool_calls, 6);
        assert!(end.model_rounds >= 7, "{end:?}");
        let calls = client.calls(&session).await;
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["read", "list", "grep", "write", "edit", "bash"]);
        for call in &calls {
            assert_eq!(call.status, ToolCallStatus::Succeeded, "{call:?}");
        }
        let output = |index: usize| calls[index].output.clone().unwrap();
        assert!(output(0).contains("A small project."));
        assert!(output(1).contains("main.rs"));
        assert!(output(2).contains("src/main.rs"));
        assert!(output(5).contains("printed"));
        assert_eq!(calls[5].exit_code, Some(0));
        assert_eq!(workspace.read("made/new.txt"), "one line");
        assert_eq!(workspace.read("notes/todo.txt"), "first\nSECOND\nthird\n");
        client.wait_turn_end(&session).await;
        client.assert_folded(&daemon, &session).await;
    });
}

#[test]
fn said_text_streams_and_unknown_lines_are_echoed() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        client.attach(&session).await;
        client
            .complete_turn(&session, "say some words\nan unknown line\nstream 100")
            .await;
        client.wait_turn_end(&session).await;
        let items = client.items(&session).await;
        let texts: Vec<&str> = items
            .iter()
            .filter_map(crystal_protocol::view::item_text)
            .collect();
        let all = texts.join("\n");
        assert!(all.contains("some words"), "{all}");
        assert!(all.contains("an unknown line"), "{all}");
        let deltas =
            client.watched(&session).events().iter().filter(|seen| {
                matches!(seen.event, crystal_protocol::event::Event::ItemDelta { .. })
            });
        assert!(deltas.count() > 0);
        client.assert_folded(&daemon, &session).await;
    });
}

#[test]
fn failures_of_the_model_end_the_turn_with_their_kind() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        for kind in ["auth", "quota", "badRequest"] {
            let end = client.run_turn(&session, &format!("fail {kind}")).await;
            assert_eq!(end.reason, TurnReason::Error);
            assert_eq!(end.error.unwrap().kind, kind);
        }
        for (kind, reason) in [
            ("length", TurnReason::Length),
            ("contentFilter", TurnReason::ContentFilter),
            ("contextOverflow", TurnReason::ContextOverflow),
        ] {
            let end = client.run_turn(&session, &format!("fail {kind}")).await;
            assert_eq!(end.reason, reason, "{kind}");
        }
        client.complete_turn(&session, "say still here").await;
    });
}

#[test]
fn a_busy_session_rejects_when_asked_to_and_waits_hold_nothing_up() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        workspace.make_gate("gate");
        let mut client = daemon.client().await;
        let session = client.create_full(&workspace).await;
        client.attach(&session).await;
        client
            .begin_turn(&session, "run echo started; cat gate")
            .await;
        client.wait_delta(&session, "started").await;
        let waiting = client.send("turn/wait", json!({"session": session})).await;
        let mut reject = submission(&session, "say no");
        reject["whenBusy"] = "reject".into();
        let error = client.fails(-32003, "turn/submit", reject).await;
        assert_eq!(error.data.unwrap()["kind"], "sessionBusy");
        let call = json!({"session": session, "name": "read", "arguments": {"path": "README.md"}});
        client.fails(-32003, "tool/call", call).await;
        workspace.open_gate("gate").await;
        assert_eq!(client.answer(waiting).await.unwrap()["reason"], "completed");
        // With no turn running, the last one's end is kept.
        assert_eq!(
            client.ok("turn/wait", json!({"session": session})).await["reason"],
            "completed"
        );
    });
}

#[test]
fn an_empty_message_is_refused() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        client
            .fails(
                -32602,
                "turn/submit",
                json!({"session": session, "spans": []}),
            )
            .await;
        assert!(client.items(&session).await.is_empty());
    });
}

#[test]
fn an_interrupt_kills_the_whole_process_tree_and_keeps_what_was_printed() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        workspace.write(
            "tree.sh",
            "echo $$ > parent.pid\nsleep 1000 &\necho $! > child.pid\necho started\nwait\n",
        );
        let mut client = daemon.client().await;
        let session = client.create_full(&workspace).await;
        client.attach(&session).await;
        let turn = client.begin_turn(&session, "run bash tree.sh").await;
        let approval_or_start = client
            .wait_some(&session, |event| match event {
                crystal_protocol::event::Event::ApprovalRequested { approval } => {
                    Some(Some(approval.id.clone()))
                }
                crystal_protocol::event::Event::ItemDelta { delta, .. }
                    if delta.contains("started") =>
                {
                    Some(None)
                }
                _ => None,
            })
            .await;
        if let Some(id) = approval_or_start {
            client.respond(&session, id.as_str(), "once").await;
            client.wait_delta(&session, "started").await;
        }
        let pid = |name: &str| -> u32 { workspace.read(name).trim().parse().unwrap() };
        let pids = [pid("parent.pid"), pid("child.pid")];
        assert!(pids.iter().all(|pid| is_alive(*pid)));
        client
            .ok("turn/interrupt", json!({"session": session}))
            .await;
        assert_eq!(
            client.wait_turn(&session, &turn).await.reason,
            TurnReason::Interrupted
        );
        assert!(
            pids.iter().all(|pid| !is_alive(*pid)),
            "a process of the tree lives on"
        );
        let call = client.calls(&session).await.pop().unwrap();
        assert_eq!(call.status, ToolCallStatus::Cancelled);
        assert!(call.output.unwrap().contains("started"));
        client.complete_turn(&session, "say still here").await;
        client.assert_folded(&daemon, &session).await;
    });
}

#[test]
fn limits_end_a_turn() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        workspace.make_gate("gate");
        let mut client = daemon.client().await;
        for (limits, prompt, reason) in [
            (
                json!({"modelCalls": 2}),
                "list .\nlist .\nlist .\nlist .",
                TurnReason::ModelCallLimit,
            ),
            (
                json!({"toolCalls": 1}),
                "list .\nlist .\nlist .\nlist .",
                TurnReason::ToolCallLimit,
            ),
            (
                json!({"durationMs": 300}),
                "run cat gate",
                TurnReason::DurationLimit,
            ),
        ] {
            let more = json!({"approval": "full", "limits": limits});
            let session = client.create(&workspace, more).await;
            let end = client.run_turn(&session, prompt).await;
            assert_eq!(end.reason, reason);
            for call in client.calls(&session).await {
                assert!(call.status.is_final(), "{call:?}");
            }
        }
    });
}

#[test]
fn a_call_after_turn_completed_never_finds_the_session_busy() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        client.attach(&session).await;
        for _ in 0..30 {
            let mut params = submission(&session, "list .");
            params["whenBusy"] = "reject".into();
            client.ok("turn/submit", params).await;
            client.wait_turn_end(&session).await;
        }
    });
}
