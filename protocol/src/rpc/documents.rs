//! `session/compact`, `session/export`, `session/import`: sessions as documents.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    ids::{ItemId, SessionId},
    session::SessionInfo,
};

/// Result of `session/compact`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionCompactResult {
    /// Tokens in the context before.
    pub tokens_before: u64,
    /// And after.
    pub tokens_after: u64,
    /// The item that holds the summary; absent when there was nothing to fold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_item: Option<ItemId>,
}

/// Parameters of `session/export`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionExportParams {
    /// The session.
    pub session: SessionId,
    /// In which form.
    pub format: ExportFormat,
    /// With the system text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<bool>,
    /// Write it to this file instead of giving it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Where a piece begins, in bytes of UTF-8; at the beginning of a character.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// At most so many bytes of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// Forms of an exported session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ExportFormat {
    /// For people.
    Markdown,
    /// Whole, to be imported again.
    Json,
}

/// Result of `session/export`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum SessionExportResult {
    /// The document, or a piece of it.
    Content {
        /// The text.
        content: String,
        /// Where the next piece begins; absent at the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_offset: Option<u64>,
    },
    /// It was written to a file.
    Written {
        /// The file, absolute.
        path: String,
    },
}

/// Parameters of `session/import`: the document, a file, or a piece of an upload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, try_from = "SessionImportFields")]
#[schemars(!try_from)]
pub enum SessionImportParams {
    /// The document itself.
    Document {
        /// An exported session.
        document: Map<String, Value>,
    },
    /// A file that the daemon reads.
    Path {
        /// Its path, absolute.
        path: PathBuf,
    },
    /// A piece of a document that is too long for one message.
    Piece(ImportPiece),
}

/// A piece of an uploaded document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportPiece {
    /// A name of the client's choice for the upload; it counts on this connection only.
    pub upload: String,
    /// Where the piece begins, in bytes of UTF-8: what was sent before.
    pub offset: u64,
    /// The piece.
    pub chunk: String,
    /// It is the last one.
    pub last: bool,
}

/// What `session/import` may bring, before it is clear which form it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionImportFields {
    document: Option<Map<String, Value>>,
    path: Option<PathBuf>,
    upload: Option<String>,
    offset: Option<u64>,
    chunk: Option<String>,
    last: Option<bool>,
}

impl TryFrom<SessionImportFields> for SessionImportParams {
    type Error = &'static str;

    fn try_from(fields: SessionImportFields) -> Result<Self, Self::Error> {
        match (fields.document, fields.path, fields.upload) {
            (Some(document), None, None) => Ok(Self::Document { document }),
            (None, Some(path), None) => Ok(Self::Path { path }),
            (None, None, Some(upload)) => Ok(Self::Piece(ImportPiece {
                upload,
                offset: fields.offset.ok_or("missing field `offset`")?,
                chunk: fields.chunk.ok_or("missing field `chunk`")?,
                last: fields.last.ok_or("missing field `last`")?,
            })),
            (None, None, None) => Err("missing field `document` (or `path`, or `upload`)"),
            _ => Err("give `document`, `path` or `upload`, and only one of them"),
        }
    }
}

/// Result of `session/import`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum SessionImportResult {
    /// The session that was made.
    Imported {
        /// The session.
        session: Box<SessionInfo>,
    },
    /// A piece was taken; more are to come.
    Received {
        /// Bytes of the upload so far: the next piece's `offset`.
        received: u64,
    },
}
