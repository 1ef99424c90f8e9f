//! A session's settings, its tools, and the environment that its processes get.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use crystal_protocol::{
    error::{ErrorKind, RpcError},
    item::Note,
    rpc::{Environment, SessionConfigureParams, ToolInfo, ToolSource},
    session::{Mode, SessionInfo},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    actor::{Actor, Work},
    command::Caller,
    dispatch::CallHost,
    queue::busy,
};
use crate::{
    store::record::{Record, Settings},
    tools::{ToolContext, ToolList, Workspace, environment, registry},
};

impl Actor {
    /// Changes settings: all of them at idle, some while a turn runs.
    pub(super) async fn configure(
        &mut self,
        params: SessionConfigureParams,
        caller: &Caller,
    ) -> Result<(SessionInfo, Vec<Note>), RpcError> {
        self.refuse_when_closing()?;
        self.refuse_while_busy(&params)?;
        let mut settings = self.journal.head().settings.clone();
        let mut notes = Vec::new();
        if let Some(mode) = params.mode {
            settings.mode = mode;
        }
        if let Some(approval) = params.approval {
            settings.approval = approval;
        }
        if let Some(thinking) = params.thinking {
            settings.thinking = thinking;
        }
        if let Some(title) = params.title {
            settings.title = title;
        }
        if params.provider.is_some() || params.model.is_some() {
            let provider = params
                .provider
                .as_deref()
                .unwrap_or(&settings.provider)
                .to_owned();
            let env = self.variables();
            let (provider, model, more) = self
                .services
                .catalog
                .choose(
                    Some(&provider),
                    params.model.as_deref(),
                    &self.services.config,
                    &env,
                )
                .map_err(|error| RpcError::invalid_params(format!("model: {error}")))?;
            settings.provider = provider;
            settings.model = model;
            notes.extend(more);
        }
        if let Some(workspace) = params.workspace {
            settings.workspace = self.checked_workspace(&workspace).await?;
        }
        for directory in params.add_directories.unwrap_or_default() {
            let directory = directory_of("addDirectories", &directory).await?;
            if !settings.add_directories.contains(&directory) {
                settings.add_directories.push(directory);
            }
        }
        for directory in params.remove_directories.unwrap_or_default() {
            let resolved = directory_of("removeDirectories", &directory)
                .await
                .unwrap_or(directory);
            settings.add_directories.retain(|other| *other != resolved);
        }
        if let Some(environment) = params.environment {
            self.environment = Some(Arc::new(environment));
        } else if self.environment.is_none() {
            self.environment.clone_from(&caller.environment);
        }
        self.change_settings(settings).await?;
        Ok((self.view.info.clone(), notes))
    }

    fn refuse_while_busy(&self, params: &SessionConfigureParams) -> Result<(), RpcError> {
        if matches!(self.work, Work::Idle) {
            return Ok(());
        }
        let refused = [
            ("provider", params.provider.is_some()),
            ("model", params.model.is_some()),
            ("thinking", params.thinking.is_some()),
            ("workspace", params.workspace.is_some()),
            ("environment", params.environment.is_some()),
        ];
        match refused.into_iter().find(|(_, present)| *present) {
            Some((field, _)) => Err(busy(&format!(
                "{field} can be changed when the turn has ended"
            ))),
            None => Ok(()),
        }
    }

    async fn change_settings(&mut self, settings: Settings) -> Result<(), RpcError> {
        if settings != self.journal.head().settings {
            self.journal
                .commit(vec![Record::SettingsChanged { settings }])
                .await?;
            self.refresh_info();
            if matches!(self.work, Work::Idle) {
                self.save_head_soon();
            }
        }
        Ok(())
    }

    async fn checked_workspace(&self, workspace: &Path) -> Result<PathBuf, RpcError> {
        let resolved = directory_of("workspace", workspace).await?;
        let trust = &self.services.trust;
        if self.services.config.workspace_trust && !self.journal.head().options.trusted {
            let root = trust.root_of(&resolved).await;
            if !trust
                .is_trusted(&root)
                .await
                .map_err(|error| RpcError::new(ErrorKind::Storage, error.to_string()))?
            {
                return Err(not_trusted(&root));
            }
        }
        Ok(resolved)
    }

    /// The tools of the present mode.
    pub(super) fn tools(&self) -> ToolList {
        let head = self.journal.head();
        registry::catalog(head.settings.mode, &head.options.disable_tools).unwrap_or_else(|error| {
            // Names are checked when a session is made; a later version may have renamed a tool.
            tracing::warn!(%error, "a disabled tool is not known; none is disabled");
            registry::catalog(head.settings.mode, &[]).unwrap_or_default()
        })
    }

    /// The tools of the present mode, for clients.
    pub(super) fn tool_infos(&self) -> Vec<ToolInfo> {
        self.tools()
            .iter()
            .map(|tool| ToolInfo {
                name: tool.name().to_owned(),
                title: tool.title().to_owned(),
                description: tool.description().to_owned(),
                schema: tool.schema().clone(),
                source: ToolSource::BuiltIn,
                catalogs: tool.catalogs().to_vec(),
            })
            .collect()
    }

    /// The session's environment, provider keys included: for credentials, never for children.
    pub(super) fn variables(&self) -> BTreeMap<String, String> {
        match &self.environment {
            Some(environment) => environment.0.clone(),
            None => Environment::of_this_process().0,
        }
    }

    /// What the session's calls run with.
    pub(super) fn call_host(&self, cancel: CancellationToken) -> CallHost {
        let head = self.journal.head();
        let settings = &head.settings;
        let timeout = head
            .options
            .bash_timeout
            .unwrap_or(self.services.config.bash_timeout);
        let workspace = Workspace {
            root: settings.workspace.clone(),
            add_directories: settings.add_directories.clone(),
            home: self.services.paths.root().to_owned(),
        };
        // Every call gets a channel of its own; this one only stands in its place.
        let (output, _) = mpsc::channel(1);
        CallHost {
            session: head.id.clone(),
            services: self.services.clone(),
            tools: self.tools(),
            context: ToolContext {
                workspace: Arc::new(workspace),
                environment: Arc::new(environment::child_environment(
                    &self.variables(),
                    &self.services.key_variables,
                    &BTreeMap::new(),
                )),
                bash_timeout: timeout.duration(),
                files: self.files.clone(),
                output,
                cancel,
            },
            to_session: self.from_turn.0.clone(),
        }
    }
}

/// A directory that a client named, links resolved.
///
/// # Errors
/// `invalidParams` that names the field.
pub async fn directory_of(field: &str, path: &Path) -> Result<PathBuf, RpcError> {
    if !path.is_absolute() {
        return Err(RpcError::invalid_params(format!(
            "{field}: {} is not an absolute path.",
            path.display()
        )));
    }
    let refuse =
        |why: &str| RpcError::invalid_params(format!("{field}: {} {why}.", path.display()));
    let resolved = tokio::fs::canonicalize(path)
        .await
        .map_err(|error| refuse(&format!("cannot be opened ({error})")))?;
    let metadata = tokio::fs::metadata(&resolved)
        .await
        .map_err(|error| refuse(&format!("cannot be opened ({error})")))?;
    if metadata.is_dir() {
        Ok(resolved)
    } else {
        Err(refuse("is not a directory"))
    }
}

/// Checks the names of tools that a client wants left out.
///
/// # Errors
/// `invalidParams` that names the wrong one and lists the right ones.
pub fn check_disabled_tools(names: &[String]) -> Result<(), RpcError> {
    registry::catalog(Mode::Work, names)
        .map(drop)
        .map_err(|error| RpcError::invalid_params(format!("disableTools: {error}")))
}

/// The error for a workspace that nobody trusts.
pub fn not_trusted(root: &Path) -> RpcError {
    let root = root.display().to_string();
    let message = format!(
        "The workspace {root} is not trusted. Ask the user, then call workspace/trust, or pass trust when creating the session."
    );
    RpcError::new(ErrorKind::WorkspaceNotTrusted, message).with("root", root)
}
