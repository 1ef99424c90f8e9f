//! The methods: each once, with its parameters and result.
//!
//! [`Method`] ties a name to its types; [`METHODS`] lists them all. The daemon registers exactly these with
//! jsonrpsee, the client calls them by type, and the schema is generated from the same list. Methods of features
//! that do not exist yet are of [`Stage::NotYet`]; they answer `refused` with `why: notYet`.

mod daemon;
mod documents;
mod extensions;
mod handshake;
mod images;
mod inquiry;
mod prompts;
mod resources;
mod session;
mod settings;
mod tasks;
mod turn;

pub use daemon::*;
pub use documents::*;
pub use extensions::*;
pub use handshake::*;
pub use images::*;
pub use inquiry::*;
pub use prompts::*;
pub use resources::*;
pub use session::*;
pub use settings::*;
pub use tasks::*;
pub use turn::*;

use schemars::{JsonSchema, Schema, SchemaGenerator};
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

/// Whether a method's feature is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is served.
    Served,
    /// It answers `refused` with `why: notYet`.
    NotYet,
}

/// What [`METHODS`] says of a method.
#[derive(Clone, Copy, Debug)]
pub struct MethodInfo {
    /// Its name.
    pub name: &'static str,
    /// Who may call it.
    pub access: Access,
    /// Whether it is served.
    pub stage: Stage,
    /// What it is for, as its doc comment says.
    pub doc: &'static str,
    /// The schema of its parameters.
    pub params: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of its result.
    pub result: fn(&mut SchemaGenerator) -> Schema,
}

/// Parameters, or a result, without fields: `{}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Empty {}

macro_rules! methods {
    ($($(#[doc = $doc:literal])* $ty:ident $name:literal $access:ident $stage:ident ($params:ty) -> $result:ty;)*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, Debug)]
            pub enum $ty {}

            impl Method for $ty {
                const NAME: &'static str = $name;
                const ACCESS: Access = Access::$access;
                type Params = $params;
                type Result = $result;
            }
        )*

        /// All methods of the protocol.
        pub const METHODS: &[MethodInfo] = &[
            $(MethodInfo {
                name: $name,
                access: Access::$access,
                stage: Stage::$stage,
                doc: concat!($($doc),*),
                params: |generator| generator.subschema_for::<$params>(),
                result: |generator| generator.subschema_for::<$result>(),
            },)*
        ];
    };
}

methods! {
    /// Opens a connection: agrees on a protocol version and says who calls. Must be the first request.
    Initialize "initialize" Everyone Served (InitializeParams) -> InitializeResult;
    /// Says how the daemon is.
    DaemonStatus "daemon/status" Everyone Served (Empty) -> DaemonStatusResult;
    /// Begins sending `daemon/event` to this connection.
    DaemonSubscribe "daemon/subscribe" Everyone Served (Empty) -> Empty;
    /// Ends it.
    DaemonUnsubscribe "daemon/unsubscribe" Everyone Served (Empty) -> Empty;
    /// Ends the daemon.
    DaemonShutdown "daemon/shutdown" Controllers Served (DaemonShutdownParams) -> Empty;
    /// Makes a session.
    SessionCreate "session/create" Controllers Served (SessionCreateParams) -> SessionCreateResult;
    /// Lists sessions, newest first, from the index.
    SessionList "session/list" Everyone Served (SessionListParams) -> SessionListResult;
    /// Says how a session is, without loading it.
    SessionGet "session/get" Everyone Served (SessionParams) -> SessionResult;
    /// Begins sending a session's events to this connection, from a snapshot or a known number.
    SessionAttach "session/attach" Everyone Served (SessionAttachParams) -> SessionAttachResult;
    /// Ends it.
    SessionDetach "session/detach" Everyone Served (SessionParams) -> Empty;
    /// Gives a page of older items.
    SessionItems "session/items" Everyone Served (SessionItemsParams) -> SessionItemsResult;
    /// Gives one item whole, or a piece of one of its fields.
    SessionItem "session/item" Everyone Served (SessionItemParams) -> SessionItemResult;
    /// Changes a session's settings.
    SessionConfigure "session/configure" Controllers Served (SessionConfigureParams) -> SessionCreateResult;
    /// Ends what runs, saves, and unloads.
    SessionClose "session/close" Controllers Served (SessionParams) -> Empty;
    /// Closes, and removes the session's files.
    SessionDelete "session/delete" Controllers Served (SessionParams) -> Empty;
    /// Sends a user message.
    TurnSubmit "turn/submit" Controllers Served (TurnSubmitParams) -> TurnSubmitResult;
    /// Interrupts the running turn.
    TurnInterrupt "turn/interrupt" Controllers Served (TurnInterruptParams) -> TurnInterruptResult;
    /// Waits for a turn to end.
    TurnWait "turn/wait" Everyone Served (TurnWaitParams) -> crate::turn::TurnCompleted;
    /// Lists the prompts that wait.
    QueueList "queue/list" Everyone Served (SessionParams) -> QueueResult;
    /// Sends held prompts, or one of them.
    QueueSend "queue/send" Controllers Served (QueueSendParams) -> QueueResult;
    /// Replaces a waiting prompt's message.
    QueueEdit "queue/edit" Controllers Served (QueueEditParams) -> QueueResult;
    /// Takes a waiting prompt back.
    QueueRemove "queue/remove" Controllers Served (QueueRemoveParams) -> QueueResult;
    /// Lists open approvals.
    ApprovalList "approval/list" Everyone Served (InquiryListParams) -> ApprovalListResult;
    /// Answers an approval.
    ApprovalRespond "approval/respond" Controllers Served (ApprovalRespondParams) -> Empty;
    /// Lists open questions.
    QuestionList "question/list" Everyone Served (InquiryListParams) -> QuestionListResult;
    /// Answers a question.
    QuestionRespond "question/respond" Controllers Served (QuestionRespondParams) -> Empty;
    /// Sends a question away.
    QuestionDismiss "question/dismiss" Controllers Served (QuestionDismissParams) -> Empty;
    /// Lists the tools of the session's present mode.
    ToolList "tool/list" Everyone Served (SessionParams) -> ToolListResult;
    /// Runs a tool as the operator, through the same approval.
    ToolCallMethod "tool/call" Controllers Served (ToolCallParams) -> ToolCallResult;
    /// Lists models.
    ModelList "model/list" Everyone Served (Empty) -> ModelListResult;
    /// Trusts a workspace for good.
    WorkspaceTrust "workspace/trust" Controllers Served (WorkspaceParams) -> WorkspaceTrustResult;
    /// Takes trust back.
    WorkspaceUntrust "workspace/untrust" Controllers Served (WorkspaceParams) -> WorkspaceTrustResult;
    /// Says whether a workspace is trusted.
    WorkspaceTrustStatus "workspace/trustStatus" Controllers Served (WorkspaceParams) -> WorkspaceTrustResult;
    /// Gives the todo list.
    TodoList "todo/list" Everyone Served (SessionParams) -> TodoListResult;
    /// Gives tokens and cost.
    UsageGet "usage/get" Everyone Served (SessionParams) -> UsageGetResult;
    /// Copies a session, up to the last finished item of a busy one; the copy's event log starts anew.
    SessionFork "session/fork" Controllers NotYet (SessionParams) -> SessionResult;
    /// Summarises the older turns now.
    SessionCompact "session/compact" Controllers NotYet (SessionParams) -> SessionCompactResult;
    /// Gives a session as one document, or a piece of it, or writes it to a file.
    SessionExport "session/export" Everyone NotYet (SessionExportParams) -> SessionExportResult;
    /// Makes a session from an exported document.
    SessionImport "session/import" Controllers NotYet (SessionImportParams) -> SessionImportResult;
    /// Starts a background task of the operator's own, without approval.
    TaskStart "task/start" Controllers NotYet (TaskStartParams) -> TaskResult;
    /// Lists a session's background tasks.
    TaskList "task/list" Everyone NotYet (SessionParams) -> TaskListResult;
    /// Says how a background task is.
    TaskStatus "task/status" Everyone NotYet (TaskParams) -> TaskResult;
    /// Ends a background task; answers when its whole process tree is gone.
    TaskStop "task/stop" Controllers NotYet (TaskParams) -> TaskResult;
    /// Reads what a background task printed.
    TaskLogs "task/logs" Everyone NotYet (TaskLogsParams) -> TaskLogsResult;
    /// Reserves an image number, so that a message can name an image before it is there.
    ImageReserve "image/reserve" Controllers NotYet (SessionParams) -> ImageReserveResult;
    /// Attaches an image to the next message.
    ImageAttach "image/attach" Controllers NotYet (ImageAttachParams) -> ImageResult;
    /// Throws an image away that was not sent.
    ImageDiscard "image/discard" Controllers NotYet (ImageParams) -> Empty;
    /// Lists a session's images.
    ImageList "image/list" Everyone NotYet (SessionParams) -> ImageListResult;
    /// Gives an image with its bytes.
    ImageRead "image/read" Everyone NotYet (ImageParams) -> ImageReadResult;
    /// Lists exec tool sets.
    ToolsetList "toolset/list" Everyone NotYet (ToolsetParams) -> ToolsetListResult;
    /// Shows one exec tool set.
    ToolsetShow "toolset/show" Controllers NotYet (NamedToolsetParams) -> ToolsetListResult;
    /// Turns an exec tool set on.
    ToolsetEnable "toolset/enable" Controllers NotYet (NamedToolsetParams) -> ToolsetListResult;
    /// Turns an exec tool set off.
    ToolsetDisable "toolset/disable" Controllers NotYet (NamedToolsetParams) -> ToolsetListResult;
    /// Reads a session's exec tool sets again.
    ToolsetReload "toolset/reload" Controllers NotYet (SessionParams) -> ReloadResult;
    /// Lists plugins.
    PluginList "plugin/list" Everyone NotYet (ToolsetParams) -> PluginListResult;
    /// Shows one plugin.
    PluginShow "plugin/show" Controllers NotYet (NamedToolsetParams) -> PluginListResult;
    /// Turns a plugin on.
    PluginEnable "plugin/enable" Controllers NotYet (NamedToolsetParams) -> PluginListResult;
    /// Turns a plugin off.
    PluginDisable "plugin/disable" Controllers NotYet (NamedToolsetParams) -> PluginListResult;
    /// Starts a session's plugins anew.
    PluginReload "plugin/reload" Controllers NotYet (SessionParams) -> ReloadResult;
    /// Lists prompt sets, and which source each system text comes from.
    PromptsetList "promptset/list" Everyone NotYet (PromptsetParams) -> PromptsetListResult;
    /// Shows one prompt set.
    PromptsetShow "promptset/show" Controllers NotYet (NamedPromptsetParams) -> PromptsetListResult;
    /// Turns a prompt set on, and the others off.
    PromptsetEnable "promptset/enable" Controllers NotYet (NamedPromptsetParams) -> PromptsetListResult;
    /// Turns a prompt set off.
    PromptsetDisable "promptset/disable" Controllers NotYet (NamedPromptsetParams) -> PromptsetListResult;
    /// Lists prompt attachments, in their order.
    PromptAttachmentList "promptAttachment/list" Everyone NotYet (PromptAttachmentParams) -> PromptAttachmentListResult;
    /// Shows one prompt attachment.
    PromptAttachmentShow "promptAttachment/show" Controllers NotYet (NamedPromptAttachmentParams) -> PromptAttachmentListResult;
    /// Turns a prompt attachment on, behind those that are on.
    PromptAttachmentEnable "promptAttachment/enable" Controllers NotYet (NamedPromptAttachmentParams) -> PromptAttachmentListResult;
    /// Turns a prompt attachment off.
    PromptAttachmentDisable "promptAttachment/disable" Controllers NotYet (NamedPromptAttachmentParams) -> PromptAttachmentListResult;
    /// Moves a prompt attachment by one place.
    PromptAttachmentMove "promptAttachment/move" Controllers NotYet (PromptAttachmentMoveParams) -> PromptAttachmentListResult;
    /// Composes a prompt as it would be sent now.
    PromptRender "prompt/render" Everyone NotYet (PromptRenderParams) -> PromptRenderResult;
    /// Gives the configuration.
    ConfigGet "config/get" Everyone NotYet (Empty) -> ConfigResult;
    /// Changes the configuration and keeps the rest of the file.
    ConfigSet "config/set" Controllers NotYet (ConfigSetParams) -> ConfigResult;
    /// Stores a provider's key.
    CredentialSet "credential/set" Controllers NotYet (CredentialSetParams) -> Empty;
    /// Removes a provider's stored key.
    CredentialDelete "credential/delete" Controllers NotYet (CredentialDeleteParams) -> Empty;
    /// Says which providers have a key, and whence; never the key.
    CredentialList "credential/list" Everyone NotYet (Empty) -> CredentialListResult;
    /// Lists the permissions that were given for good.
    PermissionList "permission/list" Everyone NotYet (PermissionListParams) -> PermissionListResult;
    /// Takes one of them back.
    PermissionRevoke "permission/revoke" Controllers NotYet (PermissionRevokeParams) -> Empty;
}
