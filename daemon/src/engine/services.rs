//! What every session needs from the daemon.

use std::collections::BTreeSet;

use crystal_protocol::{error::RpcError, ids::SessionId, session::SessionInfo};
use tokio::sync::mpsc;

use super::command::Command;

use crate::{
    config::{Catalog, Config, PermissionStore, TrustStore},
    home::HomePaths,
    store::head::Head,
};

/// The daemon's services, shared by all sessions.
pub struct Services {
    /// The files of the home.
    pub paths: HomePaths,
    /// The configuration.
    pub config: Config,
    /// The providers and models.
    pub catalog: Catalog,
    /// Lasting permission rules.
    pub permissions: PermissionStore,
    /// Trusted workspaces.
    pub trust: TrustStore,
    /// Variables that no child may see.
    pub key_variables: BTreeSet<String>,
}

/// What a session tells the keeper of the list of sessions.
pub trait Registry: Send + Sync {
    /// A session's info changed.
    fn session_changed(&self, info: &SessionInfo);
    /// A session's head was saved, or it was unloaded.
    fn session_saved(&self, head: &Head);
    /// Whether an idle session may be unloaded: no call waits for it. Calls that come later go to its next life.
    fn may_unload(&self, id: &SessionId) -> bool;
    /// A session is gone from memory, and from disk when it was deleted; calls that came too late are handed back.
    fn session_gone(&self, id: &SessionId, deleted: bool, late: mpsc::Receiver<Command>);
    /// A session could not be opened; its calls are to be answered with the error.
    fn session_failed(&self, id: &SessionId, error: &RpcError, calls: mpsc::Receiver<Command>);
}
