use super::{Endpoint, Model};
use crate::{home::HomePaths, terms::Rule};
use crystal_protocol::{
    approval::ApprovalMode,
    item::Note,
    rpc::{ModelInfo, TimeoutSetting, TurnLimits},
    session::Thinking,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);
pub struct Config {
    pub approval: ApprovalMode,
    pub thinking: Thinking,
    pub workspace_trust: bool,
    pub bash_timeout: TimeoutSetting,
    pub limits: TurnLimits,
    pub idle_exit: Option<std::time::Duration>,
}
pub struct Catalog;
impl Catalog {
    pub fn choose(
        &self,
        p: Option<&str>,
        m: Option<&str>,
        _c: &Config,
        _e: &BTreeMap<String, String>,
    ) -> Result<(String, String, Vec<Note>), ConfigError> {
        Ok((
            p.unwrap_or("demo").into(),
            m.unwrap_or("demo").into(),
            vec![],
        ))
    }
    pub async fn endpoint(
        &self,
        _p: &str,
        _m: &str,
        _e: &BTreeMap<String, String>,
    ) -> Result<(Endpoint, Model), ConfigError> {
        Ok((
            Endpoint {
                protocol: "demo".into(),
                provider: "demo".into(),
                base_uri: String::new(),
                api_key: None,
                headers: vec![],
                organization: None,
                project: None,
                token_limit_field: None,
            },
            Model {
                provider: "demo".into(),
                name: _m.into(),
                context_window: 200000,
                max_tokens: None,
                image_input: true,
                thinking: vec![],
            },
        ))
    }
    pub fn image_input(&self, _p: &str, _m: &str) -> bool {
        false
    }
    pub fn context_window(&self, _p: &str, _m: &str) -> u64 {
        0
    }
    pub fn models(&self, _e: &BTreeMap<String, String>) -> Vec<ModelInfo> {
        vec![]
    }
    pub fn key_variables(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }
}
pub struct TrustStore;
impl TrustStore {
    pub async fn root_of(&self, w: &Path) -> PathBuf {
        w.into()
    }
    pub async fn is_trusted(&self, _r: &Path) -> Result<bool, ConfigError> {
        Ok(true)
    }
    pub async fn trust(&self, _r: &Path) -> Result<(), ConfigError> {
        Ok(())
    }
    pub async fn untrust(&self, _r: &Path) -> Result<(), ConfigError> {
        Ok(())
    }
}
pub struct PermissionStore;
impl PermissionStore {
    pub async fn covers(&self, _s: &Path, _r: &Rule) -> Result<Option<String>, ConfigError> {
        Ok(None)
    }
    pub async fn add(&self, _s: &Path, _r: &Rule) -> Result<(), ConfigError> {
        Ok(())
    }
}
pub fn _x(_p: &HomePaths) {}
impl Config {
    pub fn load(_p: &HomePaths) -> Result<(Self, Vec<Note>), ConfigError> {
        Ok((
            Self {
                approval: Default::default(),
                thinking: Default::default(),
                workspace_trust: true,
                bash_timeout: TimeoutSetting::Seconds(120),
                limits: Default::default(),
                idle_exit: None,
            },
            vec![],
        ))
    }
}
impl Catalog {
    pub fn load(_p: &HomePaths) -> Result<(Self, Vec<Note>), ConfigError> {
        Ok((Self, vec![]))
    }
}
impl TrustStore {
    pub fn new(_p: &HomePaths) -> Self {
        Self
    }
}
impl PermissionStore {
    pub fn new(_p: &HomePaths) -> Self {
        Self
    }
}
