//! The openai adapter against a mock server that looks at every request.

use crystal_protocol::{approval::Approval, item::ToolCallStatus, turn::TurnReason};
use crystal_tests::{
    client::Client,
    daemon::{Daemon, Options},
    model_server::{Answer, ModelServer, chat},
    run_test,
    workspace::Workspace,
};
use serde_json::{Value, json};

pub(crate) const TEXT: &str = include_str!("../fixtures/chat/text.sse");
const TOOL: &str = include_str!("../fixtures/chat/tool-in-pieces.sse");
const PARALLEL: &str = include_str!("../fixtures/chat/parallel-tools.sse");

/// What `text.sse` says.
pub(crate) const SAID: &str = "The file says: grüß dich – ✓";

/// A daemon whose model is a mock server, and a session that asks nothing.
pub(crate) struct Setup {
    pub(crate) server: ModelServer,
    pub(crate) daemon: Daemon,
    pub(crate) workspace: Workspace,
    pub(crate) client: Client,
    pub(crate) session: String,
}

impl Setup {
    pub(crate) async fn new(answers: Vec<Answer>) -> Self {
        Self::with(answers, json!({"approval": "full"})).await
    }

    async fn with(answers: Vec<Answer>, more: Value) -> Self {
        let server = ModelServer::start(answers).await;
        let options = Options {
            providers: Some(server.providers()),
            ..Options::default()
        };
        let daemon = Daemon::start_with(options).await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        let mut params = json!({"provider": "mock", "model": "m"});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let session = client.create(&workspace, params).await;
        client.attach(&session).await;
        Self {
            server,
            daemon,
            workspace,
            client,
            session,
        }
    }

    /// The end of a turn, by its event, so that all events of the turn have been seen.
    pub(crate) async fn turn(&mut self) -> crystal_protocol::turn::TurnCompleted {
        self.client
            .begin_turn(&self.session, "look at the file")
            .await;
        self.client.wait_turn_end(&self.session).await
    }
}

fn messages(server: &ModelServer, request: usize) -> Vec<Value> {
    server.requests()[request].body["messages"]
        .as_array()
        .unwrap()
        .clone()
}

#[test]
fn a_task_with_tool_calls_runs_through_however_the_body_is_cut() {
    run_test(async {
        for pieces in [usize::MAX, 1, 7, 4096] {
            let write = chat::calls(&[(
                "call_w",
                "write",
                json!({"path": "made.txt", "content": "made"}),
            )]);
            let script =
                [TOOL, PARALLEL, &write, TEXT].map(|body| Answer::sse(body).in_pieces(pieces));
            let mut setup = Setup::new(script.to_vec()).await;
            let end = setup.turn().await;
            assert_eq!(end.reason, TurnReason::Completed, "{end:?}");
            assert_eq!((end.model_rounds, end.tool_calls), (4, 4));
            assert_eq!(setup.client.last_text(&setup.session).await, SAID);
            let calls = setup.client.calls(&setup.session).await;
            assert!(
                calls
                    .iter()
                    .all(|call| call.status == ToolCallStatus::Succeeded),
                "{calls:?}"
            );
            assert_eq!(setup.workspace.read("made.txt"), "made");
            assert_eq!(end.usage.last.input, 412);
            assert_eq!(end.usage.last.cached, 256);
            assert_eq!(end.usage.context_window, 128_000);

            let result = messages(&setup.server, 1).pop().unwrap();
            assert_eq!(result["role"], "tool");
            assert_eq!(result["tool_call_id"], "call_Pq7mReadOne");
            assert!(
                result["content"]
                    .as_str()
                    .unwrap()
                    .contains("A small project.")
            );
            let results = messages(&setup.server, 2);
            let ids: Vec<&Value> = results[results.len() - 2..]
                .iter()
                .map(|m| &m["tool_call_id"])
                .collect();
            assert_eq!(ids, ["call_Kk1first", "call_Kk2second"]);
            setup
                .client
                .assert_folded(&setup.daemon, &setup.session)
                .await;
            setup.server.finish();
        }
    });
}

#[test]
fn each_request_begins_with_the_bytes_of_the_one_before() {
    run_test(async {
        let script = [TOOL, TEXT, TOOL, TEXT].map(Answer::sse);
        let mut setup = Setup::new(script.to_vec()).await;
        setup.turn().await;
        setup.turn().await;
        let requests = setup.server.requests();
        assert_eq!(requests.len(), 4);
        for pair in requests.windows(2) {
            assert_eq!(pair[0].body["tools"], pair[1].body["tools"]);
            let (before, after) = (&pair[0].body["messages"], &pair[1].body["messages"]);
            let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
            assert_eq!(before[..], after[..before.len()]);
            assert_eq!(before[0]["role"], "system");
        }
        assert!(requests[0].body["stream_options"]["include_usage"] == true);
    });
}

#[test]
fn calls_that_cannot_run_get_failed_results_and_the_turn_goes_on() {
    run_test(async {
        let calls = chat::calls(&[
            ("call_1", "no_such_tool", json!({})),
            ("call_2", "read", json!({"file": "README.md"})),
            ("call_3", "read", json!({"path": "none.txt"})),
        ]);
        let mut setup = Setup::new(vec![Answer::sse(calls), Answer::sse(TEXT)]).await;
        assert_eq!(setup.turn().await.reason, TurnReason::Completed);
        let calls = setup.client.calls(&setup.session).await;
        assert_eq!(calls.len(), 3);
        assert!(
            calls
                .iter()
                .all(|call| call.status == ToolCallStatus::Failed),
            "{calls:?}"
        );
        assert!(calls[1].output.as_deref().unwrap().contains("path"));
    });
}

#[test]
fn several_approvals_may_be_open_at_once_and_results_come_in_call_order() {
    run_test(async {
        let (one, two) = ("/etc/group", "/etc/passwd");
        let calls = chat::calls(&[
            ("call_1", "read", json!({"path": one})),
            ("call_2", "read", json!({"path": two})),
        ]);
        let mut setup = Setup::with(vec![Answer::sse(calls), Answer::sse(TEXT)], json!({})).await;
        let (client, session) = (&mut setup.client, &setup.session);
        let turn = client.begin_turn(session, "look").await;
        let open: [Approval; 2] = [
            client.wait_approval(session).await,
            client.wait_approval(session).await,
        ];
        assert_eq!(client.watched(session).folded().approvals.len(), 2);
        client.respond(session, open[1].id.as_str(), "deny").await;
        client.respond(session, open[0].id.as_str(), "once").await;
        assert_eq!(
            client.wait_turn(session, &turn).await.reason,
            TurnReason::Completed
        );
        let last = messages(&setup.server, 1);
        let ids: Vec<&Value> = last[last.len() - 2..]
            .iter()
            .map(|m| &m["tool_call_id"])
            .collect();
        assert_eq!(ids, ["call_1", "call_2"]);
    });
}

#[test]
fn the_conversation_goes_on_after_a_restart_in_the_middle_of_a_call() {
    run_test(async {
        let call = chat::calls(&[(
            "call_1",
            "bash",
            json!({"command": "echo started; cat gate"}),
        )]);
        let mut setup = Setup::new(vec![Answer::sse(call), Answer::sse(TEXT)]).await;
        setup.workspace.make_gate("gate");
        setup.client.begin_turn(&setup.session, "look").await;
        setup.client.wait_delta(&setup.session, "started").await;
        setup.daemon.kill9().await;
        setup.daemon.restart().await;
        setup.client = setup.daemon.client().await;
        setup.client.attach(&setup.session).await;
        // The strict server fails the test unless the open call has got a result.
        assert_eq!(setup.turn().await.reason, TurnReason::Completed);
        let sent = messages(&setup.server, 1);
        assert!(
            sent.iter()
                .any(|message| message["tool_call_id"] == "call_1"),
            "{sent:?}"
        );
        setup.server.finish();
    });
}
