//! Making a session.

use std::{path::PathBuf, sync::Arc};

use crystal_protocol::{
    error::{ErrorKind, RpcError},
    event::DaemonEvent,
    ids::SessionId,
    item::Note,
    rpc::{Environment, SessionCreateParams, Trust},
    session::SessionInfo,
    time::Timestamp,
};

use super::{Hub, shutting_down};
use crate::{
    engine::{
        Start,
        command::{Caller, Command},
        settings::{check_disabled_tools, directory_of, not_trusted},
    },
    store::{
        error::StoreError,
        head::Head,
        head_file::{Numbering, save_head},
        index::IndexEntry,
        log::{Durability, SessionLog},
        record::{Options, Record, Settings},
        remove,
    },
};

/// Characters of a session's id: enough that two never meet.
const ID_CHARS: usize = 16;

impl Hub {
    /// Makes a session and loads it.
    ///
    /// # Errors
    /// `invalidParams` that names the field, `workspaceNotTrusted`, `refused` for features that are not there, `storage`.
    pub async fn create(
        self: &Arc<Self>,
        params: SessionCreateParams,
        caller: &Caller,
    ) -> Result<(SessionInfo, Vec<Note>), RpcError> {
        if self.lock().shutting_down {
            return Err(shutting_down());
        }
        refuse_missing_features(&params)?;
        let environment = params
            .environment
            .clone()
            .map(Arc::new)
            .or_else(|| caller.environment.clone());
        let (workspace, trusted) = self.workspace(&params).await?;
        let (settings, notes) = self.settings(&params, workspace, environment.as_deref())?;
        let options = self.options(params, trusted)?;
        let id = new_id()?;
        let (head, log) = self
            .write_whole(id.clone(), settings, options)
            .await
            .map_err(|error| RpcError::new(ErrorKind::Storage, error.to_string()))?;
        let answer = {
            let mut state = self.lock();
            if state.shutting_down {
                return Err(shutting_down());
            }
            state.index.put(IndexEntry::loaded(&head));
            let start = Start::Created {
                head: Box::new(head),
                log,
                environment,
            };
            let handle = self.spawn(&mut state, &id, start);
            let (reply, answer) = tokio::sync::oneshot::channel();
            handle
                .send(Command::Info(reply))
                .map_err(|undelivered| undelivered.error())?;
            answer
        };
        self.index_dirty.notify_one();
        let info = answer.await.unwrap_or_else(|_| Err(shutting_down()))?;
        self.tell(&DaemonEvent::SessionAdded {
            session: Box::new(info.clone()),
        });
        Ok((info, notes))
    }

    async fn workspace(&self, params: &SessionCreateParams) -> Result<(PathBuf, bool), RpcError> {
        let storage =
            |error: &dyn std::fmt::Display| RpcError::new(ErrorKind::Storage, error.to_string());
        if params.space == Some(true) {
            let space = self.services.paths.space();
            let (paths, made) = (self.services.paths.clone(), space.clone());
            tokio::task::spawn_blocking(move || paths.make(&made))
                .await
                .map_err(|error| storage(&error))?
                .map_err(|error| {
                    storage(&format!("{} cannot be made: {error}", space.display()))
                })?;
            return Ok((directory_of("space", &space).await?, false));
        }
        let workspace = directory_of("workspace", &params.workspace).await?;
        let trust = &self.services.trust;
        if !self.services.config.workspace_trust {
            return Ok((workspace, false));
        }
        let root = trust.root_of(&workspace).await;
        if trust
            .is_trusted(&root)
            .await
            .map_err(|error| storage(&error))?
        {
            return Ok((workspace, false));
        }
        match params.trust {
            Some(Trust::Store) => {
                trust.trust(&root).await.map_err(|error| storage(&error))?;
                Ok((workspace, false))
            }
            Some(Trust::Session) => Ok((workspace, true)),
            None => Err(not_trusted(&root)),
        }
    }

    fn settings(
        &self,
        params: &SessionCreateParams,
        workspace: PathBuf,
        environment: Option<&Environment>,
    ) -> Result<(Settings, Vec<Note>), RpcError> {
        let own;
        let variables = match environment {
            Some(environment) => &environment.0,
            None => {
                own = Environment::of_this_process();
                &own.0
            }
        };
        let config = &self.services.config;
        let (provider, model, notes) = self
            .services
            .catalog
            .choose(
                params.provider.as_deref(),
                params.model.as_deref(),
                config,
                variables,
            )
            .map_err(|error| RpcError::invalid_params(format!("model: {error}")))?;
        let settings = Settings {
            title: params.title.clone().unwrap_or_default(),
            workspace,
            add_directories: Vec::new(),
            mode: params.mode.unwrap_or_default(),
            approval: params.approval.unwrap_or(config.approval),
            provider,
            model,
            thinking: params.thinking.unwrap_or(config.thinking),
        };
        Ok((settings, notes))
    }

    fn options(&self, params: SessionCreateParams, trusted: bool) -> Result<Options, RpcError> {
        let disable_tools = params.disable_tools.unwrap_or_default();
        check_disabled_tools(&disable_tools)?;
        Ok(Options {
            disable_tools,
            asking: params.asking.unwrap_or_default(),
            when_unattended: params.when_unattended.unwrap_or_default(),
            limits: params.limits.unwrap_or_default(),
            bash_timeout: params.bash_timeout_seconds,
            trusted,
        })
    }

    /// Writes the files of a new session, or none: also when the caller goes away meanwhile.
    async fn write_whole(
        self: &Arc<Self>,
        id: SessionId,
        settings: Settings,
        options: Options,
    ) -> Result<(Head, SessionLog), StoreError> {
        let hub = self.clone();
        let path = self.services.paths.session_log(&id);
        let write = tokio::spawn(async move {
            let written = hub.write(&id, settings, options).await;
            if written.is_err()
                && let Err(error) = remove::remove(&hub.services.paths, &id).await
            {
                tracing::warn!(session = %id, %error, "the beginning of a session's files stays");
            }
            written
        });
        write
            .await
            .unwrap_or_else(|_| Err(StoreError::stopped(&path)))
    }

    async fn write(
        &self,
        id: &SessionId,
        settings: Settings,
        options: Options,
    ) -> Result<(Head, SessionLog), StoreError> {
        let now = Timestamp::now();
        let mut head = Head::new(id.clone(), now, settings.clone());
        let log = SessionLog::create(&self.services.paths, id).await?;
        let records = [
            Record::Created {
                id: id.clone(),
                at: now,
                settings,
            },
            Record::OptionsChanged {
                options: Box::new(options),
            },
        ];
        let placed = log.append(&records, Durability::Synced).await?;
        for (record, place) in records.iter().zip(&placed) {
            head.apply(record, place.offset, place.end);
        }
        save_head(&self.services.paths, head.clone(), Numbering::Reserved).await?;
        Ok((head, log))
    }
}

fn refuse_missing_features(params: &SessionCreateParams) -> Result<(), RpcError> {
    let missing = [
        (
            "promptSet",
            params
                .prompt_set
                .as_deref()
                .is_some_and(|set| set != "default"),
        ),
        (
            "promptAttachments",
            params
                .prompt_attachments
                .as_ref()
                .is_some_and(|choice| !choice.names.is_empty()),
        ),
        ("skills", params.skills == Some(true)),
        ("externalTools", params.external_tools == Some(true)),
        ("plugins", params.plugins == Some(true)),
    ];
    match missing.into_iter().find(|(_, asked)| *asked) {
        Some((field, _)) => Err(RpcError::refused(
            "notYet",
            format!("This version has no {field} yet; leave the field out."),
        )),
        None => Ok(()),
    }
}

/// A new id: random, so that prefixes are short and nothing is told by it.
fn new_id() -> Result<SessionId, RpcError> {
    const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut random = [0u8; ID_CHARS];
    getrandom::fill(&mut random).map_err(|error| {
        RpcError::new(
            ErrorKind::InternalError,
            format!("The system gives no random numbers: {error}."),
        )
    })?;
    let chars = random
        .iter()
        .filter_map(|byte| ALPHABET.get(usize::from(byte % 32)).map(|c| char::from(*c)));
    Ok(SessionId::new(chars.collect::<String>()))
}
