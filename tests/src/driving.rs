//! What tests do with sessions, in a line each.

use crystal_protocol::{
    approval::Approval,
    event::Event,
    ids::Seq,
    item::{Item, ItemBody, ItemField, ToolCall},
    span::plain_text,
    turn::{TurnCompleted, TurnReason},
};
use serde_json::{Value, json};

use crate::{client::Client, daemon::Daemon, watched::assert_same_snapshot, workspace::Workspace};

impl Client {
    /// Makes a session with the instant demo model in a workspace that is trusted for this session; `more` replaces
    /// single parameters.
    pub async fn create(&mut self, workspace: &Workspace, more: Value) -> String {
        let mut params = json!({
            "workspace": workspace.text_path(), "provider": "demo", "model": "demo:fast", "trust": "session",
        });
        if let (Value::Object(params), Value::Object(more)) = (&mut params, more) {
            params.extend(more);
        }
        let answer = self.ok("session/create", params).await;
        answer["session"]["id"]
            .as_str()
            .expect("a session has an id")
            .to_owned()
    }

    /// Makes a session that runs everything without asking.
    pub async fn create_full(&mut self, workspace: &Workspace) -> String {
        self.create(workspace, json!({"approval": "full"})).await
    }

    /// Sends a text; gives the answer to `turn/submit`.
    pub async fn submit(&mut self, session: &str, text: &str) -> Value {
        self.ok("turn/submit", submission(session, text)).await
    }

    /// Sends a text, which must begin a turn; gives its id.
    pub async fn begin_turn(&mut self, session: &str, text: &str) -> String {
        let answer = self.submit(session, text).await;
        let turn = answer["turn"].as_str();
        turn.unwrap_or_else(|| panic!("no turn began: {answer}"))
            .to_owned()
    }

    /// Sends a text and waits for the turn's end.
    pub async fn run_turn(&mut self, session: &str, text: &str) -> TurnCompleted {
        let turn = self.begin_turn(session, text).await;
        self.wait_turn(session, &turn).await
    }

    /// Sends a text and waits for the turn's good end.
    pub async fn complete_turn(&mut self, session: &str, text: &str) -> TurnCompleted {
        let end = self.run_turn(session, text).await;
        assert_eq!(end.reason, TurnReason::Completed, "{end:?}");
        end
    }

    /// Waits for a turn's end with `turn/wait`.
    pub async fn wait_turn(&mut self, session: &str, turn: &str) -> TurnCompleted {
        let end = self
            .ok("turn/wait", json!({"session": session, "turn": turn}))
            .await;
        let end: TurnCompleted = serde_json::from_value(end).expect("the end of a turn");
        assert_eq!(end.turn.as_str(), turn);
        end
    }

    /// Waits for the event of a turn's end.
    pub async fn wait_turn_end(&mut self, session: &str) -> TurnCompleted {
        self.wait_some(session, |event| match event {
            Event::TurnCompleted(end) => Some(end.clone()),
            _ => None,
        })
        .await
    }

    /// Waits for the event of an approval.
    pub async fn wait_approval(&mut self, session: &str) -> Approval {
        self.wait_some(session, |event| match event {
            Event::ApprovalRequested { approval } => Some((**approval).clone()),
            _ => None,
        })
        .await
    }

    /// Waits until an open item has printed or written something that holds `text`. Arguments do not count: they name
    /// a command before it runs.
    pub async fn wait_delta(&mut self, session: &str, text: &str) {
        self.wait_for(session, |event| match event {
            Event::ItemDelta { field, delta, .. } => {
                *field != ItemField::Arguments && delta.contains(text)
            }
            _ => false,
        })
        .await;
    }

    /// Answers an approval.
    pub async fn respond(&mut self, session: &str, approval: &str, decision: &str) {
        let params = json!({"session": session, "id": approval, "decision": decision});
        self.ok("approval/respond", params).await;
    }

    /// All items of a session, oldest first, read by pages.
    pub async fn items(&mut self, session: &str) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        loop {
            let mut params = json!({"session": session, "limit": 500});
            if let Some(first) = items.first() {
                params["before"] = first.id.as_str().into();
            }
            let mut page = self.ok("session/items", params).await;
            let mut older: Vec<Item> =
                serde_json::from_value(page["items"].take()).expect("a page of items");
            assert!(
                !older.is_empty() || page["hasMore"] == false,
                "an empty page is the last"
            );
            older.append(&mut items);
            items = older;
            if page["hasMore"] == false {
                return items;
            }
        }
    }

    /// The tool calls of a session, oldest first.
    pub async fn calls(&mut self, session: &str) -> Vec<ToolCall> {
        tool_calls(&self.items(session).await)
    }

    /// The last text of the model.
    pub async fn last_text(&mut self, session: &str) -> String {
        let items = self.items(session).await;
        let texts = items.iter().rev().find_map(|item| match &item.body {
            ItemBody::AssistantMessage { text, .. } => Some(text.clone()),
            _ => None,
        });
        texts.expect("the model said something")
    }

    /// The session's info as `session/get` gives it.
    pub async fn info(&mut self, session: &str) -> Value {
        self.ok("session/get", json!({"session": session})).await["session"].take()
    }

    /// Runs a tool as the operator.
    pub async fn tool(&mut self, session: &str, name: &str, arguments: Value) -> Value {
        let params = json!({"session": session, "name": name, "arguments": arguments});
        self.ok("tool/call", params).await
    }

    /// Runs a tool as the operator; it must succeed. Gives its output.
    pub async fn tool_output(&mut self, session: &str, name: &str, arguments: Value) -> String {
        let result = self.tool(session, name, arguments).await;
        assert_eq!(result["status"], "succeeded", "{result}");
        output(&result)
    }

    /// Runs a tool as the operator; it must fail. Gives its output.
    pub async fn tool_failure(&mut self, session: &str, name: &str, arguments: Value) -> String {
        let result = self.tool(session, name, arguments).await;
        assert_eq!(result["status"], "failed", "{result}");
        output(&result)
    }

    /// Fails unless what this client folded is what a newcomer is shown.
    pub async fn assert_folded(&mut self, daemon: &Daemon, session: &str) {
        let mut fresh = daemon.client().await;
        fresh.attach(session).await;
        // The first attach is itself an event; the second moves the cursor and shows the state after it.
        let seq: Seq = fresh.attach(session).await.head();
        self.read_to(session, seq).await;
        fresh.read_to(session, self.watched(session).head()).await;
        assert_same_snapshot(
            self.watched(session).folded(),
            fresh.watched(session).folded(),
        );
    }
}

/// The parameters of `turn/submit` for a text.
pub fn submission(session: &str, text: &str) -> Value {
    json!({"session": session, "spans": [{"type": "text", "text": text}]})
}

/// The output in a result of `tool/call`.
pub fn output(result: &Value) -> String {
    result["output"]
        .as_str()
        .expect("a result has an output")
        .to_owned()
}

/// The tool calls among items.
pub fn tool_calls(items: &[Item]) -> Vec<ToolCall> {
    let call = |item: &Item| match &item.body {
        ItemBody::ToolCall(call) => Some(call.clone()),
        _ => None,
    };
    items.iter().filter_map(call).collect()
}

/// The texts of the user messages among items.
pub fn user_texts(items: &[Item]) -> Vec<String> {
    let text = |item: &Item| match &item.body {
        ItemBody::UserMessage { spans, .. } => Some(plain_text(spans)),
        _ => None,
    };
    items.iter().filter_map(text).collect()
}
