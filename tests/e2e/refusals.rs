//! Calls that are refused: by their parameters, their method, their caller.

use crystal_protocol::rpc::{Access, METHODS, Stage};
use crystal_tests::{client::Client, daemon::Daemon, run_test, workspace::Workspace};
use serde_json::json;

use crate::protocol::assert_alive;

#[test]
fn a_wrong_parameter_is_named() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let workspace = Workspace::new();
        let session = client.create_full(&workspace).await;
        for (method, params, field) in [
            ("session/create", json!({}), "workspace"),
            ("session/create", json!({"workspace": 5}), "workspace"),
            (
                "session/create",
                json!({"workspace": workspace.text_path(), "mode": "play"}),
                "mode",
            ),
            (
                "session/create",
                json!({"workspace": workspace.text_path(), "trust": "no"}),
                "trust",
            ),
            (
                "session/create",
                json!({"workspace": workspace.text_path(), "limits": {"modelCalls": "x"}}),
                "modelCalls",
            ),
            ("turn/submit", json!({"session": session}), "spans"),
            (
                "turn/submit",
                json!({"session": session, "spans": "x"}),
                "spans",
            ),
            (
                "turn/submit",
                json!({"session": session, "spans": [{"type": "text"}]}),
                "text",
            ),
            ("session/attach", json!({"session": 5}), "session"),
            (
                "session/attach",
                json!({"session": session, "after": -1}),
                "after",
            ),
            ("session/list", json!({"limit": "many"}), "limit"),
            (
                "approval/respond",
                json!({"session": session, "id": "x", "decision": "maybe"}),
                "decision",
            ),
            ("daemon/shutdown", json!({"mode": "softly"}), "mode"),
            (
                "tool/call",
                json!({"session": session, "name": "read", "arguments": 5}),
                "arguments",
            ),
        ] {
            let error = client.fails(-32602, method, params.clone()).await;
            assert!(
                error.message.contains(field),
                "{method} {params}: {}",
                error.message
            );
        }
        client.fails(-32602, "session/get", json!([session])).await;
        assert_alive(&mut client).await;
    });
}

#[test]
fn unknown_fields_are_ignored_and_unknown_methods_are_not() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        client
            .ok("daemon/status", json!({"later": {"version": 2}}))
            .await;
        for method in [
            "daemon/fly",
            "",
            "session",
            "session/create/x",
            "rpc.discover",
        ] {
            client.fails(-32601, method, json!({})).await;
        }
        let (id, line) = client.request("daemon/status", json!({}));
        client
            .send_line(
                line.replace(r#","params":{}"#, "")
                    .replace(r#""params":{},"#, ""),
            )
            .await;
        client.answer(id).await.unwrap();
    });
}

#[test]
fn methods_of_later_features_say_so() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        for method in METHODS.iter().filter(|m| m.stage == Stage::NotYet) {
            let error = client.fails(-32009, method.name, json!({})).await;
            assert_eq!(error.data.unwrap()["why"], "notYet", "{}", method.name);
        }
    });
}

#[test]
fn an_observer_may_look_and_nothing_else() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        let mut observer = Client::connect_as(&daemon, json!({"role": "observer"})).await;
        observer.attach(&session).await;
        for method in METHODS.iter().filter(|m| m.access == Access::Controllers) {
            let error = observer
                .fails(-32009, method.name, json!({"session": session}))
                .await;
            assert_eq!(error.data.unwrap()["why"], "observer", "{}", method.name);
        }
        client.complete_turn(&session, "say hello").await;
        observer.wait_turn_end(&session).await;
        observer.ok("session/list", json!({})).await;
        observer.ok("turn/wait", json!({"session": session})).await;
        observer
            .ok("session/items", json!({"session": session, "limit": 5}))
            .await;
    });
}

#[test]
fn errors_about_sessions_have_their_kinds() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let error = client
            .fails(-32002, "session/get", json!({"session": "nothing-like-it"}))
            .await;
        assert_eq!(error.data.unwrap()["kind"], "sessionNotFound");
        let session = client.create_full(&Workspace::new()).await;
        for (method, params) in [
            (
                "approval/respond",
                json!({"session": session, "id": "none", "decision": "once"}),
            ),
            ("turn/wait", json!({"session": session, "turn": "none"})),
            ("session/item", json!({"session": session, "id": "none"})),
            ("queue/remove", json!({"session": session, "id": "none"})),
        ] {
            let error = client.fails(-32006, method, params).await;
            let data = error.data.unwrap();
            assert_eq!(data["kind"], "notFound", "{method}");
            assert!(data["what"].is_string(), "{method}");
        }
    });
}
