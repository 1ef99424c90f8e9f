//! Real git repositories to work in, and gates that hold a command until the test lets it go on.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

/// A git repository of one test, removed at its end.
#[derive(Debug)]
pub struct Workspace {
    /// Above the repository, so that there is an outside that belongs to the test.
    outer: TempDir,
    root: PathBuf,
}

impl Workspace {
    /// A repository with one commit: `README.md`, `src/main.rs`, `notes/todo.txt` and a `.gitignore`.
    pub fn new() -> Self {
        let workspace = Self::without_git();
        workspace.write("README.md", "# Sample\n\nA small project.\n");
        workspace.write("src/main.rs", "fn main() {\n    println!(\"hello\");\n}\n");
        workspace.write("notes/todo.txt", "first\nsecond\nthird\n");
        workspace.write(".gitignore", "ignored/\n");
        workspace.git(&["init", "--quiet", "--initial-branch", "main"]);
        workspace.git(&["add", "."]);
        workspace.git(&["commit", "--quiet", "--message", "Begin"]);
        workspace
    }

    /// An empty directory that is no repository.
    pub fn without_git() -> Self {
        let outer = tempfile::Builder::new()
            .prefix("cw-")
            .tempdir_in("/tmp")
            .expect("/tmp takes a directory");
        let root = outer.path().canonicalize().expect("it exists").join("w");
        std::fs::create_dir(&root).expect("a workspace can be made");
        Self { outer, root }
    }

    /// The repository, links resolved.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The repository as it stands in a message.
    pub fn text_path(&self) -> &str {
        self.root.to_str().expect("the path is UTF-8")
    }

    /// A path beside the repository.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.outer
            .path()
            .canonicalize()
            .expect("it exists")
            .join(name)
    }

    /// A path inside.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Writes a file, its directories too.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.file(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).expect("directories can be made");
        }
        std::fs::write(path, content).expect("the workspace is writable");
    }

    /// Reads a file as text.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).expect("the file is there and is text")
    }

    /// Reads a file as it is.
    pub fn read_bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.file(name)).expect("the file is there")
    }

    /// Whether a file is there.
    pub fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// Runs git here.
    pub fn git(&self, arguments: &[&str]) {
        let status = Command::new("git")
            .args(arguments)
            .current_dir(&self.root)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .envs([("GIT_AUTHOR_NAME", "t"), ("GIT_COMMITTER_NAME", "t")])
            .envs([("GIT_AUTHOR_EMAIL", "t@t"), ("GIT_COMMITTER_EMAIL", "t@t")])
            .stdin(Stdio::null())
            .status()
            .expect("git can be run");
        assert!(status.success(), "git {arguments:?} failed");
    }

    /// Makes a named pipe: a command that reads it waits until [`Workspace::open_gate`].
    pub fn make_gate(&self, name: &str) {
        let status = Command::new("mkfifo")
            .arg(self.file(name))
            .status()
            .expect("mkfifo can be run");
        assert!(status.success(), "no named pipe");
    }

    /// Lets the reader of a gate go on; waits until there is one.
    pub async fn open_gate(&self, name: &str) {
        let path = self.file(name);
        tokio::task::spawn_blocking(move || std::fs::write(path, "open\n"))
            .await
            .expect("the task is not aborted")
            .expect("the gate takes a line");
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // A command that outlived its daemon may wait at a gate that nobody will open.
        let outer = self.outer.path();
        crate::home::kill_those(|process| {
            std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(outer))
        });
    }
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}
