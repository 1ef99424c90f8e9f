//! Sessions as things on disk: create, list, read, change, close, delete, and what a restart keeps.

use crystal_protocol::item::{Item, ItemBody};
use crystal_tests::{
    daemon::{Daemon, Options},
    driving::user_texts,
    run_test,
    workspace::Workspace,
};
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
fn a_workspace_must_be_trusted() {
    run_test(async {
        let mut daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let inside = workspace.file("src");
        let mut client = daemon.client().await;
        let params = json!({"workspace": inside, "provider": "demo", "model": "demo:fast"});
        let error = client.fails(-32010, "session/create", params.clone()).await;
        let data = error.data.unwrap();
        assert_eq!(data["kind"], "workspaceNotTrusted");
        assert_eq!(data["root"], workspace.text_path());

        client.create(&workspace, json!({"trust": "session"})).await;
        client.fails(-32010, "session/create", params.clone()).await;
        client.create(&workspace, json!({"trust": true})).await;
        client.ok("session/create", params.clone()).await;
        daemon.restart().await;
        let mut client = daemon.client().await;
        client.ok("session/create", params.clone()).await;
        let of = json!({"workspace": inside});
        let status = client.ok("workspace/trustStatus", of.clone()).await;
        assert_eq!(
            status,
            json!({"root": workspace.text_path(), "trusted": true})
        );
        client.ok("workspace/untrust", of.clone()).await;
        client.fails(-32010, "session/create", params.clone()).await;
        client.ok("workspace/trust", of).await;
        client.ok("session/create", params).await;
    });
}

#[test]
fn trust_may_be_switched_off_by_configuration() {
    run_test(async {
        let config = json!({"workspaceTrust": false, "provider": "demo", "model": "demo:fast"});
        let options = Options {
            config: Some(config),
            ..Options::default()
        };
        let daemon = Daemon::start_with(options).await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        client
            .ok(
                "session/create",
                json!({"workspace": workspace.text_path()}),
            )
            .await;
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
fn items_are_paged_from_the_end() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        for index in 0..6 {
            client
                .complete_turn(&session, &format!("say number {index}"))
                .await;
        }
        let all = client.items(&session).await;
        assert_eq!(user_texts(&all).len(), 6);
        let mut paged: Vec<Item> = Vec::new();
        loop {
            let before = paged.first().map(|item| item.id.as_str().to_owned());
            let mut params = json!({"session": session, "limit": 5});
            if let Some(before) = before {
                params["before"] = before.into();
            }
            let page = client.ok("session/items", params).await;
            let mut items: Vec<Item> = serde_json::from_value(page["items"].clone()).unwrap();
            assert!(items.len() <= 5);
            items.append(&mut paged);
            paged = items;
            if page["hasMore"] == false {
                break;
            }
        }
        assert_eq!(paged, all);
        let attached = client
            .ok("session/attach", json!({"session": session, "items": 3}))
            .await;
        assert_eq!(attached["snapshot"]["items"].as_array().unwrap().len(), 3);
        assert_eq!(attached["snapshot"]["hasMore"], true);
    });
}

#[test]
fn a_long_field_is_cut_in_pages_and_read_whole_in_pieces() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        client
            .complete_turn(&session, "run yes äöü€ | head -n 40000")
            .await;
        let items = client.items(&session).await;
        let long = items
            .iter()
            .find(|item| matches!(item.body, ItemBody::ToolCall(_)))
            .unwrap();
        let whole = client
            .ok(
                "session/item",
                json!({"session": session, "id": long.id.as_str()}),
            )
            .await;
        let whole: Item = serde_json::from_value(whole["item"].clone()).unwrap();
        let field = crystal_protocol::item::ItemField::Output;
        let text = whole.field(field).unwrap().to_owned();
        if let Some(cut) = &long.cut {
            assert_eq!(cut[&field], text.len() as u64);
            assert!(
                text.ends_with(long.field(field).unwrap()),
                "the end is kept"
            );
        }
        let mut pieces = String::new();
        let mut offset = 0;
        loop {
            let params = json!({"session": session, "id": long.id.as_str(), "field": "output", "offset": offset, "limit": 10_001});
            let piece = client.ok("session/item", params).await;
            let data = piece["data"].as_str().unwrap();
            assert!(data.len() <= 10_001);
            pieces.push_str(data);
            match piece["nextOffset"].as_u64() {
                Some(next) => offset = next,
                None => break,
            }
        }
        assert_eq!(pieces, text);
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
