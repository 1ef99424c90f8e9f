//! A client that does not read costs the others nothing, and catches up or is resynchronised.

use std::time::Duration;

use crystal_protocol::event::Event;
use crystal_tests::{daemon::Daemon, run_test_within, workspace::Workspace};

/// The flood is large, and the test may run beside others on two cores.
const FLOOD_LIMIT: Duration = Duration::from_secs(180);

/// Most memory of a daemon whatever its clients do.
const MEMORY_BYTES: u64 = 64 * 1024 * 1024;

#[test]
fn a_stopped_reader_costs_nothing_and_then_catches_up_or_is_resynchronised() {
    run_test_within(FLOOD_LIMIT, async {
        let daemon = Daemon::start().await;
        let mut sender = daemon.client().await;
        let session = sender.create_full(&Workspace::new()).await;
        let mut stopped = daemon.client().await;
        stopped.attach(&session).await.forget_deltas();
        let mut watcher = daemon.client().await;
        watcher.attach(&session).await.forget_deltas();

        let turn = sender.begin_turn(&session, "stream 200000").await;
        let ended = |event: &Event| matches!(event, Event::TurnCompleted(_));
        let mut most = 0;
        let seen = watcher.until_within(FLOOD_LIMIT, "the end of the flood", |client| {
            most = most.max(daemon.memory_now_and_then());
            client.scan(&session, ended)
        });
        seen.await;
        sender.wait_turn(&session, &turn).await;
        most = most.max(daemon.memory().pss_bytes);
        assert!(most < MEMORY_BYTES, "the daemon took {most} bytes");

        // It did not read at all until here.
        assert_eq!(stopped.watched(&session).resyncs(), 0);
        let head = watcher.watched(&session).head();
        stopped
            .until_within(FLOOD_LIMIT, "the head", |client| {
                (client.watched(&session).head() >= head).then_some(())
            })
            .await;
        let kept_up = stopped.watched(&session);
        assert!(
            kept_up.resyncs() > 0 || kept_up.merged() > 0,
            "a reader so far behind is resynchronised, or gets merged deltas"
        );
        watcher.assert_folded(&daemon, &session).await;
        stopped.assert_folded(&daemon, &session).await;
        let after = daemon.memory().pss_bytes;
        assert!(after < MEMORY_BYTES, "the daemon keeps {after} bytes");
    });
}

#[test]
fn a_flood_of_output_does_not_push_other_events_out() {
    run_test_within(FLOOD_LIMIT, async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let session = client.create_full(&Workspace::new()).await;
        client.attach(&session).await;
        client
            .complete_turn(&session, "run yes | head -c 50000000")
            .await;
        client.wait_turn_end(&session).await;
        let watched = client.watched(&session);
        let sent: usize = watched
            .events()
            .iter()
            .map(|seen| match &seen.event {
                Event::ItemDelta { delta, .. } => delta.len(),
                _ => 0,
            })
            .sum();
        assert!(sent < 16 * 1024 * 1024, "{sent} bytes of output were sent");
        assert_eq!(watched.resyncs(), 0);
        client.assert_folded(&daemon, &session).await;
        assert!(daemon.memory().pss_bytes < MEMORY_BYTES);
    });
}
