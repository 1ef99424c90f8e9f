//! What can be wrong with configuration, keys, and the stored words of trust and permission.

use std::{io, path::PathBuf};

/// Why configuration cannot be used. Every message is a sentence for the operator and shows no secret.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file is there and cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be replaced; the old one is whole.
    #[error("{} cannot be written: {source}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is no JSON.
    #[error("{} is not valid JSON: {why}", path.display())]
    NotJson {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        why: String,
    },
    /// A key has a value of the wrong type.
    #[error("{}: `{key}` must be {expected}", path.display())]
    WrongType {
        /// The file.
        path: PathBuf,
        /// The key, with those above it.
        key: String,
        /// What may stand there.
        expected: String,
    },
    /// A provider that neither the built-in catalog nor `providers.json` has.
    #[error("There is no provider `{name}`; known are {known}.")]
    UnknownProvider {
        /// The name that was asked for.
        name: String,
        /// Those that exist.
        known: String,
    },
    /// A model that its provider's list does not have.
    #[error(
        "Provider `{provider}` has no model `{name}`; known are {known}. Further ones are added in providers.json."
    )]
    UnknownModel {
        /// The provider.
        provider: String,
        /// The name that was asked for.
        name: String,
        /// Those that exist.
        known: String,
    },
    /// A provider without a list of models was chosen without a model.
    #[error("Provider `{provider}` lists no models: name one.")]
    NoModelNamed {
        /// The provider.
        provider: String,
    },
    /// A wire that this build has no adapter for.
    #[error(
        "This build does not speak `{protocol}`, the protocol of provider `{provider}`; it speaks {spoken}."
    )]
    NotSpoken {
        /// The provider.
        provider: String,
        /// Its wire.
        protocol: &'static str,
        /// The wires of this build.
        spoken: String,
    },
    /// No key was found for a provider that needs one.
    #[error(
        "No API key for provider `{provider}`: set {variable}, or store a key for `{provider}` in credentials.json."
    )]
    NoKey {
        /// The provider.
        provider: String,
        /// The variable that is looked at first.
        variable: String,
    },
    /// A path that JSON cannot hold.
    #[error("{} cannot be stored: its name is not UTF-8", .0.display())]
    NotUtf8(PathBuf),
    /// The runtime stopped before the file was done.
    #[error("the file work was cut off: {0}")]
    CutOff(#[from] tokio::task::JoinError),
}
