//! Where a provider's key comes from: the environment, `providers.json`, `credentials.json`, in this order.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::{ConfigError, Secret, json_file};

/// A variable that holds a key for whatever provider is used.
pub(super) const ANY_PROVIDER: &str = "CRYSTAL_API_KEY";

/// `apiKey` of `providers.json`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum KeySource {
    /// `{env:NAME}`.
    Variable(String),
    /// `{file:path}`, absolute.
    File(PathBuf),
    /// The key itself.
    Literal(Secret),
}

impl KeySource {
    /// What `apiKey` says; paths are relative to `home`.
    pub(super) fn parse(text: &str, home: &Path) -> Self {
        let inner = text
            .trim()
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'));
        if let Some(name) = inner.and_then(|inner| inner.strip_prefix("env:")) {
            return Self::Variable(name.trim().to_owned());
        }
        if let Some(path) = inner.and_then(|inner| inner.strip_prefix("file:")) {
            return Self::File(home.join(path.trim()));
        }
        Self::Literal(Secret::new(text))
    }

    /// The key, when it is there. Blocks for a file.
    pub(super) fn read(
        &self,
        env: &BTreeMap<String, String>,
    ) -> Result<Option<Secret>, ConfigError> {
        match self {
            Self::Variable(name) => Ok(variable(env, name)),
            Self::Literal(secret) => Ok(secret_of(secret.expose())),
            Self::File(path) => {
                let text = fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
                    path: path.clone(),
                    source,
                })?;
                Ok(secret_of(&text))
            }
        }
    }
}

/// The variables that may hold a provider's key, in the order in which they are asked.
pub(super) fn variables(provider: &str, named: Option<&str>) -> Vec<String> {
    let own: String = provider
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect();
    let named = named.map(str::to_owned);
    named
        .into_iter()
        .chain([format!("{own}_API_KEY"), ANY_PROVIDER.to_owned()])
        .collect()
}

/// A key in the environment; an empty one is none.
pub(super) fn variable(env: &BTreeMap<String, String>, name: &str) -> Option<Secret> {
    env.get(name).and_then(|text| secret_of(text))
}

fn secret_of(text: &str) -> Option<Secret> {
    let text = text.trim();
    (!text.is_empty()).then(|| Secret::new(text))
}

/// The keys of `credentials.json` by provider; an absent file is none. Blocks.
pub(super) fn stored(path: &Path) -> Result<BTreeMap<String, Secret>, ConfigError> {
    let keys: BTreeMap<String, String> = json_file::read(path)?.unwrap_or_default();
    Ok(keys
        .into_iter()
        .filter_map(|(provider, key)| Some((provider, secret_of(&key)?)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_may_be_named_filed_or_written_out() {
        let home = Path::new("/h");
        assert_eq!(
            KeySource::parse("{env:A_KEY}", home),
            KeySource::Variable("A_KEY".into())
        );
        assert_eq!(
            KeySource::parse("{file:k/a}", home),
            KeySource::File("/h/k/a".into())
        );
        assert_eq!(
            KeySource::parse("{file:/k}", home),
            KeySource::File("/k".into())
        );
        assert_eq!(
            KeySource::parse("sk-1", home),
            KeySource::Literal(Secret::new("sk-1"))
        );
    }

    #[test]
    fn the_providers_own_variable_is_its_name_in_capitals() {
        assert_eq!(
            variables("my.host-2", Some("K")),
            ["K", "MY_HOST_2_API_KEY", "CRYSTAL_API_KEY"]
        );
    }
}
