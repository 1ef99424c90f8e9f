//! Reading a transcript: pages of items, and long fields in pieces.

use crystal_protocol::item::{Item, ItemBody};
use crystal_tests::{daemon::Daemon, driving::user_texts, run_test, workspace::Workspace};
use serde_json::json;

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
