//! The queue: prompts that come while a turn runs.

use crystal_protocol::{item::ItemBody, turn::TurnReason};
use crystal_tests::{
    daemon::Daemon,
    driving::{submission, user_texts},
    run_test,
    workspace::Workspace,
};
use serde_json::{Value, json};

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
