//! `image/*`: images of a session.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ids::SessionId, task::Image};

/// Result of `image/reserve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageReserveResult {
    /// The number; it is never given again.
    pub number: u32,
}

/// Parameters of `image/discard` and `image/read`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageParams {
    /// The session.
    pub session: SessionId,
    /// The image's number.
    pub number: u32,
}

/// Parameters of `image/attach`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageAttachParams {
    /// The session.
    pub session: SessionId,
    /// A number that was reserved; else the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Where it comes from.
    pub source: ImageSource,
}

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum ImageSource {
    /// A file that the daemon reads.
    Path {
        /// Its path; a relative one counts from the workspace.
        path: PathBuf,
    },
    /// Bytes that come with the call.
    Data {
        /// The bytes in base64.
        base64: String,
        /// What the client believes it is; the bytes decide.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
    /// A `data:` or `file:` address.
    Uri {
        /// The address.
        uri: String,
    },
}

/// A result that is an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageResult {
    /// The image.
    pub image: Image,
}

/// Result of `image/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageListResult {
    /// The images, by number.
    pub images: Vec<Image>,
}

/// Result of `image/read`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageReadResult {
    /// The image.
    pub image: Image,
    /// Its bytes in base64.
    pub base64: String,
}
