//! What a handler knows of the call it serves: the hub, the connection, and what is to happen after the answer.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crystal_protocol::{
    client_ref::ClientRef,
    error::{ErrorKind, RpcError},
    ids::{ConnectionId, Seq, SessionId},
    rpc::Environment,
};
use jsonrpsee::Extensions;
use tokio::sync::Notify;

use crate::{
    engine::{command::Caller, event_log::EventLog},
    hub::Hub,
};

/// A connection, as its calls know it.
pub struct Connection {
    /// Its id.
    pub id: ConnectionId,
    /// Wakes its writer when a followed session has news.
    pub wake: Arc<Notify>,
    /// The bound on its lines, in bytes: raised by `initialize`.
    pub line_bound: Arc<AtomicUsize>,
    phase: Mutex<Phase>,
    following: Mutex<HashMap<SessionId, Place>>,
    /// Sessions that count, or may count, this connection among their clients.
    attached: Mutex<HashSet<SessionId>>,
}

/// How far a connection is.
#[derive(Clone)]
pub enum Phase {
    /// It has not said who it is.
    New,
    /// It has.
    Ready(Peer),
}

/// Who is at the other end.
#[derive(Clone)]
pub struct Peer {
    /// Its name and role.
    pub client: ClientRef,
    /// Its process environment, where it sent one.
    pub environment: Option<Arc<Environment>>,
}

impl From<Peer> for Caller {
    fn from(peer: Peer) -> Self {
        Self {
            client: peer.client,
            environment: peer.environment,
        }
    }
}

/// A session that a connection follows.
#[derive(Clone)]
pub struct Following {
    /// Its log.
    pub events: Arc<EventLog>,
    /// The last event that was sent.
    pub cursor: Seq,
    /// Items wanted in a snapshot.
    pub items: usize,
}

/// Tells one following of a session from the next on the same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(usize);

/// What a connection last asked of a session: to follow it, and how far that is.
struct Place {
    generation: Generation,
    /// Absent until the attach is answered, and while a fresh start is on its way.
    following: Option<Following>,
}

/// What happens right after an answer was sent.
pub enum Then {
    /// Events of a session begin to follow, unless the client has asked for something else since.
    Follow(SessionId, Generation, Following),
    /// Daemon events begin to follow.
    Subscribe,
    /// They end.
    Unsubscribe,
    /// The daemon goes down.
    ShutDown(crystal_protocol::rpc::ShutdownMode),
}

static GENERATION: AtomicUsize = AtomicUsize::new(0);

impl Connection {
    /// A connection that has not said who it is.
    pub fn new(id: ConnectionId, line_bound: Arc<AtomicUsize>) -> Self {
        Self {
            id,
            wake: Arc::default(),
            line_bound,
            phase: Mutex::new(Phase::New),
            following: Mutex::default(),
            attached: Mutex::default(),
        }
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        self.phase
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// It said who it is.
    pub fn introduce(&self, peer: Peer) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = Phase::Ready(peer);
        self.line_bound
            .store(crystal_protocol::limits::MESSAGE_BYTES, Ordering::Relaxed);
    }

    /// The client wants to follow a session from another place: what followed so far sends nothing any more, and what is on its
    /// way to follow never begins. Gives what followed so far.
    pub fn begin_following(&self, session: &SessionId) -> (Generation, Option<Following>) {
        let generation = Generation(GENERATION.fetch_add(1, Ordering::Relaxed));
        let place = Place {
            generation,
            following: None,
        };
        let old = self.places().insert(session.clone(), place);
        (generation, old.and_then(|place| place.following))
    }

    /// Follows from here on; not if the client has asked for something else since `generation`.
    pub fn follow(&self, session: &SessionId, generation: Generation, following: Following) {
        if let Some(place) = self.places().get_mut(session)
            && place.generation == generation
        {
            place.following = Some(following);
        }
    }

    /// An attach failed: what followed before follows again, if anything did.
    pub fn fall_back(&self, session: &SessionId, generation: Generation, old: Option<Following>) {
        match old {
            Some(old) => self.follow(session, generation, old),
            None => self.end_following(session, Some(generation)),
        }
    }

    /// Follows a session no longer; with a generation only if that is still the one.
    pub fn end_following(&self, session: &SessionId, generation: Option<Generation>) {
        let mut places = self.places();
        if let Some(place) = places.get(session)
            && generation.is_none_or(|generation| generation == place.generation)
        {
            places.remove(session);
        }
    }

    /// Whether this following is still the one that the client wants.
    pub fn is_following(&self, session: &SessionId, generation: Generation) -> bool {
        self.places()
            .get(session)
            .is_some_and(|place| place.generation == generation)
    }

    /// Lets `step` move each session that is followed. What it takes out of the option is followed no longer until
    /// [`Connection::follow`]. Held for moments only.
    pub fn each_followed(
        &self,
        mut step: impl FnMut(&SessionId, Generation, &mut Option<Following>),
    ) {
        for (session, place) in self.places().iter_mut() {
            if place.following.is_some() {
                step(session, place.generation, &mut place.following);
            }
        }
    }

    fn places(&self) -> MutexGuard<'_, HashMap<SessionId, Place>> {
        self.following
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a session may count this connection among its clients.
    pub fn note_attached(&self, session: SessionId) {
        self.attached
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(session);
    }

    /// Whether it was noted.
    pub fn is_attached(&self, session: &SessionId) -> bool {
        self.attached
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(session)
    }

    /// Forgets it; true when it was noted.
    pub fn forget_attached(&self, session: &SessionId) -> bool {
        self.attached
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(session)
    }

    /// The sessions that must hear that this connection is gone.
    pub fn take_attached(&self) -> HashSet<SessionId> {
        std::mem::take(&mut *self.attached.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One call, or one batch of calls.
pub struct Call {
    /// The daemon.
    pub hub: Arc<Hub>,
    /// Whence it came.
    pub connection: Arc<Connection>,
    after: Arc<Mutex<Vec<Then>>>,
}

/// The list of what is to happen after an answer, as it travels with a call.
#[derive(Clone, Default)]
pub struct After(pub Arc<Mutex<Vec<Then>>>);

impl After {
    /// Takes what was asked for.
    pub fn take(&self) -> Vec<Then> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Call {
    /// The call that came with these extensions.
    ///
    /// # Errors
    /// `internalError` when the transport did not say whence it came, which is a fault of the transport's.
    pub fn new(hub: &Arc<Hub>, extensions: &Extensions) -> Result<Self, RpcError> {
        let connection = extensions.get::<Arc<Connection>>().cloned();
        let after = extensions.get::<After>().map(|after| after.0.clone());
        match (connection, after) {
            (Some(connection), Some(after)) => Ok(Self {
                hub: hub.clone(),
                connection,
                after,
            }),
            _ => Err(RpcError::new(
                ErrorKind::InternalError,
                "The call came without its connection.",
            )),
        }
    }

    /// Who calls.
    ///
    /// # Errors
    /// `notInitialized` when nobody knows yet.
    pub fn caller(&self) -> Result<Caller, RpcError> {
        match self.connection.phase() {
            Phase::Ready(peer) => Ok(peer.into()),
            Phase::New => Err(not_initialized()),
        }
    }

    /// Has something happen right after the answer.
    pub fn after_answer(&self, then: Then) {
        self.after
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(then);
    }
}

/// The error of a call before `initialize`.
pub fn not_initialized() -> RpcError {
    RpcError::new(
        ErrorKind::NotInitialized,
        "Call initialize first: it says who you are and which protocol you speak.",
    )
}
