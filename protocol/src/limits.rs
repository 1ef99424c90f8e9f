//! Bounds that both sides of the wire keep. Source: protocol/README.md, "Bounds".

/// Longest message in bytes, its newline not counted.
pub const MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Longest message in bytes before a connection is initialized: a stranger may not make us buffer more.
pub const MESSAGE_BYTES_BEFORE_INITIALIZE: usize = 1024 * 1024;

/// How far into an oversize line the server looks for the request's id, in bytes.
pub const ID_SALVAGE_BYTES: usize = 4 * 1024;

/// All unfinished lines of all connections together, in bytes; beyond it, reading pauses.
pub const UNFINISHED_LINES_BYTES: usize = 256 * 1024 * 1024;

/// Requests in flight on one connection; beyond it, reading pauses.
pub const REQUESTS_IN_FLIGHT: usize = 1024;

/// Largest item field in a snapshot or page, in bytes; a longer one keeps its end and is read whole with `session/item`.
pub const ITEM_FIELD_BYTES: usize = 256 * 1024;

/// Items in a snapshot or page stop at this many bytes (`hasMore`).
pub const SNAPSHOT_ITEMS_BYTES: usize = 8 * 1024 * 1024;

/// Items in a snapshot when the client names no number.
pub const SNAPSHOT_ITEMS: usize = 200;

/// Most items in one page of `session/items`.
pub const PAGE_ITEMS: usize = 1000;

/// The retained window of a session's event log, in bytes of serialised events.
pub const EVENT_WINDOW_BYTES: usize = 16 * 1024 * 1024;

/// Largest `output` or `taskOutput` delta, in bytes.
pub const OUTPUT_DELTA_BYTES: usize = 64 * 1024;

/// Output that one producer may send as events, in bytes a second; the rest is counted as `skipped`.
pub const OUTPUT_BYTES_PER_SECOND: usize = 1024 * 1024;

/// Largest image, in bytes.
pub const IMAGE_BYTES: usize = 20 * 1024 * 1024;

/// Background tasks that may be active in one session.
pub const ACTIVE_TASKS: usize = 32;

/// Largest message of a user, in bytes of its texts and paths.
pub const PROMPT_BYTES: usize = 4 * 1024 * 1024;

/// All prompts that wait in one session, in bytes.
pub const QUEUE_BYTES: usize = 16 * 1024 * 1024;

/// Shortest session prefix that a call may use, in characters.
pub const SESSION_PREFIX_CHARS: usize = 4;

/// Results of turns and decisions of approvals are kept for this many turns.
pub const KEPT_TURNS: usize = 100;

/// Output of a background task that is kept, in bytes; the oldest goes first.
pub const TASK_BUFFER_BYTES: u64 = 1024 * 1024;
