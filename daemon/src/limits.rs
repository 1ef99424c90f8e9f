//! Numbers that a user can observe. Those of the wire are in `crystal_protocol::limits`.
//! Source: daemon/README.md, "Limits".

use std::time::Duration;

/// The model's view of a tool result, in characters; head and tail are kept, the cut says how much is missing.
pub const TOOL_OUTPUT_CHARS: usize = 100_000;

/// Lines that one `read` gives at most.
pub const READ_LINES: usize = 20_000;

/// A single line in `read` is cut after so many characters, with a mark.
pub const READ_LINE_CHARS: usize = 2_000;

/// Paths that one `glob` gives at most.
pub const GLOB_PATHS: usize = 1_000;

/// Matches that one `grep` gives at most.
pub const GREP_MATCHES: usize = 500;

/// Largest file that `grep` searches, in bytes.
pub const GREP_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// Entries that one `list` gives at most.
pub const LIST_ENTRIES: usize = 5_000;

/// Largest content that `write` takes, in bytes.
pub const WRITE_BYTES: usize = 2 * 1024 * 1024;

/// Largest file that `edit` takes, in bytes.
pub const EDIT_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// How long a foreground `bash` may run unless configured otherwise.
pub const BASH_TIMEOUT: Duration = Duration::from_secs(120);

/// Between TERM and KILL for a process group, and how long a call may go on after its main process ended.
pub const KILL_GRACE: Duration = Duration::from_secs(2);

/// Model rounds of one turn unless configured otherwise.
pub const TURN_MODEL_CALLS: u64 = 1024;

/// Tool calls of one turn unless configured otherwise.
pub const TURN_TOOL_CALLS: u64 = 8192;

/// Duration of one turn unless configured otherwise.
pub const TURN_DURATION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Attempts at one model round.
pub const MODEL_ATTEMPTS: u32 = 8;

/// Event and id numbers reserved in the log ahead of use.
pub const RESERVED_AHEAD: u64 = 4096;

/// Streamed text reaches the log at least this often.
pub const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// A loaded session without clients, turn, tasks or open prompts is unloaded after this long.
pub const SESSION_IDLE: Duration = Duration::from_secs(10 * 60);

/// The daemon exits after this long with nothing alive, unless configured otherwise.
pub const IDLE_EXIT: Duration = Duration::from_secs(30 * 60);

/// Tool calls of one batch that run at the same time.
pub const CONCURRENT_CALLS: usize = 8;

/// The part of a model's context window that may be full before older turns are summarised, unless configured otherwise.
pub const COMPACTION_THRESHOLD: f64 = 0.8;

/// Of the context budget older turns may keep this part when a summary is made; what does not fit is folded.
pub const COMPACTION_TAIL: f64 = 0.25;
