//! What `kill -9` and damaged files may and may not take away.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use crystal_protocol::{
    event::Event,
    ids::ItemId,
    item::{Item, ItemBody, ToolCallStatus},
    turn::TurnReason,
};
use crystal_tests::{
    client::Client, daemon::Daemon, driving::user_texts, run_test, run_test_within,
    workspace::Workspace,
};
use serde_json::json;

/// Kills in the loop; each is a restart too.
const KILLS: u64 = 50;

/// Latest instant of a kill after a prompt was acknowledged, in microseconds.
const LATEST_KILL_MICROS: u64 = 60_000;

/// Bytes of the file that is written in every turn.
const FILE_BYTES: usize = 2_000;

/// Everything a client was told is on disk.
#[derive(Default)]
struct Promised {
    prompts: Vec<String>,
    items: HashMap<ItemId, Item>,
    decisions: Vec<String>,
}

impl Promised {
    fn note_events(&mut self, client: &Client, session: &str) {
        for seen in client.watched(session).events() {
            match &seen.event {
                Event::ItemCompleted { item } | Event::NoteAdded { item } => {
                    self.items.insert(item.id.clone(), item.clone());
                }
                Event::ItemDiscarded { item, .. } => drop(self.items.remove(item)),
                _ => {}
            }
        }
    }

    async fn check(&self, client: &mut Client, session: &str) {
        let items = client.items(session).await;
        let texts = user_texts(&items);
        for prompt in &self.prompts {
            let count = texts.iter().filter(|text| *text == prompt).count();
            assert_eq!(count, 1, "acknowledged prompt {prompt:?}");
        }
        let found: HashMap<&ItemId, &Item> = items.iter().map(|item| (&item.id, item)).collect();
        for (id, item) in &self.items {
            assert_eq!(found.get(id), Some(&item), "finished item {id}");
        }
        for item in &items {
            if let ItemBody::ToolCall(call) = &item.body {
                assert!(call.status.is_final(), "an open call is left: {call:?}");
            }
        }
        for id in &self.decisions {
            let again = json!({"session": session, "id": id, "decision": "deny"});
            let error = client.fails(-32005, "approval/respond", again).await;
            let data = error.data.unwrap().to_string();
            assert!(data.contains(r#""decision":"once""#), "{data}");
        }
    }
}

/// Numbers that differ from run to run; the seed is printed so that a failure can be told apart.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let seed = RandomState::new().hash_one(1);
        println!("seed {seed}");
        Self(seed | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn assert_whole(workspace: &Workspace, name: &str) {
    if workspace.has(name) {
        let text = workspace.read(name);
        let first = text.chars().next().expect("never an empty file");
        assert_eq!(
            text,
            first.to_string().repeat(FILE_BYTES),
            "{name} is damaged"
        );
    }
}

#[test]
fn kill_9_at_any_instant_loses_nothing_that_was_acknowledged() {
    run_test_within(Duration::from_secs(150), async {
        let mut dice = Dice::new();
        let mut daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        let free = client.create_full(&workspace).await;
        let asking = client.create(&workspace, json!({})).await;
        let (mut of_free, mut of_asking) = (Promised::default(), Promised::default());
        for round in 0..KILLS {
            let letter = char::from(b'a' + u8::try_from(round % 26).unwrap());
            let content = letter.to_string().repeat(FILE_BYTES);
            let upper = content.to_ascii_uppercase();
            client.attach(&free).await;
            client.attach(&asking).await;
            if round % 2 == 0 {
                let prompt = format!("write decided-{round}.txt: {content}");
                client.begin_turn(&asking, &prompt).await;
                of_asking.prompts.push(prompt);
                let approval = client.wait_approval(&asking).await;
                client.respond(&asking, approval.id.as_str(), "once").await;
                of_asking.decisions.push(approval.id.as_str().to_owned());
            }
            let prompt = format!(
                "run echo round {round}\nwrite shared.txt: {content}\nedit shared.txt: {content} => {upper}\nread shared.txt\nstream 200\nsay {round}"
            );
            client.submit(&free, &prompt).await;
            of_free.prompts.push(prompt);
            let instant = Duration::from_micros(dice.below(LATEST_KILL_MICROS));
            client.read_for(instant).await;
            daemon.kill9().await;
            client.wait_closed().await;
            of_free.note_events(&client, &free);
            of_asking.note_events(&client, &asking);

            daemon.restart().await;
            client = daemon.client().await;
            client.attach(&free).await;
            client.attach(&asking).await;
            of_free.check(&mut client, &free).await;
            of_asking.check(&mut client, &asking).await;
            let open = client.ok("approval/list", json!({})).await;
            assert_eq!(
                open["approvals"],
                json!([]),
                "a decided approval is open again"
            );
            assert_whole(&workspace, "shared.txt");
            assert_whole(&workspace, &format!("decided-{round}.txt"));
        }
        client.complete_turn(&free, "say usable").await;
        client.complete_turn(&asking, "say usable").await;
        client.assert_folded(&daemon, &free).await;
    });
}

#[test]
fn an_approval_that_was_open_is_open_again_and_its_answer_lets_the_turn_go_on() {
    run_test(async {
        let mut daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        let session = client.create(&workspace, json!({})).await;
        client.attach(&session).await;
        let turn = client
            .begin_turn(
                &session,
                "read README.md\nwrite made.txt: text\nsay finished",
            )
            .await;
        let approval = client.wait_approval(&session).await;
        let before = client.watched(&session).folded().clone();
        // Twice, since what was recovered must be recoverable.
        for _ in 0..2 {
            daemon.kill9().await;
            daemon.restart().await;
        }
        let mut client = daemon.client().await;
        // It is listed before anyone names its session: waiting sessions are loaded at the start.
        let listed = client.ok("approval/list", json!({})).await;
        assert_eq!(listed["approvals"][0]["id"], approval.id.as_str());
        let after = client.attach(&session).await.folded().clone();
        assert_eq!(after.approvals, std::slice::from_ref(&approval));
        assert_eq!(after.turn, before.turn);
        assert!(after.info.seq > before.info.seq);
        assert!(!workspace.has("made.txt"));
        client.respond(&session, approval.id.as_str(), "once").await;
        let end = client.wait_turn(&session, &turn).await;
        assert_eq!(end.reason, TurnReason::Completed);
        assert_eq!(workspace.read("made.txt"), "text");
        assert!(client.last_text(&session).await.contains("finished") || end.model_rounds > 2);
        client.wait_turn_end(&session).await;
        client.assert_folded(&daemon, &session).await;
    });
}

#[test]
fn the_approval_of_an_operators_call_is_gone_with_the_daemon() {
    run_test(async {
        let mut daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        let session = client.create(&workspace, json!({})).await;
        client.attach(&session).await;
        let call = json!({"session": session, "name": "write", "arguments": {"path": "a.txt", "content": "x"}});
        client.send("tool/call", call).await;
        client.wait_approval(&session).await;
        daemon.kill9().await;
        daemon.restart().await;
        let mut client = daemon.client().await;
        let shown = client.attach(&session).await.folded().clone();
        assert!(shown.approvals.is_empty());
        assert!(!workspace.has("a.txt"));
        let calls = client.calls(&session).await;
        assert!(
            calls
                .iter()
                .all(|call| call.status == ToolCallStatus::Cancelled),
            "{calls:?}"
        );
        client.complete_turn(&session, "say usable").await;
    });
}

#[test]
fn a_turn_that_ran_is_interrupted_and_its_queue_is_held() {
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
        let queued = client.submit(&session, "say queued").await["queued"]["id"].clone();
        daemon.kill9().await;
        daemon.restart().await;
        let mut client = daemon.client().await;
        let shown = client.attach(&session).await.folded().clone();
        assert!(shown.turn.is_none());
        assert_eq!(shown.queue.len(), 1);
        assert!(shown.queue[0].held);
        assert_eq!(shown.queue[0].id.as_str(), queued.as_str().unwrap());
        assert_eq!(
            client.wait_turn(&session, &turn).await.reason,
            TurnReason::Interrupted
        );
        let call = client.calls(&session).await.pop().unwrap();
        assert_eq!(call.status, ToolCallStatus::Cancelled);
        client.complete_turn(&session, "say next").await;
        let texts = user_texts(&client.items(&session).await);
        assert_eq!(texts[1..], ["say queued", "say next"]);
        client.assert_folded(&daemon, &session).await;
    });
}

#[test]
fn numbers_jump_at_a_restart_and_never_repeat() {
    run_test(async {
        let mut daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        client.attach(&session).await;
        let mut last = 0;
        for _ in 0..4 {
            client.complete_turn(&session, "say hello").await;
            client.wait_turn_end(&session).await;
            let known = client.watched(&session).clone();
            assert!(known.events()[0].seq > last);
            last = known.head();
            daemon.kill9().await;
            daemon.restart().await;
            client = daemon.client().await;
            let resumed = client.attach_after(&session, &known).await;
            // The old number is from before the restart, so there is a snapshot, and it is beyond that number.
            assert!(resumed.head() > last);
        }
    });
}

/// A session with some turns, the daemon killed: its id, its items and its two files.
async fn killed_session(
    daemon: &mut Daemon,
    workspace: &Workspace,
) -> (String, Vec<Item>, [std::path::PathBuf; 2]) {
    let mut client = daemon.client().await;
    let more = json!({"approval": "full", "title": "A title"});
    let session = client.create(workspace, more).await;
    client
        .complete_turn(&session, "read README.md\nsay one")
        .await;
    client.complete_turn(&session, "say two").await;
    let items = client.items(&session).await;
    client
        .ok("session/close", json!({"session": session}))
        .await;
    daemon.kill9().await;
    let file = |ending: &str| {
        daemon
            .home()
            .path()
            .join(format!("sessions/{session}.{ending}"))
    };
    let files = [file("log"), file("json")];
    assert!(files.iter().all(|file| file.is_file()), "{files:?}");
    (session, items, files)
}

#[test]
fn a_torn_last_record_is_dropped_with_a_note() {
    run_test(async {
        let mut daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let (session, items, [log, _]) = killed_session(&mut daemon, &workspace).await;
        let mut bytes = std::fs::read(&log).unwrap();
        let last = bytes[..bytes.len() - 1]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let torn = bytes[last..bytes.len() - (bytes.len() - last) / 2].to_vec();
        bytes.extend_from_slice(&torn);
        std::fs::write(&log, &bytes).unwrap();
        daemon.restart().await;
        let mut client = daemon.client().await;
        client.attach(&session).await;
        let after = client.items(&session).await;
        assert_eq!(after[..items.len()], items[..]);
        let notes = after[items.len()..]
            .iter()
            .filter(|item| matches!(item.body, ItemBody::Note { .. }));
        assert_eq!(notes.count(), 1, "{after:?}");
        client.complete_turn(&session, "say usable").await;
        let all = client.items(&session).await;
        daemon.restart().await;
        let mut client = daemon.client().await;
        assert_eq!(client.items(&session).await, all);
    });
}

#[test]
fn a_damaged_or_missing_head_is_rebuilt_from_the_log() {
    run_test(async {
        for damage in [Some("{\"format\": 1, gar"), Some(""), None] {
            let mut daemon = Daemon::start().await;
            let workspace = Workspace::new();
            let (session, items, [_, head]) = killed_session(&mut daemon, &workspace).await;
            match damage {
                Some(text) => std::fs::write(&head, text).unwrap(),
                None => std::fs::remove_file(&head).unwrap(),
            }
            daemon.restart().await;
            let mut client = daemon.client().await;
            let list = client.ok("session/list", json!({})).await;
            assert_eq!(list["sessions"][0]["id"], session.as_str());
            client.attach(&session).await;
            let after = client.items(&session).await;
            assert_eq!(after[..items.len()], items[..], "{damage:?}");
            let info = client.info(&session).await;
            assert_eq!(info["title"], "A title");
            assert_eq!(info["approval"], "full");
            client.complete_turn(&session, "say usable").await;
        }
    });
}

#[test]
fn when_nothing_can_be_read_the_files_stay_as_they_are() {
    run_test(async {
        let mut daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let (session, _, files) = killed_session(&mut daemon, &workspace).await;
        for file in &files {
            std::fs::write(file, "no longer a session\n").unwrap();
        }
        daemon.restart().await;
        let mut client = daemon.client().await;
        let list = client.ok("session/list", json!({})).await;
        assert_eq!(list["sessions"][0]["id"], session.as_str());
        assert_eq!(list["sessions"][0]["status"], "damaged");
        let named = json!({"session": session});
        assert!(client.call("session/attach", named).await.is_err());
        for file in &files {
            assert_eq!(
                std::fs::read_to_string(file).unwrap(),
                "no longer a session\n"
            );
        }
    });
}
