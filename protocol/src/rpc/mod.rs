//! The methods: each once, with its parameters and result.
//!
//! [`Method`] ties a name to its types; [`METHODS`] lists them all. The daemon registers exactly these with
//! jsonrpsee, the client calls them by type, and the schema is generated from the same list. Methods of features
//! that do not exist yet are in [`NOT_YET`]; they answer `refused` with `why: notYet`.

mod daemon;
mod handshake;
mod inquiry;
mod resources;
mod session;
mod turn;

pub use daemon::*;
pub use handshake::*;
pub use inquiry::*;
pub use resources::*;
pub use session::*;
pub use turn::*;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Who may call a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Observers too: it changes nothing.
    Everyone,
    /// Controllers only.
    Controllers,
}

/// A method of the protocol. Its parameters are one JSON object, absent ones count as `{}`.
pub trait Method {
    /// Its name on the wire, `resource/verb`.
    const NAME: &'static str;
    /// Who may call it.
    const ACCESS: Access;
    /// Its parameters.
    type Params: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
    /// Its result.
    type Result: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
}

/// What [`METHODS`] says of a method.
#[derive(Clone, Copy, Debug)]
pub struct MethodInfo {
    /// Its name.
    pub name: &'static str,
    /// Who may call it.
    pub access: Access,
}

/// Parameters, or a result, without fields: `{}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Empty {}

macro_rules! methods {
    ($($(#[$doc:meta])* $ty:ident $name:literal $access:ident ($params:ty) -> $result:ty;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub enum $ty {}

            impl Method for $ty {
                const NAME: &'static str = $name;
                const ACCESS: Access = Access::$access;
                type Params = $params;
                type Result = $result;
            }
        )*

        /// All methods that exist.
        pub const METHODS: &[MethodInfo] = &[
            $(MethodInfo { name: $name, access: Access::$access },)*
        ];
    };
}

methods! {
    /// Opens a connection: agrees on a protocol version and says who calls. Must be the first request.
    Initialize "initialize" Everyone (InitializeParams) -> InitializeResult;
    /// Says how the daemon is.
    DaemonStatus "daemon/status" Everyone (Empty) -> DaemonStatusResult;
    /// Begins sending `daemon/event` to this connection.
    DaemonSubscribe "daemon/subscribe" Everyone (Empty) -> Empty;
    /// Ends it.
    DaemonUnsubscribe "daemon/unsubscribe" Everyone (Empty) -> Empty;
    /// Ends the daemon.
    DaemonShutdown "daemon/shutdown" Controllers (DaemonShutdownParams) -> Empty;
    /// Makes a session.
    SessionCreate "session/create" Controllers (SessionCreateParams) -> SessionCreateResult;
    /// Lists sessions, newest first, from the index.
    SessionList "session/list" Everyone (SessionListParams) -> SessionListResult;
    /// Says how a session is, without loading it.
    SessionGet "session/get" Everyone (SessionParams) -> SessionResult;
    /// Begins sending a session's events to this connection, from a snapshot or a known number.
    SessionAttach "session/attach" Everyone (SessionAttachParams) -> SessionAttachResult;
    /// Ends it.
    SessionDetach "session/detach" Everyone (SessionParams) -> Empty;
    /// Gives a page of older items.
    SessionItems "session/items" Everyone (SessionItemsParams) -> SessionItemsResult;
    /// Gives one item whole, or a piece of one of its fields.
    SessionItem "session/item" Everyone (SessionItemParams) -> SessionItemResult;
    /// Changes a session's settings.
    SessionConfigure "session/configure" Controllers (SessionConfigureParams) -> SessionCreateResult;
    /// Ends what runs, saves, and unloads.
    SessionClose "session/close" Controllers (SessionParams) -> Empty;
    /// Closes, and removes the session's files.
    SessionDelete "session/delete" Controllers (SessionParams) -> Empty;
    /// Sends a user message.
    TurnSubmit "turn/submit" Controllers (TurnSubmitParams) -> TurnSubmitResult;
    /// Interrupts the running turn.
    TurnInterrupt "turn/interrupt" Controllers (TurnInterruptParams) -> TurnInterruptResult;
    /// Waits for a turn to end.
    TurnWait "turn/wait" Everyone (TurnWaitParams) -> crate::turn::TurnCompleted;
    /// Lists the prompts that wait.
    QueueList "queue/list" Everyone (SessionParams) -> QueueResult;
    /// Sends held prompts, or one of them.
    QueueSend "queue/send" Controllers (QueueSendParams) -> QueueResult;
    /// Replaces a waiting prompt's message.
    QueueEdit "queue/edit" Controllers (QueueEditParams) -> QueueResult;
    /// Takes a waiting prompt back.
    QueueRemove "queue/remove" Controllers (QueueRemoveParams) -> QueueResult;
    /// Lists open approvals.
    ApprovalList "approval/list" Everyone (InquiryListParams) -> ApprovalListResult;
    /// Answers an approval.
    ApprovalRespond "approval/respond" Controllers (ApprovalRespondParams) -> Empty;
    /// Lists open questions.
    QuestionList "question/list" Everyone (InquiryListParams) -> QuestionListResult;
    /// Answers a question.
    QuestionRespond "question/respond" Controllers (QuestionRespondParams) -> Empty;
    /// Sends a question away.
    QuestionDismiss "question/dismiss" Controllers (QuestionDismissParams) -> Empty;
    /// Lists the tools of the session's present mode.
    ToolList "tool/list" Everyone (SessionParams) -> ToolListResult;
    /// Runs a tool as the operator, through the same approval.
    ToolCallMethod "tool/call" Controllers (ToolCallParams) -> ToolCallResult;
    /// Lists models.
    ModelList "model/list" Everyone (Empty) -> ModelListResult;
    /// Trusts a workspace for good.
    WorkspaceTrust "workspace/trust" Controllers (WorkspaceParams) -> WorkspaceTrustResult;
    /// Takes trust back.
    WorkspaceUntrust "workspace/untrust" Controllers (WorkspaceParams) -> WorkspaceTrustResult;
    /// Says whether a workspace is trusted.
    WorkspaceTrustStatus "workspace/trustStatus" Controllers (WorkspaceParams) -> WorkspaceTrustResult;
    /// Gives the todo list.
    TodoList "todo/list" Everyone (SessionParams) -> TodoListResult;
    /// Gives tokens and cost.
    UsageGet "usage/get" Everyone (SessionParams) -> UsageGetResult;
}

/// Methods of features that do not exist yet.
pub const NOT_YET: &[MethodInfo] = &[
    not_yet("session/fork", Access::Controllers),
    not_yet("session/compact", Access::Controllers),
    not_yet("session/export", Access::Everyone),
    not_yet("session/import", Access::Controllers),
    not_yet("task/start", Access::Controllers),
    not_yet("task/list", Access::Everyone),
    not_yet("task/status", Access::Everyone),
    not_yet("task/stop", Access::Controllers),
    not_yet("task/logs", Access::Everyone),
    not_yet("image/reserve", Access::Controllers),
    not_yet("image/attach", Access::Controllers),
    not_yet("image/discard", Access::Controllers),
    not_yet("image/list", Access::Everyone),
    not_yet("image/read", Access::Everyone),
    not_yet("toolset/list", Access::Everyone),
    not_yet("toolset/show", Access::Controllers),
    not_yet("toolset/enable", Access::Controllers),
    not_yet("toolset/disable", Access::Controllers),
    not_yet("toolset/reload", Access::Controllers),
    not_yet("plugin/list", Access::Everyone),
    not_yet("plugin/show", Access::Controllers),
    not_yet("plugin/enable", Access::Controllers),
    not_yet("plugin/disable", Access::Controllers),
    not_yet("plugin/reload", Access::Controllers),
    not_yet("promptset/list", Access::Everyone),
    not_yet("promptset/show", Access::Controllers),
    not_yet("promptset/enable", Access::Controllers),
    not_yet("promptset/disable", Access::Controllers),
    not_yet("promptAttachment/list", Access::Everyone),
    not_yet("promptAttachment/show", Access::Controllers),
    not_yet("promptAttachment/enable", Access::Controllers),
    not_yet("promptAttachment/disable", Access::Controllers),
    not_yet("promptAttachment/move", Access::Controllers),
    not_yet("prompt/render", Access::Everyone),
    not_yet("config/get", Access::Everyone),
    not_yet("config/set", Access::Controllers),
    not_yet("credential/set", Access::Controllers),
    not_yet("credential/delete", Access::Controllers),
    not_yet("credential/list", Access::Everyone),
    not_yet("permission/list", Access::Everyone),
    not_yet("permission/revoke", Access::Controllers),
];

const fn not_yet(name: &'static str, access: Access) -> MethodInfo {
    MethodInfo { name, access }
}
