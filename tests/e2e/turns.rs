//! Turns: the demo commands, the queue, interrupts, limits and ends.

use crystal_protocol::{
    item::{ItemBody, ToolCallStatus},
    turn::TurnReason,
};
use crystal_tests::{
    daemon::Daemon,
    driving::{submission, user_texts},
    home::is_alive,
    run_test,
    workspace::Workspace,
};
use serde_json::{Value, json};

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
fn a_prompt_queued_in_a_tool_batch_joins_the_running_turn() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        workspace.make_gate("gate");
        let mut client = daemon.client().await;
        let session = client.create_full(&workspace).await;
        client.attach(&session).await;
        let turn = client
            .begin_turn(&session, "run echo started; cat gate")
            .await;
        client.wait_delta(&session, "started").await;
        let answer = client.submit(&session, "say second").await;
        assert_eq!(answer["queued"]["position"], 0);
        let third = client.submit(&session, "say third").await;
        assert_eq!(third["queued"]["position"], 1);
        let queue = client.ok("queue/list", json!({"session": session})).await;
        assert_eq!(queue["queue"].as_array().unwrap().len(), 2);
        assert_eq!(queue["queue"][0]["held"], false);
        workspace.open_gate("gate").await;
        let queued = json!({"session": session, "queued": answer["queued"]["id"]});
        let end = client.ok("turn/wait", queued).await;
        assert_eq!(end["turn"], turn.as_str());
        assert_eq!(end["reason"], "completed");
        let items = client.items(&session).await;
        assert_eq!(
            user_texts(&items),
            ["run echo started; cat gate", "say second", "say third"]
        );
        for item in &items {
            if let ItemBody::UserMessage { .. } = item.body {
                assert_eq!(item.turn.as_ref().unwrap().as_str(), turn);
            }
        }
        let ids: Vec<Value> = items
            .iter()
            .filter_map(|item| match &item.body {
                ItemBody::UserMessage { queued, .. } => {
                    queued.as_ref().map(|id| id.as_str().into())
                }
                _ => None,
            })
            .collect();
        assert_eq!(
            ids,
            [
                answer["queued"]["id"].clone(),
                third["queued"]["id"].clone()
            ]
        );
        client.wait_turn_end(&session).await;
        client.assert_folded(&daemon, &session).await;
    });
}

#[test]
fn the_queue_is_edited_and_prompts_are_taken_back() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        workspace.make_gate("gate");
        let mut client = daemon.client().await;
        let session = client.create_full(&workspace).await;
        client.attach(&session).await;
        let turn = client
            .begin_turn(&session, "run echo started; cat gate")
            .await;
        client.wait_delta(&session, "started").await;
        let one = client.submit(&session, "say one").await["queued"]["id"].clone();
        let two = client.submit(&session, "say two").await["queued"]["id"].clone();
        let edit = json!({"session": session, "id": one, "spans": [{"type": "text", "text": "say changed"}]});
        let queue = client.ok("queue/edit", edit).await;
        assert_eq!(queue["queue"][0]["spans"][0]["text"], "say changed");
        let queue = client
            .ok("queue/remove", json!({"session": session, "id": two}))
            .await;
        assert_eq!(queue["queue"].as_array().unwrap().len(), 1);
        workspace.open_gate("gate").await;
        client.wait_turn(&session, &turn).await;
        let items = client.items(&session).await;
        assert_eq!(user_texts(&items)[1..], ["say changed"]);
    });
}

#[test]
fn queued_prompts_are_held_after_an_interrupt_and_sent_before_the_next_prompt() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        workspace.make_gate("gate");
        let mut client = daemon.client().await;
        let session = client.create_full(&workspace).await;
        client.attach(&session).await;
        let turn = client
            .begin_turn(&session, "run echo started; cat gate")
            .await;
        client.wait_delta(&session, "started").await;
        client.submit(&session, "say queued").await;
        let answer = client
            .ok("turn/interrupt", json!({"session": session}))
            .await;
        assert_eq!(answer["interrupted"], true);
        let end = client.wait_turn(&session, &turn).await;
        assert_eq!(end.reason, TurnReason::Interrupted);
        let queue = client.ok("queue/list", json!({"session": session})).await;
        assert_eq!(queue["queue"][0]["held"], true);
        client.complete_turn(&session, "say next").await;
        let texts = user_texts(&client.items(&session).await);
        assert_eq!(texts[1..], ["say queued", "say next"]);
        let queue = client.ok("queue/list", json!({"session": session})).await;
        assert_eq!(queue["queue"], json!([]));
        let idle = client
            .ok("turn/interrupt", json!({"session": session}))
            .await;
        assert_eq!(idle["interrupted"], false);
        client.assert_folded(&daemon, &session).await;
    });
}

#[test]
fn an_interrupt_may_send_the_queue_and_so_may_queue_send() {
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
        let queued = client.submit(&session, "say queued").await["queued"]["id"].clone();
        let params = json!({"session": session, "thenSendQueue": true});
        client.ok("turn/interrupt", params).await;
        let of_queued = json!({"session": session, "queued": queued});
        let end = client.ok("turn/wait", of_queued).await;
        assert_eq!(end["reason"], "completed");

        client
            .begin_turn(&session, "run echo again; cat gate")
            .await;
        client.wait_delta(&session, "again").await;
        let queued = client.submit(&session, "say held").await["queued"]["id"].clone();
        client
            .ok("turn/interrupt", json!({"session": session}))
            .await;
        client.ok("turn/wait", json!({"session": session})).await;
        client.ok("queue/send", json!({"session": session})).await;
        let end = client
            .ok("turn/wait", json!({"session": session, "queued": queued}))
            .await;
        assert_eq!(end["reason"], "completed");
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

#[test]
fn calls_that_name_one_session_begin_in_the_order_sent() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        let mut ids = Vec::new();
        for index in 0..20 {
            let text = format!("say {index}");
            ids.push(
                client
                    .send("turn/submit", submission(&session, &text))
                    .await,
            );
        }
        for id in ids {
            client.answer(id).await.unwrap();
        }
        loop {
            client.ok("turn/wait", json!({"session": session})).await;
            let queue = client.ok("queue/list", json!({"session": session})).await;
            if queue["queue"] == json!([]) && client.info(&session).await["status"] == "idle" {
                break;
            }
        }
        let expected: Vec<String> = (0..20).map(|index| format!("say {index}")).collect();
        assert_eq!(user_texts(&client.items(&session).await), expected);
    });
}
