//! Reading and replacing the JSON files of a home. All of it blocks; call it off the runtime.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use json_comments::StripComments;
use serde::{Serialize, de::DeserializeOwned};

use super::ConfigError;
use crate::stdx::atomic_file::{self, Visibility};

/// Reads a file; comments are allowed. `None` when there is no such file.
///
/// # Errors
/// When it cannot be read, is no JSON, or has a value of the wrong type: the error names the key and what may stand there,
/// never the value, which may be a secret.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ConfigError> {
    match text(path)? {
        Some(text) => parse(path, &text).map(Some),
        None => Ok(None),
    }
}

/// The text of a file without its comments; an absent or empty file is `None`.
pub(super) fn text(path: &Path) -> Result<Option<String>, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let mut text = String::new();
    StripComments::new(bytes.as_slice())
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

/// Parses what [`text`] gave.
pub(super) fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, ConfigError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let key = error.path().to_string();
        refusal(path, &key, error.inner())
    })?;
    deserializer
        .end()
        .map_err(|error| refusal(path, ".", &error))?;
    Ok(value)
}

fn refusal(path: &Path, key: &str, error: &serde_json::Error) -> ConfigError {
    let message = error.to_string();
    if !error.is_data() {
        return ConfigError::NotJson {
            path: path.to_owned(),
            why: message,
        };
    }
    // What stands before the last "expected" quotes the value.
    let expected = message
        .rsplit_once(", expected ")
        .map_or(message.as_str(), |(_, expected)| expected);
    let (expected, place) = expected.rsplit_once(" at line ").unwrap_or((expected, ""));
    let mut expected = match expected {
        "u64" | "u32" => "a whole number, 0 or more",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a map" => "an object",
        "a sequence" => "an array",
        other => other.strip_prefix("struct ").map_or(other, |_| "an object"),
    }
    .to_owned();
    if !place.is_empty() {
        expected.push_str(&format!(
            " (line {})",
            place.replace(" column ", ", column ")
        ));
    }
    let key = if key == "." { "the whole file" } else { key };
    ConfigError::WrongType {
        path: path.to_owned(),
        key: key.to_owned(),
        expected,
    }
}

/// Replaces a file whole, for its owner's eyes only.
pub(super) fn replace(path: &Path, value: &impl Serialize) -> Result<(), ConfigError> {
    let unwritable = |source: io::Error| ConfigError::Unwritable {
        path: path.to_owned(),
        source,
    };
    let mut content = serde_json::to_vec_pretty(value).map_err(|error| unwritable(error.into()))?;
    content.push(b'\n');
    if let Some(directory) = path.parent() {
        atomic_file::private_directory(directory).map_err(unwritable)?;
    }
    atomic_file::replace(path, &content, Visibility::Private).map_err(unwritable)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_error_names_the_key_and_never_the_value() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.json");
        fs::write(
            &path,
            "{\"a\": \"sk-secret, expected a joke\" // comment\n}",
        )
        .unwrap();
        let error = read::<BTreeMap<String, u32>>(&path)
            .unwrap_err()
            .to_string();
        assert!(error.contains("`a` must be a whole number"), "{error}");
        assert!(!error.contains("sk-secret"), "{error}");
    }

    #[test]
    fn an_absent_file_is_no_error_and_a_broken_one_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.json");
        assert!(read::<BTreeMap<String, u32>>(&path).unwrap().is_none());
        fs::write(&path, "{\"a\": 1} x").unwrap();
        assert!(matches!(
            read::<BTreeMap<String, u32>>(&path),
            Err(ConfigError::NotJson { .. })
        ));
    }
}
