//! `new`: makes a session.

use std::{
    io::{BufRead as _, IsTerminal as _},
    path::PathBuf,
};

use anyhow::Context as _;
use clap::Args;
use crystal_protocol::{
    approval::ApprovalMode,
    client::{Client, ClientError},
    error::ErrorKind,
    rpc::{SessionCreate, SessionCreateParams, SessionCreateResult, Trust},
    session::{Mode, Thinking},
};

use crate::{context::Context, output::SUCCESS, wire};

/// Makes a session and prints its id.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The directory to work in; the current one when absent.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Work or plan.
    #[arg(long, value_parser = wire::mode(), conflicts_with_all = ["plan", "work"])]
    mode: Option<Mode>,
    /// The same as --mode plan.
    #[arg(long, conflicts_with = "work")]
    plan: bool,
    /// The same as --mode work.
    #[arg(long)]
    work: bool,
    /// When to ask before a tool runs.
    #[arg(long, value_parser = wire::approval())]
    approval: Option<ApprovalMode>,
    /// The model's provider.
    #[arg(long)]
    provider: Option<String>,
    /// The model.
    #[arg(long)]
    model: Option<String>,
    /// A title.
    #[arg(long)]
    title: Option<String>,
    /// How much the model should think.
    #[arg(long, value_parser = wire::thinking())]
    thinking: Option<Thinking>,
    /// A built-in tool to leave out; may be given several times.
    #[arg(long, value_name = "NAME")]
    disable_tool: Vec<String>,
    /// Trusts the workspace for good.
    #[arg(long, conflicts_with = "trust_session")]
    trust: bool,
    /// Trusts the workspace for this session; nothing is stored.
    #[arg(long)]
    trust_session: bool,
}

pub(crate) async fn new(cx: &Context, args: NewArgs) -> anyhow::Result<u8> {
    let params = SessionCreateParams {
        workspace: wire::absolute(args.workspace)?,
        mode: match (args.mode, args.plan, args.work) {
            (Some(mode), _, _) => Some(mode),
            (None, true, _) => Some(Mode::Plan),
            (None, false, true) => Some(Mode::Work),
            (None, false, false) => None,
        },
        approval: args.approval,
        provider: args.provider,
        model: args.model,
        title: args.title,
        thinking: args.thinking,
        disable_tools: (!args.disable_tool.is_empty()).then_some(args.disable_tool),
        trust: match (args.trust, args.trust_session) {
            (true, _) => Some(Trust::Store),
            (false, true) => Some(Trust::Session),
            (false, false) => None,
        },
        ..SessionCreateParams::default()
    };
    let client = cx.client().await?;
    let created = create(cx, &client, params).await?;
    for note in &created.notes {
        cx.out.note(&format!("- {}", note.text)).await?;
    }
    cx.out
        .result(&created, |created| created.session.id.to_string())
        .await?;
    Ok(SUCCESS)
}

async fn create(
    cx: &Context,
    client: &Client,
    mut params: SessionCreateParams,
) -> anyhow::Result<SessionCreateResult> {
    let error = match client.call::<SessionCreate>(params.clone()).await {
        Ok(created) => return Ok(created),
        Err(error) => error,
    };
    let Some(root) = untrusted_root(&error) else {
        return Err(error.into());
    };
    anyhow::ensure!(
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
        "{root} is not trusted. Pass --trust to trust it for good, or --trust-session for this session."
    );
    cx.out
        .note(&format!(
            "{root} is not trusted: its files may tell the model what to do."
        ))
        .await?;
    cx.out.aside("Trust it for good? [y/N] ").await?;
    anyhow::ensure!(
        says_yes().await?,
        "{root} is not trusted; no session was made"
    );
    params.trust = Some(Trust::Store);
    Ok(client.call::<SessionCreate>(params).await?)
}

fn untrusted_root(error: &ClientError) -> Option<String> {
    let error = error.rpc()?;
    if error.kind() != Some(ErrorKind::WorkspaceNotTrusted) {
        return None;
    }
    let root = error.data.as_ref()?.get("root")?.as_str();
    Some(root.unwrap_or("the workspace").to_owned())
}

async fn says_yes() -> anyhow::Result<bool> {
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|_| line)
    });
    let line = line.await?.context("stdin cannot be read")?;
    Ok(matches!(
        line.trim().to_ascii_lowercase().as_str(),
        "y" | "yes"
    ))
}
