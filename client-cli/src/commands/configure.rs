//! `configure`: changes a session's settings.

use std::path::PathBuf;

use clap::Args;
use crystal_protocol::{
    approval::ApprovalMode,
    rpc::{Environment, SessionConfigure, SessionConfigureParams, SessionCreateResult},
    session::{Mode, Thinking},
};

use crate::{
    context::Context,
    output::{SUCCESS, table},
    session_ref, wire,
};

/// Changes a session's settings, or shows them when no change is asked for.
///
/// While a turn runs only mode, approval, title and directories may change.
#[derive(Debug, Args)]
pub(crate) struct ConfigureArgs {
    /// The session.
    session: Option<String>,
    /// Work or plan, from the next turn on.
    #[arg(long, value_parser = wire::mode())]
    mode: Option<Mode>,
    /// When to ask, from the next call on.
    #[arg(long, value_parser = wire::approval())]
    approval: Option<ApprovalMode>,
    /// The model's provider.
    #[arg(long)]
    provider: Option<String>,
    /// The model.
    #[arg(long)]
    model: Option<String>,
    /// How much the model should think.
    #[arg(long, value_parser = wire::thinking())]
    thinking: Option<Thinking>,
    /// A title.
    #[arg(long)]
    title: Option<String>,
    /// Another directory to work in.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// A directory that counts as workspace for reads; may be given several times.
    #[arg(long, value_name = "DIR")]
    add_directory: Vec<PathBuf>,
    /// A directory to take back; may be given several times.
    #[arg(long, value_name = "DIR")]
    remove_directory: Vec<PathBuf>,
    /// Gives the session's processes this command's environment.
    #[arg(long)]
    environment: bool,
}

pub(crate) async fn configure(cx: &Context, args: ConfigureArgs) -> anyhow::Result<u8> {
    let client = cx.client().await?;
    let session = session_ref::resolve(&client, args.session.as_deref()).await?;
    let params = SessionConfigureParams {
        session,
        mode: args.mode,
        approval: args.approval,
        provider: args.provider,
        model: args.model,
        thinking: args.thinking,
        title: args.title,
        workspace: args
            .workspace
            .map(|dir| wire::absolute(Some(dir)))
            .transpose()?,
        add_directories: directories(args.add_directory)?,
        remove_directories: directories(args.remove_directory)?,
        environment: args.environment.then(Environment::of_this_process),
    };
    let configured = client.call::<SessionConfigure>(params).await?;
    for note in &configured.notes {
        cx.out.note(&format!("- {}", note.text)).await?;
    }
    cx.out.result(&configured, human).await?;
    Ok(SUCCESS)
}

fn directories(given: Vec<PathBuf>) -> anyhow::Result<Option<Vec<PathBuf>>> {
    if given.is_empty() {
        return Ok(None);
    }
    let absolute = given.into_iter().map(|dir| wire::absolute(Some(dir)));
    absolute.collect::<anyhow::Result<_>>().map(Some)
}

fn human(configured: &SessionCreateResult) -> String {
    let session = &configured.session;
    let rows = [
        ("session", session.id.to_string()),
        ("title", session.title.clone()),
        ("workspace", session.workspace.clone()),
        ("directories", session.add_directories.join(", ")),
        ("mode", wire::name_of(&session.mode)),
        ("approval", wire::name_of(&session.approval)),
        ("provider", session.provider.clone()),
        ("model", session.model.clone()),
        ("thinking", wire::name_of(&session.thinking)),
        ("status", wire::name_of(&session.status)),
    ];
    table(&rows.map(|(name, value)| vec![name.to_owned(), value]))
}
