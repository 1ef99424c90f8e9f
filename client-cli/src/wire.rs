//! Words of the command line that are values of the protocol, parsed by the protocol's own types.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use crystal_protocol::{
    approval::ApprovalMode,
    session::{Mode, Thinking},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Parses a word as serde would; the error lists the words that exist.
pub(crate) fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(Value::String(text.to_owned())).map_err(|error| error.to_string())
}

/// The wire's word for a value of an enum; JSON text for anything else.
pub(crate) fn name_of<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(error) => format!("?{error}"),
    }
}

pub(crate) fn mode() -> impl TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(["work", "plan"]).try_map(|text| word(&text))
}

pub(crate) fn approval() -> impl TypedValueParser<Value = ApprovalMode> {
    PossibleValuesParser::new(["default", "edit", "review", "audit", "full"])
        .try_map(|text| word(&text))
}

pub(crate) fn thinking() -> impl TypedValueParser<Value = Thinking> {
    PossibleValuesParser::new([
        "off", "default", "minimal", "low", "medium", "high", "maximum",
    ])
    .try_map(|text| word(&text))
}

/// `on` or `off`.
pub(crate) fn switch() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["on", "off"]).map(|text| text == "on")
}

/// A directory as the daemon wants it: absolute. The current one when none is named.
pub(crate) fn absolute(path: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let path = match path {
        Some(path) => path,
        None => std::env::current_dir().context("the current directory cannot be told")?,
    };
    std::path::absolute(&path)
        .with_context(|| format!("{} cannot be made an absolute path", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_on_offer_is_one_of_the_protocol() {
        for text in ["default", "edit", "review", "audit", "full"] {
            assert_eq!(name_of(&word::<ApprovalMode>(text).unwrap()), text);
        }
        for text in [
            "off", "default", "minimal", "low", "medium", "high", "maximum",
        ] {
            assert_eq!(name_of(&word::<Thinking>(text).unwrap()), text);
        }
        for text in ["work", "plan"] {
            assert_eq!(name_of(&word::<Mode>(text).unwrap()), text);
        }
    }
}
