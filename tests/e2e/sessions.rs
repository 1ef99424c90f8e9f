//! Sessions as things on disk: create, list, read, change, close, delete, and what a restart keeps.

use crystal_tests::{daemon::Daemon, run_test, workspace::Workspace};
use serde_json::{Value, json};

#[test]
fn a_new_session_shows_what_was_asked_for() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        let more =
            json!({"approval": "edit", "mode": "plan", "title": "A title", "model": "demo:text"});
        let session = client.create(&workspace, more).await;
        let info = client.info(&session).await;
        assert_eq!(info["id"], session.as_str());
        assert_eq!(info["workspace"], workspace.text_path());
        for (field, value) in [
            ("approval", "edit"),
            ("mode", "plan"),
            ("title", "A title"),
            ("provider", "demo"),
            ("model", "demo:text"),
            ("status", "idle"),
            ("promptSet", "default"),
            ("thinking", "default"),
        ] {
            assert_eq!(info[field], value, "{field}");
        }
        assert_eq!(info["imageInput"], false);
        assert_eq!(info["live"], true);
        assert_eq!(info["turns"], 0);
    });
}

#[test]
fn bad_choices_are_refused_at_creation() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        for more in [
            json!({"workspace": "/no/such/directory"}),
            json!({"workspace": workspace.file("README.md")}),
            json!({"provider": "nobody"}),
            json!({"model": "no-such-model"}),
            json!({"disableTools": ["no-such-tool"]}),
        ] {
            let mut params = json!({"workspace": workspace.text_path(), "provider": "demo", "model": "demo:fast", "trust": true});
            params
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            let error = client
                .call("session/create", params.clone())
                .await
                .unwrap_err();
            assert_ne!(error.code, -32603, "{params} {error:?}");
        }
        let list = client.ok("session/list", json!({})).await;
        assert_eq!(list["sessions"], json!([]));
    });
}

#[test]
fn sessions_are_listed_newest_first_by_workspace_and_by_page() {
    run_test(async {
        let daemon = Daemon::start().await;
        let (here, there) = (Workspace::new(), Workspace::new());
        let mut client = daemon.client().await;
        let mut made = Vec::new();
        for index in 0..5 {
            let workspace = if index == 2 { &there } else { &here };
            let session = client.create_full(workspace).await;
            client.complete_turn(&session, "say hello").await;
            made.push(session);
        }
        let ids = |list: &Value| -> Vec<String> {
            let sessions = list["sessions"].as_array().unwrap();
            sessions
                .iter()
                .map(|s| s["id"].as_str().unwrap().to_owned())
                .collect()
        };
        let all = client.ok("session/list", json!({})).await;
        let newest_first: Vec<String> = made.iter().rev().cloned().collect();
        assert_eq!(ids(&all), newest_first);
        assert_eq!(
            ids(&client.ok("session/list", json!({"all": true})).await),
            newest_first
        );
        let only = client
            .ok("session/list", json!({"workspace": there.text_path()}))
            .await;
        assert_eq!(ids(&only), [made[2].clone()]);

        let mut paged = Vec::new();
        let mut params = json!({"limit": 2});
        loop {
            let page = client.ok("session/list", params.clone()).await;
            assert!(ids(&page).len() <= 2);
            paged.extend(ids(&page));
            if page["next"].is_null() {
                break;
            }
            params["cursor"] = page["next"].clone();
        }
        assert_eq!(paged, newest_first);
    });
}

#[test]
fn a_unique_prefix_names_a_session_and_an_ambiguous_one_does_not() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        let session = client.create_full(&workspace).await;
        let short = json!({"session": &session[..session.len() - 1]});
        let found = client.ok("session/get", short).await;
        assert_eq!(found["session"]["id"], session.as_str());
        // Fewer than four characters never name a session.
        client
            .fails(-32002, "session/get", json!({"session": &session[..3]}))
            .await;
        let mut ids = vec![session];
        // Two of 16^4 + 1 ids share four characters at the latest; ids that begin with a time do so at once.
        let shared = loop {
            let next = client.create_full(&workspace).await;
            let twin = ids.iter().any(|id| id[..4] == next[..4]);
            ids.push(next.clone());
            if twin {
                break Some(next);
            }
            if ids.len() == 64 {
                break None;
            }
        };
        if let Some(next) = shared {
            let error = client
                .fails(-32002, "session/get", json!({"session": &next[..4]}))
                .await;
            assert_eq!(error.data.unwrap()["kind"], "sessionAmbiguous");
        }
    });
}

#[test]
fn settings_change_by_configure_and_some_not_while_a_turn_runs() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        workspace.make_gate("gate");
        let other = Workspace::new();
        let mut client = daemon.client().await;
        let session = client.create_full(&workspace).await;
        client.attach(&session).await;
        let set = |more: Value| {
            let mut params = json!({"session": session});
            params
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            params
        };
        let changed = client
            .ok(
                "session/configure",
                set(json!({"title": "T", "thinking": "high", "model": "demo:text"})),
            )
            .await;
        assert_eq!(changed["session"]["title"], "T");
        assert_eq!(changed["session"]["thinking"], "high");
        assert_eq!(changed["session"]["model"], "demo:text");
        client
            .ok(
                "session/configure",
                set(json!({"addDirectories": [other.text_path()]})),
            )
            .await;
        let info = client.info(&session).await;
        assert_eq!(info["addDirectories"], json!([other.text_path()]));

        let turn = client
            .begin_turn(&session, "run echo started; cat gate")
            .await;
        client.wait_delta(&session, "started").await;
        for refused in [
            json!({"model": "demo:fast"}),
            json!({"provider": "demo"}),
            json!({"thinking": "low"}),
            json!({"workspace": other.text_path()}),
        ] {
            client
                .fails(-32003, "session/configure", set(refused))
                .await;
        }
        for taken in [
            json!({"title": "U"}),
            json!({"approval": "default"}),
            json!({"mode": "plan"}),
            json!({"removeDirectories": [other.text_path()]}),
        ] {
            client.ok("session/configure", set(taken)).await;
        }
        workspace.open_gate("gate").await;
        client.wait_turn(&session, &turn).await;
        client.assert_folded(&daemon, &session).await;
        let folded = client.watched(&session).folded();
        assert_eq!(folded.info.title, "U");
        assert!(folded.info.add_directories.is_empty());
    });
}

#[test]
fn a_closed_session_is_saved_and_loaded_by_the_first_call_that_names_it() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        client.attach(&session).await;
        client.complete_turn(&session, "say before").await;
        let before = client.items(&session).await;
        client
            .ok("session/close", json!({"session": session}))
            .await;
        client
            .wait_for(&session, |event| {
                matches!(event, crystal_protocol::event::Event::SessionClosed { .. })
            })
            .await;
        assert_eq!(client.info(&session).await["status"], "saved");
        assert_eq!(client.info(&session).await["live"], false);
        assert_eq!(client.items(&session).await, before);
        assert_eq!(client.info(&session).await["live"], true);
        client.complete_turn(&session, "say after").await;
    });
}

#[test]
fn a_deleted_session_is_gone() {
    run_test(async {
        let mut daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        client.complete_turn(&session, "say hello").await;
        client
            .ok("session/delete", json!({"session": session}))
            .await;
        let named = json!({"session": session});
        client.fails(-32002, "session/get", named.clone()).await;
        client.fails(-32002, "session/attach", named.clone()).await;
        let file = |ending: &str| {
            daemon
                .home()
                .path()
                .join(format!("sessions/{session}.{ending}"))
        };
        assert!(!file("log").exists() && !file("json").exists());
        daemon.restart().await;
        let mut client = daemon.client().await;
        client.fails(-32002, "session/get", named).await;
    });
}

#[test]
fn a_restart_keeps_everything() {
    run_test(async {
        let mut daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        let session = client
            .create(&workspace, json!({"approval": "full", "title": "Kept"}))
            .await;
        client
            .complete_turn(&session, "read README.md\nwrite a.txt: text\nsay done")
            .await;
        client.run_turn(&session, "fail auth").await;
        let before = (client.items(&session).await, client.info(&session).await);
        daemon.terminate();
        assert!(daemon.wait_exit().await.success());
        daemon.restart().await;
        let mut client = daemon.client().await;
        let saved = client.info(&session).await;
        assert_eq!(saved["status"], "saved");
        for field in [
            "id",
            "title",
            "workspace",
            "approval",
            "model",
            "turns",
            "createdAt",
        ] {
            assert_eq!(saved[field], before.1[field], "{field}");
        }
        assert_eq!(client.items(&session).await, before.0);
        client.complete_turn(&session, "say again").await;
        let head = client.info(&session).await["seq"].as_u64().unwrap();
        assert!(
            head > before.1["seq"].as_u64().unwrap(),
            "numbers never repeat"
        );
    });
}
