//! Watching a session: attaching, and waiting for its events.

use crystal_protocol::{event::Event, ids::Seq, session::Snapshot};
use serde_json::{Value, json};

use crate::{client::Client, watched::Watched};

impl Client {
    /// Attaches to a session from a snapshot; checks that the answer comes before the first event.
    pub async fn attach(&mut self, session: &str) -> &mut Watched {
        let known = self.sessions.contains_key(session);
        let answer = self
            .ok("session/attach", json!({"session": session, "items": 1000}))
            .await;
        let (id, head) = Self::attached(&answer);
        if !known {
            assert!(!self.sessions.contains_key(&id), "an event came first");
        }
        let snapshot: Snapshot = serde_json::from_value(answer["snapshot"].clone())
            .expect("an attach without `after` has a snapshot");
        assert_eq!(snapshot.info.seq, head, "a snapshot is true at its seq");
        self.watch(id, Watched::begin(Some(snapshot), Some(head)))
    }

    /// Attaches after a number, with what another connection knew at that number.
    pub async fn attach_after(&mut self, session: &str, known: &Watched) -> &mut Watched {
        let after = known.head();
        let was_known = self.sessions.contains_key(session);
        let answer = self
            .ok(
                "session/attach",
                json!({"session": session, "after": after}),
            )
            .await;
        let (id, head) = Self::attached(&answer);
        assert!(
            was_known || !self.sessions.contains_key(&id),
            "an event came first"
        );
        let snapshot = answer
            .get("snapshot")
            .filter(|snapshot| !snapshot.is_null());
        let watched = match snapshot {
            None => Watched::begin(Some(known.folded().clone()), Some(after)),
            Some(snapshot) => {
                let snapshot = serde_json::from_value(snapshot.clone()).expect("a snapshot");
                Watched::begin(Some(snapshot), Some(head))
            }
        };
        self.watch(id, watched)
    }

    fn attached(answer: &Value) -> (String, Seq) {
        let id = answer["session"]["id"]
            .as_str()
            .expect("an attach names the session");
        let head = answer["seq"].as_u64().expect("an attach says the head");
        (id.to_owned(), head)
    }

    fn watch(&mut self, id: String, watched: Watched) -> &mut Watched {
        self.sessions.insert(id.clone(), watched);
        self.sessions.get_mut(&id).expect("it was just put there")
    }

    /// What this client knows of a session it attached to.
    pub fn watched(&self, session: &str) -> &Watched {
        self.sessions
            .get(session)
            .unwrap_or_else(|| panic!("not attached to {session}"))
    }

    /// Waits for an event of a session, from the last one waited for.
    pub async fn wait_for(&mut self, session: &str, pick: impl Fn(&Event) -> bool) -> Event {
        self.wait_some(session, |event| pick(event).then(|| event.clone()))
            .await
    }

    /// Waits for an event of a session from which `pick` takes something.
    pub async fn wait_some<T>(
        &mut self,
        session: &str,
        mut pick: impl FnMut(&Event) -> Option<T>,
    ) -> T {
        self.until("an event", |client| {
            client.sessions.get_mut(session)?.scan(&mut pick)
        })
        .await
    }

    /// An event of a session that has come already, from the last one waited for; never reads.
    pub fn scan(&mut self, session: &str, pick: impl Fn(&Event) -> bool) -> Option<Event> {
        self.sessions
            .get_mut(session)?
            .scan(&mut |event| pick(event).then(|| event.clone()))
    }

    /// Reads until this client has seen an event of that number.
    pub async fn read_to(&mut self, session: &str, seq: Seq) {
        self.until(&format!("event {seq}"), |client| {
            (client.sessions.get(session)?.head() >= seq).then_some(())
        })
        .await;
    }
}
