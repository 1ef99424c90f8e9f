//! Identifiers: newtypes over strings, so that one kind never passes for another.
//!
//! All ids are opaque to clients. Those of a session's own things (items, turns, approvals ...)
//! are unique within the session and never used twice, also after a crash.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps a text that is known to be an id of this kind.
            pub fn new(id: impl Into<String>) -> Self {
                Self(id.into())
            }

            /// The id as it stands on the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

id!(
    /// A session. Where a call takes one, a unique prefix of at least 4 characters will do.
    SessionId
);
id!(
    /// One turn of a session.
    TurnId
);
id!(
    /// One entry of the transcript.
    ItemId
);
id!(
    /// The model's own name for a tool call; unique within a model round, not beyond.
    CallId
);
id!(
    /// An approval that waits, or waited, for an answer.
    ApprovalId
);
id!(
    /// A question that waits, or waited, for an answer.
    QuestionId
);
id!(
    /// A prompt in the queue of a busy session.
    QueuedId
);
id!(
    /// A background bash task.
    TaskId
);
id!(
    /// One entry of the todo list.
    TodoId
);
id!(
    /// One connection of one client, for as long as it lasts.
    ConnectionId
);
id!(
    /// A stored permission rule.
    RuleId
);

/// The number of an event in its session's log. Grows by one an event within one daemon run, jumps
/// at most once a restart, and never repeats.
pub type Seq = u64;
