//! `trusted.json`: the workspaces that were trusted for good.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ConfigError, json_file};
use crate::home::HomePaths;

/// Which workspaces are trusted. The file is read for every question, so a change by hand counts at once.
pub struct TrustStore {
    inner: Arc<Inner>,
}

struct Inner {
    file: PathBuf,
    space: PathBuf,
    /// Held while the file is read and replaced, on blocking threads only.
    changing: Mutex<()>,
}

#[derive(Serialize, Deserialize, Default)]
struct File {
    #[serde(default)]
    trusted: Vec<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl TrustStore {
    /// The store of a home; nothing is touched.
    pub fn new(paths: &HomePaths) -> Self {
        let inner = Inner {
            file: paths.trusted(),
            space: paths.space(),
            changing: Mutex::new(()),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// What is trusted with a workspace: its git root, else itself; resolved where it exists.
    pub async fn root_of(&self, workspace: &Path) -> PathBuf {
        let (inner, path) = (self.inner.clone(), workspace.to_owned());
        let root = tokio::task::spawn_blocking(move || root_of(&path, &inner.space)).await;
        // Only a runtime that is going down fails this; the path itself is then the narrowest answer.
        root.unwrap_or_else(|_| workspace.to_owned())
    }

    /// Whether that root is trusted; the operator's space always is.
    ///
    /// # Errors
    /// When `trusted.json` is there and cannot be read.
    pub async fn is_trusted(&self, root: &Path) -> Result<bool, ConfigError> {
        let (inner, root) = (self.inner.clone(), root.to_owned());
        tokio::task::spawn_blocking(move || {
            if root == inner.space || resolved(&inner.space).is_ok_and(|space| space == root) {
                return Ok(true);
            }
            let file: File = json_file::read(&inner.file)?.unwrap_or_default();
            Ok(file
                .trusted
                .iter()
                .any(|trusted| Path::new(trusted) == root))
        })
        .await?
    }

    /// Trusts a root for good.
    ///
    /// # Errors
    /// When `trusted.json` cannot be read or replaced; it is left as it was.
    pub async fn trust(&self, root: &Path) -> Result<(), ConfigError> {
        let text = root
            .to_str()
            .ok_or_else(|| ConfigError::NotUtf8(root.to_owned()))?
            .to_owned();
        self.change(move |trusted| {
            if !trusted.contains(&text) {
                trusted.push(text);
            }
        })
        .await
    }

    /// Takes the trust in a root back.
    ///
    /// # Errors
    /// As [`TrustStore::trust`].
    pub async fn untrust(&self, root: &Path) -> Result<(), ConfigError> {
        let root = root.to_owned();
        self.change(move |trusted| trusted.retain(|other| Path::new(other) != root))
            .await
    }

    async fn change(
        &self,
        change: impl FnOnce(&mut Vec<String>) + Send + 'static,
    ) -> Result<(), ConfigError> {
        let inner = self.inner.clone();
        tokio::task::spawn_blocking(move || {
            let _changing = inner
                .changing
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let mut file: File = json_file::read(&inner.file)?.unwrap_or_default();
            let before = file.trusted.clone();
            change(&mut file.trusted);
            if file.trusted == before {
                Ok(())
            } else {
                json_file::replace(&inner.file, &file)
            }
        })
        .await?
    }
}

fn resolved(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}

/// The git root of a directory, else the operator's space it is in, else itself. Blocks.
pub(super) fn root_of(workspace: &Path, space: &Path) -> PathBuf {
    let path = resolved(workspace).unwrap_or_else(|_| workspace.to_owned());
    let space = resolved(space).unwrap_or_else(|_| space.to_owned());
    for directory in path.ancestors() {
        // A repository around the home (dotfiles) does not make the space a part of that project.
        if directory == space || directory.join(".git").symlink_metadata().is_ok() {
            return directory.to_owned();
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crystal_protocol::home::Home;

    use super::*;

    fn home(dir: &Path) -> HomePaths {
        HomePaths::new(Home::locate(Some(&dir.join("h"))).unwrap())
    }

    #[tokio::test]
    async fn a_root_is_trusted_until_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let paths = home(dir.path());
        let store = TrustStore::new(&paths);
        let project = dir.path().canonicalize().unwrap().join("project");
        fs::create_dir_all(project.join("src/deep")).unwrap();
        fs::write(project.join(".git"), "gitdir: elsewhere").unwrap();
        let root = store.root_of(&project.join("src/deep")).await;
        assert_eq!(root, project);
        assert!(!store.is_trusted(&root).await.unwrap());
        store.trust(&root).await.unwrap();
        store.trust(&root).await.unwrap();
        assert!(TrustStore::new(&paths).is_trusted(&root).await.unwrap());
        assert!(!store.is_trusted(&project.join("src")).await.unwrap());
        store.untrust(&root).await.unwrap();
        assert!(!store.is_trusted(&root).await.unwrap());
    }

    #[tokio::test]
    async fn the_space_is_always_trusted_also_within_a_repository() {
        let dir = tempfile::tempdir().unwrap();
        let paths = home(dir.path());
        fs::create_dir_all(paths.space().join("notes")).unwrap();
        fs::create_dir(dir.path().join(".git")).unwrap();
        let store = TrustStore::new(&paths);
        let root = store.root_of(&paths.space().join("notes")).await;
        assert_eq!(root, paths.space().canonicalize().unwrap());
        assert!(store.is_trusted(&root).await.unwrap());
    }

    #[tokio::test]
    async fn a_broken_file_is_an_error_and_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let paths = home(dir.path());
        fs::create_dir_all(paths.root()).unwrap();
        fs::write(paths.trusted(), "{broken").unwrap();
        let store = TrustStore::new(&paths);
        assert!(store.is_trusted(Path::new("/p")).await.is_err());
        assert!(store.trust(Path::new("/p")).await.is_err());
        assert_eq!(fs::read_to_string(paths.trusted()).unwrap(), "{broken");
    }

    #[tokio::test]
    async fn changes_at_the_same_time_are_all_kept_and_so_is_what_is_not_understood() {
        let dir = tempfile::tempdir().unwrap();
        let paths = home(dir.path());
        fs::create_dir_all(paths.root()).unwrap();
        fs::write(paths.trusted(), r#"{"later": 1}"#).unwrap();
        let store = TrustStore::new(&paths);
        let roots: Vec<PathBuf> = (0..8).map(|n| PathBuf::from(format!("/p{n}"))).collect();
        for result in
            futures_util::future::join_all(roots.iter().map(|root| store.trust(root))).await
        {
            result.unwrap();
        }
        let file: Value =
            serde_json::from_str(&fs::read_to_string(paths.trusted()).unwrap()).unwrap();
        assert_eq!(file["trusted"].as_array().unwrap().len(), 8);
        assert_eq!(file["later"], 1);
    }
}
