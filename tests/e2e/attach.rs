//! Several clients on one session: the same events, the same numbers, the same state.

use crystal_protocol::{
    event::Event,
    item::{ItemBody, ToolCallStatus},
};
use crystal_tests::{
    client::Client, daemon::Daemon, run_test, watched::essence, workspace::Workspace,
};
use serde_json::json;

const TASK: &str =
    "read README.md\nwrite made.txt: some text\nrun echo one; echo two\nstream 50\nsay done";

#[test]
fn watchers_and_sender_see_the_same_events_under_the_same_numbers() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut sender = daemon.client().await;
        let session = sender.create_full(&workspace).await;
        let (mut one, mut two) = (daemon.client().await, daemon.client().await);
        sender.attach(&session).await;
        one.attach(&session).await;
        let from = two.attach(&session).await.head();
        sender.begin_turn(&session, TASK).await;
        for client in [&mut sender, &mut one, &mut two] {
            client.wait_turn_end(&session).await;
            client.assert_folded(&daemon, &session).await;
        }
        let upto = two.watched(&session).head();
        let of = |client: &Client| {
            let mut events = essence(client.watched(&session).events());
            events.retain(|(seq, _)| *seq > from && *seq <= upto);
            events
        };
        sender.read_to(&session, upto).await;
        one.read_to(&session, upto).await;
        assert_eq!(of(&one), of(&two));
        assert_eq!(of(&sender), of(&two));
        assert_eq!(workspace.read("made.txt"), "some text");
    });
}

#[test]
fn a_newcomer_sees_a_waiting_approval_answers_it_and_a_second_answer_is_told_the_first() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut one = daemon.client().await;
        let session = one.create(&workspace, json!({})).await;
        let mut two = daemon.client().await;
        one.attach(&session).await;
        two.attach(&session).await;
        one.begin_turn(&session, "write made.txt: hello").await;
        let approval = one.wait_approval(&session).await;
        assert_eq!(approval.tool, "write");
        assert_eq!(two.wait_approval(&session).await, approval);

        let mut third = daemon.client().await;
        let answerer = third.connection().to_owned();
        let shown = third.attach(&session).await.folded().clone();
        assert_eq!(shown.approvals, std::slice::from_ref(&approval));
        assert!(shown.turn.is_some());
        assert!(!workspace.has("made.txt"));
        third.respond(&session, approval.id.as_str(), "once").await;
        let answer = json!({"session": session, "id": approval.id.as_str(), "decision": "deny"});
        let late = two.fails(-32005, "approval/respond", answer.clone()).await;
        let data = late.data.unwrap();
        assert_eq!(data["kind"], "alreadyResolved");
        assert!(data.to_string().contains(r#""decision":"once""#), "{data}");

        for client in [&mut one, &mut two, &mut third] {
            let by = client
                .wait_some(&session, |event| match event {
                    Event::ApprovalResolved { by, .. } => Some(by.clone()),
                    _ => None,
                })
                .await;
            assert_eq!(by.unwrap().connection.as_str(), answerer);
            client.wait_turn_end(&session).await;
            client.assert_folded(&daemon, &session).await;
        }
        assert_eq!(workspace.read("made.txt"), "hello");
        // Also after the turn.
        one.fails(-32005, "approval/respond", answer).await;
    });
}

#[test]
fn a_client_that_was_cut_off_gets_exactly_what_it_missed() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut stays = daemon.client().await;
        let session = stays.create_full(&workspace).await;
        stays.attach(&session).await;
        let mut leaves = daemon.client().await;
        leaves.attach(&session).await;
        stays.complete_turn(&session, "say one").await;
        leaves.wait_turn_end(&session).await;
        let known = leaves.watched(&session).clone();
        drop(leaves);
        stays.complete_turn(&session, TASK).await;
        stays.wait_turn_end(&session).await;
        stays.wait_turn_end(&session).await;

        let mut back = daemon.client().await;
        back.attach_after(&session, &known).await;
        back.wait_turn_end(&session).await;
        back.assert_folded(&daemon, &session).await;
        let upto = back.watched(&session).head();
        stays.read_to(&session, upto).await;
        let missed = |client: &Client| {
            let mut events = essence(client.watched(&session).events());
            events.retain(|(seq, _)| *seq > known.head() && *seq <= upto);
            events
        };
        assert_eq!(missed(&back), missed(&stays));
        assert_eq!(
            back.watched(&session).events()[0].first_seq,
            known.head() + 1
        );
    });
}

#[test]
fn a_number_that_cannot_be_gone_on_from_gets_a_snapshot() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        client.complete_turn(&session, "say one").await;
        let above = json!({"session": session, "after": 9_000_000_000_u64});
        let answer = client.ok("session/attach", above).await;
        assert!(answer["snapshot"].is_object());
        let head = answer["seq"].clone();
        let at_head = json!({"session": session, "after": head});
        let answer = client.ok("session/attach", at_head).await;
        assert!(
            answer
                .get("snapshot")
                .is_none_or(serde_json::Value::is_null)
        );
    });
}

#[test]
fn attaching_twice_moves_the_cursor_and_doubles_nothing() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        client.attach(&session).await;
        let before = client.watched(&session).clone();
        client.complete_turn(&session, "say one").await;
        client.wait_turn_end(&session).await;
        let first = client.watched(&session).clone();
        client.attach_after(&session, &before).await;
        client.read_to(&session, first.head()).await;
        let mut again = essence(client.watched(&session).events());
        again.retain(|(seq, _)| *seq <= first.head());
        assert_eq!(again, essence(first.events()));
        // The continuity check of the client fails when an event comes twice.
        client.complete_turn(&session, "say two").await;
        client.wait_turn_end(&session).await;
        client.wait_turn_end(&session).await;
        client.assert_folded(&daemon, &session).await;
        let clients = &client.watched(&session).folded().clients;
        let own = clients
            .iter()
            .filter(|c| c.connection.as_str() == client.connection());
        assert_eq!(own.count(), 1);
    });
}

#[test]
fn detaching_ends_the_events_and_is_told_to_the_others() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut stays = daemon.client().await;
        let session = stays.create_full(&Workspace::new()).await;
        stays.attach(&session).await;
        let mut leaves = daemon.client().await;
        leaves.attach(&session).await;
        stays
            .wait_for(&session, |event| {
                matches!(event, Event::ClientAttached { .. })
            })
            .await;
        leaves
            .ok("session/detach", json!({"session": session}))
            .await;
        stays
            .wait_for(&session, |event| {
                matches!(event, Event::ClientDetached { .. })
            })
            .await;
        let seen = leaves.watched(&session).head();
        stays.complete_turn(&session, "say one").await;
        leaves.ok("daemon/status", json!({})).await;
        assert_eq!(leaves.watched(&session).head(), seen);
    });
}

#[test]
fn closing_every_client_changes_nothing_in_the_session() {
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
        drop(client);
        let mut later = daemon.client().await;
        let turn = later.attach(&session).await.folded().turn.clone().unwrap();
        workspace.open_gate("gate").await;
        let end = later.wait_turn(&session, turn.id.as_str()).await;
        assert_eq!(end.reason, crystal_protocol::turn::TurnReason::Completed);
    });
}

#[test]
fn a_client_that_attaches_in_mid_turn_sees_what_has_streamed() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        workspace.make_gate("gate");
        let mut first = daemon.client().await;
        let session = first.create_full(&workspace).await;
        first.attach(&session).await;
        first
            .begin_turn(&session, "run echo started; cat gate; echo finished")
            .await;
        first.wait_delta(&session, "started").await;
        let mut second = daemon.client().await;
        let shown = second.attach(&session).await.folded().clone();
        let open = shown.items.last().unwrap();
        let ItemBody::ToolCall(call) = &open.body else {
            panic!("the last item is the call: {open:?}");
        };
        assert_eq!(call.status, ToolCallStatus::Running);
        assert!(
            call.output
                .as_deref()
                .unwrap_or_default()
                .contains("started")
        );
        workspace.open_gate("gate").await;
        for client in [&mut first, &mut second] {
            client.wait_turn_end(&session).await;
            client.assert_folded(&daemon, &session).await;
        }
    });
}

#[test]
fn the_answer_to_an_attach_comes_before_the_first_event_in_a_flood_too() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut sender = daemon.client().await;
        let session = sender.create_full(&Workspace::new()).await;
        let turn = sender.begin_turn(&session, "stream 20000").await;
        // The client's `attach` fails when an event comes first.
        let mut clients = Vec::new();
        for _ in 0..10 {
            let mut client = daemon.client().await;
            client.attach(&session).await.forget_deltas();
            clients.push(client);
        }
        sender.wait_turn(&session, &turn).await;
        for client in &mut clients {
            client.assert_folded(&daemon, &session).await;
        }
    });
}

#[test]
fn an_attach_within_a_batch_is_answered_before_its_events() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        let (_, attach) = client.request("session/attach", json!({"session": session}));
        let (_, status) = client.request("daemon/status", json!({}));
        let before = client
            .next_other_after(format!("[{attach},{status}]"))
            .await;
        assert_eq!(before.as_array().unwrap().len(), 2);
        client.complete_turn(&session, "say one").await;
        client.wait_turn_end(&session).await;
    });
}

#[test]
fn a_subscriber_of_the_daemon_hears_of_sessions() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        client.ok("daemon/subscribe", json!({})).await;
        let session = client.create_full(&Workspace::new()).await;
        let added = client.next_notification().await;
        assert_eq!(added["type"], "sessionAdded");
        assert_eq!(added["session"]["id"], session.as_str());
        client
            .ok("session/delete", json!({"session": session}))
            .await;
        loop {
            let event = client.next_notification().await;
            if event["type"] == "sessionRemoved" {
                assert_eq!(event["id"], session.as_str());
                break;
            }
            assert_eq!(event["type"], "sessionChanged");
        }
    });
}
