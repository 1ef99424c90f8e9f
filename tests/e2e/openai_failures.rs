//! The openai adapter when the server fails, is slow, or is no longer wanted.

use std::time::{Duration, Instant};

use crystal_protocol::{
    event::{DiscardReason, Event},
    item::ToolCallStatus,
    turn::TurnReason,
};
use crystal_tests::{
    model_server::{Answer, Gate, chat},
    run_test,
};
use serde_json::json;

use crate::openai::{SAID, Setup, TEXT};

#[test]
fn rate_limits_and_server_errors_are_tried_again() {
    run_test(async {
        let limited = Answer::status(
            429,
            r#"{"error":{"message":"slow down","type":"rate_limit"}}"#,
        )
        .header("Retry-After", "0");
        let broken = Answer::status(500, "<html>oops</html>").header("Content-Type", "text/html");
        let mut setup = Setup::new(vec![limited, broken, Answer::sse(TEXT)]).await;
        let end = setup.turn().await;
        assert_eq!(end.reason, TurnReason::Completed);
        let attempts: Vec<u32> = setup
            .client
            .watched(&setup.session)
            .events()
            .iter()
            .filter_map(|seen| match &seen.event {
                Event::RetryScheduled { attempt, cause, .. } => {
                    assert!(!cause.is_empty());
                    Some(*attempt)
                }
                _ => None,
            })
            .collect();
        assert_eq!(attempts, [2, 3]);
        assert_eq!(setup.client.last_text(&setup.session).await, SAID);
        setup
            .client
            .assert_folded(&setup.daemon, &setup.session)
            .await;
        setup.server.finish();
    });
}

#[test]
fn the_pieces_of_a_cut_stream_are_discarded_before_the_retry() {
    run_test(async {
        let half = &TEXT.as_bytes()[..TEXT.len() / 2];
        let cut = Answer::sse(half).then_cut();
        let mut setup = Setup::new(vec![cut, Answer::sse(TEXT)]).await;
        let end = setup.turn().await;
        assert_eq!(end.reason, TurnReason::Completed);
        let events = setup.client.watched(&setup.session).events();
        let at =
            |find: fn(&Event) -> bool| events.iter().position(|seen| find(&seen.event)).unwrap();
        let discarded = at(|event| {
            matches!(
                event,
                Event::ItemDiscarded {
                    reason: DiscardReason::Retry,
                    ..
                }
            )
        });
        let scheduled = at(|event| matches!(event, Event::RetryScheduled { .. }));
        assert!(discarded < scheduled);
        let items = setup.client.items(&setup.session).await;
        assert_eq!(items.len(), 2, "the question and one answer: {items:?}");
        assert_eq!(setup.client.last_text(&setup.session).await, SAID);
        setup
            .client
            .assert_folded(&setup.daemon, &setup.session)
            .await;
    });
}

#[test]
fn errors_that_will_not_go_away_end_the_turn_at_once() {
    run_test(async {
        for (status, body, kind, reason) in [
            (
                401,
                r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#,
                "auth",
                TurnReason::Error,
            ),
            (
                403,
                r#"{"error":{"message":"no"}}"#,
                "auth",
                TurnReason::Error,
            ),
            (
                429,
                r#"{"error":{"message":"used up","code":"insufficient_quota"}}"#,
                "quota",
                TurnReason::Error,
            ),
            (
                402,
                r#"{"error":{"message":"pay"}}"#,
                "quota",
                TurnReason::Error,
            ),
            (
                404,
                r#"{"error":{"message":"no such model"}}"#,
                "badRequest",
                TurnReason::Error,
            ),
        ] {
            let mut setup = Setup::new(vec![Answer::status(status, body)]).await;
            let end = setup.turn().await;
            assert_eq!(end.reason, reason, "{status}");
            let error = end.error.unwrap();
            assert_eq!(error.kind, kind, "{status}: {error:?}");
            assert!(!error.message.contains(crystal_tests::model_server::KEY));
            assert_eq!(setup.server.requests().len(), 1);
            // The session is usable afterwards.
            setup.server.script([Answer::sse(TEXT)]);
            assert_eq!(setup.turn().await.reason, TurnReason::Completed);
        }
    });
}

#[test]
fn an_interrupt_closes_the_connection_and_keeps_what_was_streamed() {
    run_test(async {
        let gate = Gate::new();
        let half = &TEXT[..TEXT.find("grüß").unwrap()];
        let half = &half[..half.rfind("data:").unwrap()];
        let mut setup =
            Setup::new(vec![Answer::sse(half).then_gate(&gate), Answer::sse(TEXT)]).await;
        let turn = setup.client.begin_turn(&setup.session, "look").await;
        gate.reached().await;
        setup.client.wait_delta(&setup.session, "says").await;
        let begun = Instant::now();
        setup
            .client
            .ok("turn/interrupt", json!({"session": setup.session}))
            .await;
        let end = setup.client.wait_turn(&setup.session, &turn).await;
        assert_eq!(end.reason, TurnReason::Interrupted);
        assert!(begun.elapsed() < Duration::from_secs(5));
        setup.server.wait_hang_up().await;
        assert!(
            setup
                .client
                .last_text(&setup.session)
                .await
                .contains("The file says")
        );
        setup.client.wait_turn_end(&setup.session).await;
        assert_eq!(setup.turn().await.reason, TurnReason::Completed);
        setup
            .client
            .assert_folded(&setup.daemon, &setup.session)
            .await;
        setup.server.finish();
    });
}

#[test]
fn an_interrupt_ends_the_wait_for_a_retry_and_a_silent_request() {
    run_test(async {
        let limited =
            Answer::status(429, r#"{"error":{"message":"slow down"}}"#).header("Retry-After", "50");
        let mut setup = Setup::new(vec![limited, Answer::silence()]).await;
        let turn = setup.client.begin_turn(&setup.session, "look").await;
        setup
            .client
            .wait_for(&setup.session, |event| {
                matches!(event, Event::RetryScheduled { .. })
            })
            .await;
        let begun = Instant::now();
        setup
            .client
            .ok("turn/interrupt", json!({"session": setup.session}))
            .await;
        assert_eq!(
            setup.client.wait_turn(&setup.session, &turn).await.reason,
            TurnReason::Interrupted
        );
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "a cancel ends a wait at once"
        );

        let turn = setup.client.begin_turn(&setup.session, "look again").await;
        setup.server.wait_requests(2).await;
        setup
            .client
            .ok("turn/interrupt", json!({"session": setup.session}))
            .await;
        assert_eq!(
            setup.client.wait_turn(&setup.session, &turn).await.reason,
            TurnReason::Interrupted
        );
        setup.server.wait_hang_up().await;
    });
}

#[test]
fn a_round_that_was_cut_short_ends_the_turn_without_running_its_calls() {
    run_test(async {
        for (finish, reason) in [
            ("length", TurnReason::Length),
            ("content_filter", TurnReason::ContentFilter),
        ] {
            let write = chat::call(
                0,
                "call_w",
                "write",
                &json!({"path": "made.txt", "content": "x"}),
            );
            let mut setup = Setup::new(vec![
                Answer::sse(write + &chat::end(finish)),
                Answer::sse(TEXT),
            ])
            .await;
            assert_eq!(setup.turn().await.reason, reason);
            let call = setup.client.calls(&setup.session).await.pop().unwrap();
            assert_eq!(call.status, ToolCallStatus::Cancelled);
            assert!(!setup.workspace.has("made.txt"));
            // The strict server fails the test when the next request has a call without a result.
            assert_eq!(setup.turn().await.reason, TurnReason::Completed);
        }
    });
}
