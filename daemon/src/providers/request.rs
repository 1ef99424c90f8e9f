//! What an adapter is asked: the conversation as the model sees it, whatever the wire.

use std::sync::Arc;

use crystal_protocol::{ids::SessionId, session::Thinking};
use serde_json::Value;

use crate::terms::Replay;

/// One request. System text and tools are fixed within a turn, so that provider caches hit.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Whose conversation it is; providers that route by a cache key get it.
    pub session: SessionId,
    /// The model, as its provider names it.
    pub model: String,
    /// The system text.
    pub system: Arc<str>,
    /// The tools, in catalog order.
    pub tools: Arc<[ToolSpec]>,
    /// The conversation, oldest first. Every call has exactly one result, right after the answer that made it.
    pub messages: Vec<Arc<Message>>,
    /// Where the running turn begins in `messages`.
    pub turn_start: usize,
    /// How much to think.
    pub thinking: Thinking,
    /// Most tokens to generate, where the catalog says.
    pub max_tokens: Option<u64>,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What the model reads about it.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
}

/// One message of the conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// What a user said.
    User {
        /// The text.
        text: String,
    },
    /// What the model said: one round's answer.
    Assistant {
        /// The text; may be empty when there are calls.
        text: String,
        /// The calls it made.
        calls: Vec<Call>,
        /// What its provider wants back.
        replay: Option<Replay>,
    },
    /// What the tools gave back, in the order of the calls of the answer before.
    Results(Vec<CallResult>),
}

/// A tool call of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The wire's id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// JSON text, as the model wrote it.
    pub arguments: String,
}

/// A tool's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallResult {
    /// The call it answers.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What it gave back, as the model shall see it.
    pub text: String,
    /// Whether it failed; wires without a flag for it have it in the text.
    pub failed: bool,
}
