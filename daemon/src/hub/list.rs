//! The list of sessions, and keeping its cache on disk.

use std::{sync::Arc, time::Duration};

use crystal_protocol::{
    approval::ApprovalMode,
    error::{ErrorKind, RpcError},
    event::DaemonEvent,
    ids::SessionId,
    rpc::{SessionListParams, SessionListResult},
    session::{Mode, SessionInfo, SessionStatus, Thinking},
};

use super::Hub;
use crate::{
    engine::command::not_found,
    store::{
        index::{EntryState, IndexEntry},
        remove,
    },
};

/// Sessions in a page when the client names no number.
const PAGE: u64 = 100;

/// Most sessions in a page.
const LARGEST_PAGE: u64 = 1_000;

/// The cache is written so long after a change, so that many changes cost one write.
const SAVE_AFTER: Duration = Duration::from_secs(2);

impl Hub {
    /// A page of sessions, newest first.
    ///
    /// # Errors
    /// `invalidParams` for a cursor that is none of ours.
    pub async fn list(&self, params: &SessionListParams) -> Result<SessionListResult, RpcError> {
        let limit = params.limit.unwrap_or(PAGE).clamp(1, LARGEST_PAGE);
        let workspace = match (&params.workspace, params.all) {
            // Another spelling of a workspace is the same workspace.
            (Some(workspace), None | Some(false)) => Some(
                tokio::fs::canonicalize(workspace)
                    .await
                    .unwrap_or_else(|_| workspace.clone()),
            ),
            _ => None,
        };
        let mut state = self.lock();
        let live: Vec<SessionInfo> = state
            .live
            .values()
            .filter_map(|handle| handle.published().info)
            .collect();
        for info in &live {
            state.index.touch(&info.id, info.updated_at);
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let page = state
            .index
            .list(workspace.as_deref(), params.cursor.as_deref(), limit)
            .map_err(|error| RpcError::invalid_params(format!("cursor: {error}")))?;
        let sessions = page
            .entries
            .into_iter()
            .map(|entry| match live.iter().find(|info| info.id == entry.id) {
                Some(info) => info.clone(),
                None => self.saved_info(&entry),
            })
            .collect();
        Ok(SessionListResult {
            sessions,
            next: page.next,
        })
    }

    /// A session in a line, without loading it.
    ///
    /// # Errors
    /// When there is no such session.
    pub fn info(&self, session: &SessionId) -> Result<SessionInfo, RpcError> {
        let state = self.lock();
        let id = state.resolve(session)?;
        if let Some(info) = state
            .live
            .get(&id)
            .and_then(|handle| handle.published().info)
        {
            return Ok(info);
        }
        state
            .index
            .get(&id)
            .map(|entry| self.saved_info(entry))
            .ok_or_else(|| not_found(&id))
    }

    /// Deletes a session that is not loaded; false when it is.
    ///
    /// # Errors
    /// When its files cannot be removed.
    pub async fn delete_saved(&self, session: &SessionId) -> Result<bool, RpcError> {
        let entry = {
            let mut state = self.lock();
            if state.live.contains_key(session) {
                return Ok(false);
            }
            // Out of the list first, so that no call can load what is being removed.
            let entry = state.index.get(session).cloned();
            state.index.remove(session);
            entry
        };
        self.index_dirty.notify_one();
        if let Err(error) = remove::remove(&self.services.paths, session).await {
            if let Some(entry) = entry {
                self.lock().index.put((*entry).clone());
            }
            return Err(RpcError::new(ErrorKind::Storage, error.to_string()));
        }
        self.tell(&DaemonEvent::SessionRemoved {
            id: session.clone(),
        });
        Ok(true)
    }

    fn saved_info(&self, entry: &IndexEntry) -> SessionInfo {
        let mut info = SessionInfo {
            id: entry.id.clone(),
            title: String::new(),
            workspace: String::new(),
            add_directories: Vec::new(),
            mode: Mode::default(),
            approval: ApprovalMode::default(),
            provider: String::new(),
            model: String::new(),
            image_input: false,
            thinking: Thinking::default(),
            prompt_set: "default".to_owned(),
            status: SessionStatus::Damaged,
            live: false,
            clients: Vec::new(),
            created_at: entry.created_at,
            updated_at: entry.updated_at,
            turns: 0,
            seq: 0,
        };
        if let EntryState::Saved {
            settings,
            turns,
            seq,
        } = &entry.state
        {
            info.title.clone_from(&settings.title);
            info.workspace = settings.workspace.display().to_string();
            info.add_directories = settings
                .add_directories
                .iter()
                .map(|dir| dir.display().to_string())
                .collect();
            info.mode = settings.mode;
            info.approval = settings.approval;
            info.provider.clone_from(&settings.provider);
            info.model.clone_from(&settings.model);
            info.image_input = self
                .services
                .catalog
                .image_input(&settings.provider, &settings.model);
            info.thinking = settings.thinking;
            info.status = SessionStatus::Saved;
            info.turns = *turns;
            info.seq = *seq;
        }
        info
    }

    /// Writes the cache of the list.
    pub(super) async fn save_index(&self) {
        let Some(snapshot) = self.lock().index.take_changed() else {
            return;
        };
        if let Err(error) = snapshot.save(&self.services.paths).await {
            tracing::warn!(%error, "the list of sessions could not be saved; it will be rebuilt");
            self.lock().index.mark_changed();
        }
    }

    /// Writes the cache after changes, for ever.
    pub async fn keep_index(self: Arc<Self>) {
        loop {
            self.index_dirty.notified().await;
            tokio::time::sleep(SAVE_AFTER).await;
            self.save_index().await;
        }
    }
}
