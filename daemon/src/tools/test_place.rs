//! A workspace for the tests of the tools, and calls in it as the engine makes them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use crystal_protocol::{approval::Preview, session::Mode};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    Effects, FileVersions, Tool, ToolContext, ToolOutput, ToolStatus, Workspace, registry,
};

/// A directory with a workspace `w`, a home `home` and a directory `outside`.
pub(super) struct Place {
    _dir: tempfile::TempDir,
    pub(super) top: PathBuf,
    pub(super) cx: ToolContext,
}

impl Place {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        for name in ["w", "home", "outside"] {
            fs::create_dir(top.join(name)).unwrap();
        }
        let (output, _) = mpsc::channel(1);
        let cx = ToolContext {
            workspace: Arc::new(Workspace {
                root: top.join("w"),
                add_directories: Vec::new(),
                home: top.join("home"),
            }),
            environment: Arc::new(BTreeMap::new()),
            bash_timeout: None,
            files: Arc::new(FileVersions::default()),
            output,
            cancel: CancellationToken::new(),
        };
        Self { _dir: dir, top, cx }
    }

    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.cx.workspace.root.join(relative)
    }

    pub(super) fn put(&self, relative: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(super) fn get(&self, relative: &str) -> Vec<u8> {
        fs::read(self.path(relative)).unwrap()
    }

    pub(super) async fn plan(&self, name: &str, arguments: &Value) -> Result<Effects, ToolOutput> {
        tool(name).plan(arguments, &self.cx).await
    }

    pub(super) async fn run(&self, name: &str, arguments: &Value, effects: &Effects) -> ToolOutput {
        tool(name).run(arguments.clone(), effects, &self.cx).await
    }

    /// Plans and runs.
    pub(super) async fn call(&self, name: &str, arguments: Value) -> ToolOutput {
        match self.plan(name, &arguments).await {
            Ok(effects) => self.run(name, &arguments, &effects).await,
            Err(failed) => failed,
        }
    }

    /// The text of a call that must succeed.
    pub(super) async fn ok(&self, name: &str, arguments: Value) -> String {
        let output = self.call(name, arguments).await;
        assert_eq!(output.status, ToolStatus::Succeeded, "{}", output.text);
        output.text
    }

    /// The text of a call that must fail.
    pub(super) async fn fails(&self, name: &str, arguments: Value) -> String {
        let output = self.call(name, arguments).await;
        assert_eq!(output.status, ToolStatus::Failed, "{}", output.text);
        output.text
    }
}

pub(super) fn diff_of(effects: &Effects) -> &str {
    match &effects.preview {
        Some(Preview::Diff { diff }) => diff,
        other => panic!("no diff: {other:?}"),
    }
}

fn tool(name: &str) -> Arc<dyn Tool> {
    let tools = registry::catalog(Mode::Work, &[]).unwrap();
    tools
        .iter()
        .find(|tool| tool.name() == name)
        .unwrap()
        .clone()
}
