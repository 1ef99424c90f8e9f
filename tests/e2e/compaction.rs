//! Conversations that outgrow the model's context window.

use crystal_protocol::{event::Event, item::ItemBody, turn::TurnReason};
use crystal_tests::{
    model_server::{Answer, chat},
    run_test,
};
use serde_json::json;

use crate::openai::{Setup, TEXT};

const OVERFLOW: &str = r#"{"error": {"message": "too long", "code": "context_length_exceeded", "type": "invalid_request_error"}}"#;

/// More than the part of the window that is kept beside newer turns.
fn long_prompt() -> String {
    format!("remember this {}", "word ".repeat(30_000))
}

#[test]
fn older_turns_become_a_summary_that_outlives_a_restart() {
    run_test(async {
        let answers = vec![
            Answer::sse(TEXT),
            Answer::status(400, OVERFLOW),
            Answer::sse(chat::text("what the user wanted")),
            Answer::sse(TEXT),
            Answer::sse(TEXT),
        ];
        let mut setup = Setup::new(answers).await;
        let end = setup
            .client
            .complete_turn(&setup.session, &long_prompt())
            .await;
        assert_eq!(end.reason, TurnReason::Completed);
        setup.client.begin_turn(&setup.session, "go on").await;
        let folded = setup
            .client
            .wait_some(&setup.session, |event| match event {
                Event::CompactionCompleted {
                    tokens_before,
                    tokens_after,
                    items_folded,
                    error,
                } => {
                    assert_eq!(*error, None);
                    assert!(tokens_after < tokens_before);
                    Some(*items_folded)
                }
                _ => None,
            })
            .await;
        assert_eq!(folded, 2);
        let end = setup.client.wait_turn_end(&setup.session).await;
        assert_eq!((end.reason, end.model_rounds), (TurnReason::Completed, 1));
        let requests = setup.server.requests();
        assert!(requests[2].body.get("tools").is_none());
        let sent = requests[3].body["messages"].to_string();
        assert!(sent.contains("what the user wanted") && sent.contains("go on"));
        assert!(!sent.contains("remember this"));
        let items = setup.client.items(&setup.session).await;
        assert!(items.iter().any(|item| matches!(
            &item.body,
            ItemBody::Summary {
                items_folded: 2,
                ..
            }
        )));

        setup.daemon.kill9().await;
        setup.daemon.restart().await;
        setup.client = setup.daemon.client().await;
        setup.client.attach(&setup.session).await;
        assert_eq!(setup.turn().await.reason, TurnReason::Completed);
        let sent = setup.server.requests()[4].body["messages"].to_string();
        assert!(sent.contains("what the user wanted") && sent.contains("go on"));
        assert!(!sent.contains("remember this"));
        setup.server.finish();
    });
}

#[test]
fn with_nothing_to_fold_an_overflow_ends_the_turn_and_the_session_goes_on() {
    run_test(async {
        let answers = vec![Answer::status(400, OVERFLOW), Answer::sse(TEXT)];
        let mut setup = Setup::new(answers).await;
        assert_eq!(setup.turn().await.reason, TurnReason::ContextOverflow);
        assert_eq!(setup.turn().await.reason, TurnReason::Completed);
        setup.server.finish();
    });
}

#[test]
fn a_summary_that_fails_is_told_and_tried_once() {
    run_test(async {
        let answers = vec![
            Answer::sse(TEXT),
            Answer::status(400, OVERFLOW),
            Answer::status(400, json!({"error": {"message": "no"}}).to_string()),
        ];
        let mut setup = Setup::new(answers).await;
        setup
            .client
            .complete_turn(&setup.session, &long_prompt())
            .await;
        setup.client.begin_turn(&setup.session, "go on").await;
        let failed = |event: &Event| match event {
            Event::CompactionCompleted { error, .. } => Some(error.is_some()),
            _ => None,
        };
        assert!(setup.client.wait_some(&setup.session, failed).await);
        let end = setup.client.wait_turn_end(&setup.session).await;
        assert_eq!(end.reason, TurnReason::ContextOverflow);
        setup.server.finish();
    });
}
