//! The command line of `run`, and the session it asks for.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueEnum};
use crystal_protocol::{
    approval::ApprovalMode,
    rpc::{Asking, SessionCreateParams, TimeoutSetting, Trust, TurnLimits},
    session::{Mode, Thinking},
};

use crate::wire;

/// Runs one task in a session of its own, and exits.
///
/// The model's answer goes to stdout, all else to stderr. What would have to be asked is denied, unless --ask is given.
///
/// Exit codes: 0 done; 1 invalid command, configuration, credentials, workspace, or an answer that has not the form
/// of --json-schema; 2 the model request failed, or a content filter; 3 a limit, context overflow or truncated output;
/// 4 done, but an approval was denied or a question dismissed; 5 interrupted.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What to do; read from stdin when absent or `-`.
    pub(crate) task: Option<String>,
    /// The directory to work in; the current one when absent.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Work in the operator's own space of the home instead of a project.
    #[arg(long, conflicts_with = "workspace")]
    space: bool,
    /// The model's provider.
    #[arg(long)]
    provider: Option<String>,
    /// The model.
    #[arg(long)]
    model: Option<String>,
    /// When to ask; what would be asked is denied.
    #[arg(long, value_parser = wire::approval())]
    approval: Option<ApprovalMode>,
    /// Looks and plans; no edits, no shell.
    #[arg(long, conflicts_with = "work")]
    plan: bool,
    /// May change things; the default.
    #[arg(long)]
    work: bool,
    /// How much the model should think.
    #[arg(long, value_parser = wire::thinking())]
    thinking: Option<Thinking>,
    /// The prompt set to use.
    #[arg(long, value_name = "NAME")]
    prompt_set: Option<String>,
    /// Whether prompt attachments are used.
    #[arg(long, value_name = "on|off", value_parser = wire::switch())]
    prompt_attachments: Option<bool>,
    /// A prompt attachment to use; may be given several times.
    #[arg(long, value_name = "NAME")]
    prompt_attachment: Vec<String>,
    /// A built-in tool to leave out; may be given several times.
    #[arg(long, value_name = "NAME")]
    disable_tool: Vec<String>,
    /// Whether skills are on.
    #[arg(long, value_name = "on|off", value_parser = wire::switch())]
    skills: Option<bool>,
    /// Whether external tools are on.
    #[arg(long, value_name = "on|off", value_parser = wire::switch())]
    external_tools: Option<bool>,
    /// Whether plugins are on.
    #[arg(long, value_name = "on|off", value_parser = wire::switch())]
    plugins: Option<bool>,
    /// With `off`, the workspace counts as trusted for this run; nothing is stored.
    #[arg(long, value_name = "on|off", value_parser = wire::switch())]
    workspace_trust: Option<bool>,
    /// Most model calls of the turn.
    #[arg(long, value_name = "N")]
    model_calls: Option<u64>,
    /// Most tool calls of the turn.
    #[arg(long, value_name = "N")]
    tool_calls: Option<u64>,
    /// Longest duration of the turn: seconds, or a number with `ms`, `s`, `m` or `h`.
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    duration: Option<u64>,
    /// Longest foreground `bash` call, in seconds, or `unlimited`.
    #[arg(long, value_name = "SECONDS", value_parser = bash_timeout)]
    bash_timeout: Option<TimeoutSetting>,
    /// An image to send with the task.
    #[arg(long, value_name = "PATH")]
    image: Vec<PathBuf>,
    /// Shows the model's reasoning on stderr.
    #[arg(long)]
    pub(crate) show_thinking: bool,
    /// How to print: text for people, or JSON, one value a line.
    #[arg(long, value_enum, default_value_t = Format::Default)]
    pub(crate) format: Format,
    /// Leaves the session live; else it is closed at the end.
    #[arg(long)]
    pub(crate) keep: bool,
    /// The last message must be JSON of the schema in this file; if it is not, the model is asked once again.
    #[arg(long, value_name = "FILE")]
    pub(crate) json_schema: Option<PathBuf>,
    /// What has to be asked waits for another terminal to answer (`crystal-ctl pending`, `approve`, `deny`, `answer`)
    /// instead of being denied.
    #[arg(long)]
    pub(crate) ask: bool,
}

/// How `run` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people.
    Default,
    /// JSON, one value a line.
    Json,
}

impl RunArgs {
    /// The session to create.
    ///
    /// # Errors
    /// For flags whose feature does not exist yet.
    pub(crate) fn session(&self) -> anyhow::Result<SessionCreateParams> {
        self.refuse_what_is_not_there()?;
        let limits = TurnLimits {
            model_calls: self.model_calls,
            tool_calls: self.tool_calls,
            duration_ms: self.duration,
        };
        Ok(SessionCreateParams {
            workspace: wire::absolute(self.workspace.clone())?,
            mode: match (self.plan, self.work) {
                (true, _) => Some(Mode::Plan),
                (false, true) => Some(Mode::Work),
                (false, false) => None,
            },
            approval: self.approval,
            provider: self.provider.clone(),
            model: self.model.clone(),
            thinking: self.thinking,
            disable_tools: (!self.disable_tool.is_empty()).then(|| self.disable_tool.clone()),
            prompt_set: self.prompt_set.clone(),
            skills: self.skills,
            external_tools: self.external_tools,
            plugins: self.plugins,
            bash_timeout_seconds: self.bash_timeout,
            limits: (limits != TurnLimits::default()).then_some(limits),
            space: self.space.then_some(true),
            trust: (self.workspace_trust == Some(false)).then_some(Trust::Session),
            asking: Some(if self.ask { Asking::Wait } else { Asking::Deny }),
            ..SessionCreateParams::default()
        })
    }

    fn refuse_what_is_not_there(&self) -> anyhow::Result<()> {
        if !self.image.is_empty() {
            bail!("--image is not available in this version; leave it out");
        }
        if let Some(set) = self.prompt_set.as_deref().filter(|set| *set != "default") {
            bail!("there is no prompt set {set:?}: this version has only \"default\"");
        }
        if self.prompt_attachments == Some(true) || !self.prompt_attachment.is_empty() {
            bail!(
                "prompt attachments are not available in this version; leave --prompt-attachment(s) out"
            );
        }
        if self.skills == Some(true)
            || self.external_tools == Some(true)
            || self.plugins == Some(true)
        {
            bail!(
                "skills, external tools and plugins are not available in this version; leave `on` out"
            );
        }
        Ok(())
    }
}

fn duration_ms(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        other => return Err(format!("{other:?} is no unit; use ms, s, m or h")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "a duration begins with a whole number".to_owned())?;
    match number.checked_mul(unit) {
        Some(ms) if ms > 0 => Ok(ms),
        _ => Err("a duration is at least 1 ms and fits 64 bits".to_owned()),
    }
}

fn bash_timeout(text: &str) -> Result<TimeoutSetting, String> {
    if text == "unlimited" {
        return Ok(TimeoutSetting::Unlimited);
    }
    match text.parse() {
        Ok(seconds @ 1..=TimeoutSetting::MAX_SECONDS) => Ok(TimeoutSetting::Seconds(seconds)),
        _ => Err(format!(
            "give 1 to {} seconds, or `unlimited`",
            TimeoutSetting::MAX_SECONDS
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, ms) in [
            ("90", 90_000),
            ("1500ms", 1_500),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(duration_ms(text), Ok(ms));
        }
        for text in ["", "0", "x", "5d", "99999999999999999999"] {
            assert!(duration_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_bash_timeout_is_bounded() {
        assert_eq!(bash_timeout("5"), Ok(TimeoutSetting::Seconds(5)));
        assert_eq!(bash_timeout("unlimited"), Ok(TimeoutSetting::Unlimited));
        assert!(bash_timeout("0").is_err());
        assert!(bash_timeout("4294968").is_err());
    }
}
