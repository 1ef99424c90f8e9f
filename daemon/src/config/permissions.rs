//! `permissions.json`: rules that were allowed for good, each for one workspace.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use crystal_protocol::{ids::RuleId, time::Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ConfigError, json_file, trust::root_of};
use crate::{home::HomePaths, terms::Rule};

/// A rule that was allowed for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredRule {
    /// Its id.
    pub id: RuleId,
    /// The rule.
    pub rule: Rule,
    /// The rule in words, as it was shown.
    pub text: String,
    /// The git root (else the directory) of the workspaces it holds in.
    pub scope: PathBuf,
    /// When it was given.
    pub created_at: Timestamp,
}

/// The lasting rules of a home. The file is kept in memory and read again when it changed.
pub struct PermissionStore {
    inner: Arc<Inner>,
}

struct Inner {
    file: PathBuf,
    space: PathBuf,
    /// Locked on blocking threads only, for as long as the file is read and replaced.
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    /// Size and time of the file that `rules` came from.
    stamp: Option<(u64, SystemTime)>,
    rules: Vec<StoredRule>,
}

/// The file. Entries stay as they are, so that those of a later version survive.
#[derive(Serialize, Deserialize, Default)]
struct File {
    #[serde(default)]
    rules: Vec<Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl PermissionStore {
    /// The store of a home; nothing is touched.
    pub fn new(paths: &HomePaths) -> Self {
        let cache = Mutex::new(Cache::default());
        let inner = Inner {
            file: paths.permissions(),
            space: paths.space(),
            cache,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The words of a lasting rule of that workspace that covers `rule`.
    ///
    /// # Errors
    /// When `permissions.json` is there and cannot be read.
    pub async fn covers(
        &self,
        workspace_root: &Path,
        rule: &Rule,
    ) -> Result<Option<String>, ConfigError> {
        let (workspace, rule) = (workspace_root.to_owned(), rule.clone());
        self.blocking(move |inner| {
            let cache = inner.fresh()?;
            if cache.rules.is_empty() {
                return Ok(None);
            }
            let scope = root_of(&workspace, &inner.space);
            Ok(cache
                .rules
                .iter()
                .find(|held| held.scope == scope && held.rule.covers(&rule))
                .map(|held| held.text.clone()))
        })
        .await
    }

    /// Allows a rule for good in that workspace; one that is covered already is not stored twice.
    ///
    /// # Errors
    /// When `permissions.json` cannot be read or replaced; it is left as it was.
    pub async fn add(&self, workspace_root: &Path, rule: &Rule) -> Result<(), ConfigError> {
        let (workspace, rule) = (workspace_root.to_owned(), rule.clone());
        self.blocking(move |inner| {
            let mut cache = inner.fresh()?;
            let scope = root_of(&workspace, &inner.space);
            if cache
                .rules
                .iter()
                .any(|held| held.scope == scope && held.rule.covers(&rule))
            {
                return Ok(());
            }
            let text = rule.in_words();
            let id = RuleId::new(format!("{:016x}", fastrand::u64(..)));
            let entry = serde_json::to_value(StoredRule {
                id,
                rule,
                text,
                scope: scope.clone(),
                created_at: Timestamp::now(),
            })
            .map_err(|_| ConfigError::NotUtf8(scope))?;
            let mut file: File = json_file::read(&inner.file)?.unwrap_or_default();
            file.rules.push(entry);
            inner.replace(&mut cache, &file)
        })
        .await
    }

    /// All rules, oldest first; entries that this version does not understand are left out.
    ///
    /// # Errors
    /// As [`PermissionStore::covers`].
    pub async fn list(&self) -> Result<Vec<StoredRule>, ConfigError> {
        self.blocking(|inner| Ok(inner.fresh()?.rules.clone()))
            .await
    }

    /// Takes a rule back; false when there is none of that id.
    ///
    /// # Errors
    /// As [`PermissionStore::add`].
    pub async fn revoke(&self, id: &RuleId) -> Result<bool, ConfigError> {
        let id = id.clone();
        self.blocking(move |inner| {
            let mut cache = inner.fresh()?;
            let mut file: File = json_file::read(&inner.file)?.unwrap_or_default();
            let before = file.rules.len();
            file.rules
                .retain(|entry| entry.get("id").and_then(Value::as_str) != Some(id.as_str()));
            if file.rules.len() == before {
                return Ok(false);
            }
            inner.replace(&mut cache, &file)?;
            Ok(true)
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, ConfigError> + Send + 'static,
    ) -> Result<T, ConfigError> {
        let inner = self.inner.clone();
        tokio::task::spawn_blocking(move || work(&inner)).await?
    }
}

impl Inner {
    /// The rules as the file has them now.
    fn fresh(&self) -> Result<MutexGuard<'_, Cache>, ConfigError> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.stamp();
        if stamp.is_none() || cache.stamp != stamp {
            // Rules that a broken file took back must not go on counting.
            *cache = Cache::default();
            let file: File = json_file::read(&self.file)?.unwrap_or_default();
            *cache = Cache {
                stamp,
                rules: understood(&file),
            };
        }
        Ok(cache)
    }

    fn stamp(&self) -> Option<(u64, SystemTime)> {
        let metadata = fs::metadata(&self.file).ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    }

    fn replace(&self, cache: &mut Cache, file: &File) -> Result<(), ConfigError> {
        json_file::replace(&self.file, file)?;
        *cache = Cache {
            stamp: self.stamp(),
            rules: understood(file),
        };
        Ok(())
    }
}

fn understood(file: &File) -> Vec<StoredRule> {
    file.rules
        .iter()
        .filter_map(|entry| StoredRule::deserialize(entry).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use crystal_protocol::home::Home;

    use super::*;

    fn command(text: &str) -> Rule {
        Rule::Command {
            text: text.to_owned(),
        }
    }

    fn store(dir: &Path) -> (PermissionStore, HomePaths, PathBuf) {
        let paths = HomePaths::new(Home::locate(Some(&dir.join("h"))).unwrap());
        let project = dir.canonicalize().unwrap().join("p");
        fs::create_dir_all(project.join(".git")).unwrap();
        fs::create_dir_all(project.join("src")).unwrap();
        (PermissionStore::new(&paths), paths, project)
    }

    #[tokio::test]
    async fn a_rule_holds_in_its_project_until_it_is_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let (store, paths, project) = store(dir.path());
        store
            .add(&project.join("src"), &command("make"))
            .await
            .unwrap();
        store.add(&project, &command("make")).await.unwrap();
        let again = PermissionStore::new(&paths);
        let covered = again.covers(&project, &command("make")).await.unwrap();
        assert_eq!(covered, Some(command("make").in_words()));
        assert_eq!(
            again.covers(&project, &command("make all")).await.unwrap(),
            None
        );
        assert_eq!(
            again.covers(dir.path(), &command("make")).await.unwrap(),
            None
        );
        let rules = again.list().await.unwrap();
        assert_eq!(rules.len(), 1);
        assert!(again.revoke(&rules[0].id).await.unwrap());
        assert!(!again.revoke(&rules[0].id).await.unwrap());
        assert_eq!(
            store.covers(&project, &command("make")).await.unwrap(),
            None
        );
    }

    #[tokio::test]
    async fn what_is_not_understood_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (store, paths, project) = store(dir.path());
        fs::create_dir_all(paths.root()).unwrap();
        fs::write(
            paths.permissions(),
            r#"{"version": 9, "rules": [{"id": "x", "rule": {"kind": "later"}}]}"#,
        )
        .unwrap();
        store.add(&project, &command("make")).await.unwrap();
        let file: Value =
            serde_json::from_str(&fs::read_to_string(paths.permissions()).unwrap()).unwrap();
        assert_eq!(file["version"], 9);
        assert_eq!(file["rules"][0]["rule"]["kind"], "later");
        assert_eq!(store.list().await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_broken_file_is_an_error_and_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (store, paths, project) = store(dir.path());
        store.add(&project, &command("make")).await.unwrap();
        fs::write(paths.permissions(), "[").unwrap();
        assert!(store.covers(&project, &command("make")).await.is_err());
        assert!(store.add(&project, &command("ls")).await.is_err());
        assert_eq!(fs::read_to_string(paths.permissions()).unwrap(), "[");
    }
}
