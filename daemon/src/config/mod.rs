//! Configuration, credentials, the model catalog and workspace trust.

mod access;
mod builtin;
mod catalog;
mod credentials;
mod error;
mod json_file;
mod load;
mod overlay;
mod permissions;
mod trust;

use crystal_protocol::session::Thinking;

pub use catalog::Catalog;
pub use error::ConfigError;
pub use load::Config;
pub use permissions::{PermissionStore, StoredRule};
pub use trust::TrustStore;

/// A provider as one session uses it: where it is, with which key.
#[derive(Clone)]
pub struct Endpoint {
    /// The wire, a name of an adapter.
    pub protocol: String,
    /// The provider's name in the catalog.
    pub provider: String,
    /// Base address, without a slash at its end.
    pub base_uri: String,
    /// The key, when one is needed and known.
    pub api_key: Option<Secret>,
    /// Further request headers.
    pub headers: Vec<(String, String)>,
    /// `organization` and `project` of OpenAI accounts.
    pub organization: Option<String>,
    /// See `organization`.
    pub project: Option<String>,
    /// Name of the request field that limits generated tokens, where the provider's differs.
    pub token_limit_field: Option<String>,
}

/// A text that no log, error or `Debug` output may show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the request that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A model of the catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Its provider.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// Size of its context window, in tokens.
    pub context_window: u64,
    /// Most tokens it generates in one answer.
    pub max_tokens: Option<u64>,
    /// Whether it takes images.
    pub image_input: bool,
    /// The thinking gears it has.
    pub thinking: Vec<Thinking>,
}
