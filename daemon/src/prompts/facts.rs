//! What a template can say about the session and the machine: the slots and their values.

use std::path::{Path, PathBuf};

use crystal_protocol::{approval::ApprovalMode, ids::SessionId, session::Mode};
use jiff::ZonedDateTime;

use crate::stdx::visible::escape_invisible;

/// How the assistant is called.
const PRODUCT_NAME: &str = "Crystal";

/// What the session knows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFacts {
    /// Its id.
    pub session: SessionId,
    /// Where it works.
    pub workspace: PathBuf,
    /// Directories that count as workspace for reads.
    pub directories: Vec<PathBuf>,
    /// When it asks; in Plan mode the text says `plan` instead.
    pub approval: ApprovalMode,
    /// The model's provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Tools that the model must not call.
    pub disabled_tools: Vec<String>,
}

/// The values for all slots, as they were when this was gathered.
#[derive(Clone, Debug)]
pub struct PromptFacts {
    session: SessionFacts,
    place: Place,
    platform: &'static str,
    architecture: &'static str,
    os: String,
    now: ZonedDateTime,
}

/// What the file system says of the workspace.
#[derive(Clone, Debug)]
struct Place {
    /// The workspace, absolute and without links where it could be resolved.
    workspace: PathBuf,
    /// The nearest directory, from the workspace upwards, that has a `.git`.
    git_root: Option<PathBuf>,
}

impl PromptFacts {
    /// Adds to what the session knows what the file system, the operating system and the clock say now.
    ///
    /// # Cancel safety
    /// Nothing is lost when dropped: it only reads.
    pub async fn gather(session: SessionFacts) -> Self {
        let workspace = session.workspace.clone();
        let looked = tokio::task::spawn_blocking(move || {
            (Place::look(&workspace), os_name(), ZonedDateTime::now())
        })
        .await;
        let (place, os, now) = looked.unwrap_or_else(|error| {
            tracing::error!(%error, "looking at the workspace failed; the system text knows less of it");
            let place = Place { workspace: session.workspace.clone(), git_root: None };
            (place, std::env::consts::OS.to_owned(), ZonedDateTime::now())
        });
        Self {
            session,
            place,
            platform: std::env::consts::OS,
            architecture: std::env::consts::ARCH,
            os,
            now,
        }
    }

    /// What a slot says in a mode. A composite other than `env` is empty or begins with a blank line, so that templates can
    /// name several in a row without leaving gaps.
    pub(super) fn value(&self, slot: Slot, mode: Mode) -> String {
        let SessionFacts {
            session,
            approval,
            provider,
            model,
            ..
        } = &self.session;
        match slot {
            Slot::Env => self.env(mode),
            Slot::DisabledTools => self.disabled_tools(),
            Slot::Directories => self.directories(),
            Slot::Skills | Slot::InstructionsSection | Slot::Instructions => String::new(),
            Slot::Workspace => shown(&self.place.workspace),
            Slot::IsGitRepo => if self.place.is_git_repo() {
                "yes"
            } else {
                "no"
            }
            .to_owned(),
            Slot::GitRoot => self
                .place
                .git_root
                .as_deref()
                .map(shown)
                .unwrap_or_default(),
            Slot::Platform => self.platform.to_owned(),
            Slot::Os => self.os.clone(),
            Slot::Architecture => self.architecture.to_owned(),
            Slot::Date => self.now.strftime("%Y-%m-%d").to_string(),
            Slot::Time => self.now.strftime("%H:%M %:z").to_string(),
            Slot::Provider => escape_invisible(provider),
            Slot::Model => escape_invisible(model),
            Slot::ModelLine => escape_invisible(&format!("Model: {model} (provider: {provider})")),
            Slot::Mode => mode_name(mode).to_owned(),
            Slot::ProductName => PRODUCT_NAME.to_owned(),
            Slot::SessionId => escape_invisible(session.as_str()),
            Slot::Approval => approval_name(*approval, mode).to_owned(),
        }
    }

    fn env(&self, mode: Mode) -> String {
        let line = |label: &str, slot| format!("{label}: {}", self.value(slot, mode));
        let mut lines = vec![
            line("Workspace", Slot::Workspace),
            line("Git repository", Slot::IsGitRepo),
        ];
        if self.place.git_root.is_some() {
            lines.push(line("Git root", Slot::GitRoot));
        }
        lines.extend([
            line("Platform", Slot::Platform),
            line("Operating system", Slot::Os),
            line("Architecture", Slot::Architecture),
            line("Date", Slot::Date),
            line("Local time when this was written", Slot::Time),
            self.value(Slot::ModelLine, mode),
            line("Mode", Slot::Mode),
            line("Session", Slot::SessionId),
            line("Approval", Slot::Approval),
        ]);
        lines.join("\n")
    }

    fn disabled_tools(&self) -> String {
        let tools = &self.session.disabled_tools;
        if tools.is_empty() {
            return String::new();
        }
        let names: Vec<String> = tools
            .iter()
            .map(|name| format!("`{}`", escape_invisible(name)))
            .collect();
        format!(
            "\n\nDisabled tools, which you must not call even where this text names them: {}.",
            names.join(", ")
        )
    }

    fn directories(&self) -> String {
        let directories = &self.session.directories;
        if directories.is_empty() {
            return String::new();
        }
        let lines: Vec<String> = directories
            .iter()
            .map(|directory| format!("- {}", shown(directory)))
            .collect();
        format!(
            "\n\n# Added directories\n\nThese may be read like the workspace:\n\n{}",
            lines.join("\n")
        )
    }
}

impl Place {
    /// Looks at the file system; blocks.
    fn look(workspace: &Path) -> Self {
        let workspace = workspace
            .canonicalize()
            .or_else(|_| std::path::absolute(workspace));
        let workspace = workspace.unwrap_or_else(|_| PathBuf::from("."));
        let git_root = workspace
            .ancestors()
            .find(|directory| has_git(directory))
            .map(Path::to_path_buf);
        Self {
            workspace,
            git_root,
        }
    }

    fn is_git_repo(&self) -> bool {
        self.git_root.as_ref() == Some(&self.workspace)
    }
}

/// Whether a directory has `.git` in it: a directory, or the file that a linked work tree has.
fn has_git(directory: &Path) -> bool {
    directory
        .join(".git")
        .metadata()
        .is_ok_and(|found| found.is_dir() || found.is_file())
}

/// A path on one line, for a reader.
fn shown(path: &Path) -> String {
    escape_invisible(&path.to_string_lossy())
}

/// Name and version of the operating system where it says so, else its plain name; blocks.
fn os_name() -> String {
    let said = ["/etc/os-release", "/usr/lib/os-release"]
        .iter()
        .find_map(|path| {
            let text = std::fs::read_to_string(path).ok()?;
            pretty_name(&text)
        });
    said.unwrap_or_else(|| std::env::consts::OS.to_owned())
}

/// `PRETTY_NAME` of an os-release file.
fn pretty_name(os_release: &str) -> Option<String> {
    let value = os_release
        .lines()
        .find_map(|line| line.trim().strip_prefix("PRETTY_NAME="))?;
    let name = value.trim_matches(['"', '\'']).trim();
    (!name.is_empty()).then(|| escape_invisible(name))
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Work => "work",
        Mode::Plan => "plan",
    }
}

fn approval_name(approval: ApprovalMode, mode: Mode) -> &'static str {
    match (mode, approval) {
        (Mode::Plan, _) => "plan",
        (Mode::Work, ApprovalMode::Default) => "default",
        (Mode::Work, ApprovalMode::Edit) => "edit",
        (Mode::Work, ApprovalMode::Review) => "review",
        (Mode::Work, ApprovalMode::Audit) => "audit",
        (Mode::Work, ApprovalMode::Full) => "full",
    }
}

/// A place in a template that the host fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Env,
    DisabledTools,
    Skills,
    Directories,
    InstructionsSection,
    Instructions,
    Workspace,
    IsGitRepo,
    GitRoot,
    Platform,
    Os,
    Architecture,
    Date,
    Time,
    Provider,
    Model,
    ModelLine,
    Mode,
    ProductName,
    SessionId,
    Approval,
}

/// Every slot by the name that templates call it.
const SLOTS: [(&str, Slot); 21] = [
    ("env", Slot::Env),
    ("disabled_tools", Slot::DisabledTools),
    ("skills", Slot::Skills),
    ("directories", Slot::Directories),
    ("instructions_section", Slot::InstructionsSection),
    ("instructions", Slot::Instructions),
    ("workspace", Slot::Workspace),
    ("is_git_repo", Slot::IsGitRepo),
    ("git_root", Slot::GitRoot),
    ("platform", Slot::Platform),
    ("os", Slot::Os),
    ("architecture", Slot::Architecture),
    ("date", Slot::Date),
    ("time", Slot::Time),
    ("provider", Slot::Provider),
    ("model", Slot::Model),
    ("model_line", Slot::ModelLine),
    ("mode", Slot::Mode),
    ("product_name", Slot::ProductName),
    ("session_id", Slot::SessionId),
    ("approval", Slot::Approval),
];

impl Slot {
    /// The slot of a name, in whatever case.
    pub(super) fn parse(name: &str) -> Option<Self> {
        SLOTS
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, slot)| *slot)
    }
}

#[cfg(test)]
pub(super) mod samples;
#[cfg(test)]
mod tests;
