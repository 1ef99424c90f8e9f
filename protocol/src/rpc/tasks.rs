//! `task/*`: background shell tasks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{SessionId, TaskId},
    task::{Task, TaskState},
};

/// Parameters of `task/start`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskStartParams {
    /// The session.
    pub session: SessionId,
    /// The shell text to run.
    pub command: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Parameters of `task/status` and `task/stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskParams {
    /// The session.
    pub session: SessionId,
    /// The task.
    pub task: TaskId,
}

/// A result that is a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskResult {
    /// The task.
    pub task: Task,
}

/// Result of `task/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskListResult {
    /// The tasks, in the order in which they began.
    pub tasks: Vec<Task>,
}

/// Parameters of `task/logs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskLogsParams {
    /// The session.
    pub session: SessionId,
    /// The task.
    pub task: TaskId,
    /// Where to begin, in bytes of all that it printed; the oldest byte that is kept unless it says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// At most so many bytes; 65,536 unless it says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Wait for more, or for the end, when nothing is there yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
}

/// Result of `task/logs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskLogsResult {
    /// What it printed.
    pub data: String,
    /// Where `data` begins, in bytes of all that it printed.
    pub offset: u64,
    /// Where to read on.
    pub next_offset: u64,
    /// Bytes before `data` that are no longer kept.
    pub dropped_bytes: u64,
    /// How far the task is.
    pub state: TaskState,
}
