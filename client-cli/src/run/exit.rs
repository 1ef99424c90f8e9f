//! Exit codes of a headless run.

use crystal_protocol::{client::ClientError, error::ErrorKind, turn::TurnReason};

/// How a run ended, as its exit code says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The model was done.
    Done = 0,
    /// Nothing could be begun: command, configuration, credentials, workspace; or the answer has not the form of
    /// `--json-schema`.
    Invalid = 1,
    /// The model request failed, or a content filter stopped it.
    ModelFailed = 2,
    /// A limit, the context window, or the model's output bound.
    Limit = 3,
    /// The model was done, but something that had to be asked was denied or dismissed.
    Denied = 4,
    /// Somebody interrupted it.
    Interrupted = 5,
}

impl Exit {
    /// The code.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// Of a turn that ended.
    pub(crate) fn of_turn(reason: TurnReason, denied: bool) -> Self {
        match reason {
            TurnReason::Completed if denied => Self::Denied,
            TurnReason::Completed => Self::Done,
            TurnReason::Interrupted => Self::Interrupted,
            TurnReason::Error | TurnReason::ContentFilter => Self::ModelFailed,
            TurnReason::Length
            | TurnReason::ModelCallLimit
            | TurnReason::ToolCallLimit
            | TurnReason::DurationLimit
            | TurnReason::ContextOverflow => Self::Limit,
        }
    }

    /// Of a call that the daemon refused.
    pub(crate) fn of_error(error: &ClientError) -> Self {
        match error.rpc().and_then(|error| error.kind()) {
            Some(ErrorKind::Provider) => Self::ModelFailed,
            Some(ErrorKind::LimitReached) => Self::Limit,
            _ => Self::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_code() {
        let table = [
            (TurnReason::Completed, 0),
            (TurnReason::Interrupted, 5),
            (TurnReason::Length, 3),
            (TurnReason::ContentFilter, 2),
            (TurnReason::ModelCallLimit, 3),
            (TurnReason::ToolCallLimit, 3),
            (TurnReason::DurationLimit, 3),
            (TurnReason::ContextOverflow, 3),
            (TurnReason::Error, 2),
        ];
        for (reason, code) in table {
            assert_eq!(Exit::of_turn(reason, false).code(), code, "{reason:?}");
            let denied = if code == 0 { 4 } else { code };
            assert_eq!(Exit::of_turn(reason, true).code(), denied, "{reason:?}");
        }
    }
}
