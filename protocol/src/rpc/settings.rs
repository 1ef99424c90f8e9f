//! `config/*`, `credential/*`, `permission/*`: what holds for a home.

use std::{fmt, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::RuleId;

/// Result of `config/*`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigResult {
    /// The values of `config.json`, also those that this version does not know.
    pub config: Map<String, Value>,
}

/// Parameters of `config/set`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigSetParams {
    /// Values to set; `null` takes one away.
    pub values: Map<String, Value>,
}

/// Parameters of `credential/set`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialSetParams {
    /// The provider.
    pub provider: String,
    /// The key.
    pub key: ApiKey,
}

/// A provider's key. Its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ApiKey(pub String);

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

/// Parameters of `credential/delete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialDeleteParams {
    /// The provider.
    pub provider: String,
}

/// Result of `credential/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialListResult {
    /// The providers that have a key.
    pub providers: Vec<ProviderCredential>,
}

/// A provider that has a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderCredential {
    /// The provider.
    pub provider: String,
    /// Whence its key comes.
    pub from: CredentialSource,
}

/// Whence a provider's key comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CredentialSource {
    /// An environment variable.
    Environment,
    /// `apiKey` in `providers.json`.
    Providers,
    /// `credentials.json`.
    Credentials,
}

/// Parameters of `permission/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionListParams {
    /// Only those that hold in this workspace, an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
}

/// Result of `permission/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionListResult {
    /// What was allowed for good.
    pub rules: Vec<PermissionRule>,
}

/// What was allowed for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRule {
    /// Its id.
    pub id: RuleId,
    /// The rule as it is stored.
    pub rule: Value,
    /// The rule in words, as it was shown.
    pub text: String,
    /// The directory below which it holds.
    pub scope: String,
    /// The file that it is stored in.
    pub file: String,
}

/// Parameters of `permission/revoke`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRevokeParams {
    /// The rule.
    pub id: RuleId,
}
