//! Homes and records for the tests of this module.

use std::path::PathBuf;

use crystal_protocol::{
    approval::ApprovalMode,
    home::Home,
    ids::{CallId, SessionId, TurnId},
    item::{InputKind, Item, ItemBody, ToolCall, ToolCallStatus},
    session::{Mode, Thinking},
    time::Timestamp,
    turn::{Turn, TurnCompleted, TurnReason, Usage},
};

use super::{
    head::item_id,
    record::{Record, Settings},
};
use crate::home::HomePaths;

pub(super) fn home() -> (tempfile::TempDir, HomePaths) {
    let dir = tempfile::tempdir().unwrap();
    let paths = HomePaths::new(Home::locate(Some(dir.path())).unwrap());
    (dir, paths)
}

pub(super) fn session(id: &str) -> SessionId {
    SessionId::new(id)
}

pub(super) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(super) fn settings(title: &str) -> Settings {
    Settings {
        title: title.to_owned(),
        workspace: PathBuf::from("/w"),
        add_directories: Vec::new(),
        mode: Mode::Work,
        approval: ApprovalMode::Default,
        provider: "demo".to_owned(),
        model: "demo".to_owned(),
        thinking: Thinking::Default,
    }
}

pub(super) fn created(id: &SessionId) -> Record {
    Record::Created {
        id: id.clone(),
        at: at(1_000),
        settings: settings("first"),
    }
}

fn item(number: u64, body: ItemBody) -> Item {
    Item {
        id: item_id(number),
        turn: None,
        created_at: at(2_000),
        completed_at: Some(at(3_000)),
        cut: None,
        body,
    }
}

pub(super) fn message(number: u64, text: &str) -> Item {
    item(
        number,
        ItemBody::AssistantMessage {
            text: text.to_owned(),
            finish: None,
        },
    )
}

pub(super) fn call(number: u64, status: ToolCallStatus) -> Item {
    item(
        number,
        ItemBody::ToolCall(ToolCall {
            call_id: CallId::new(format!("c{number}")),
            name: "read".to_owned(),
            title: "read".to_owned(),
            input_kind: InputKind::Json,
            arguments: "{}".to_owned(),
            status,
            output: None,
            output_truncated: None,
            images: None,
            exit_code: None,
            duration_ms: None,
            approval: None,
        }),
    )
}

pub(super) fn finished(item: Item) -> Record {
    Record::ItemFinished {
        item,
        round: 1,
        replay: None,
    }
}

pub(super) fn turn_started(number: u64) -> Record {
    Record::TurnStarted {
        turn: Turn {
            id: TurnId::new(format!("t{number}")),
            started_at: at(4_000),
            prompt: item_id(number),
        },
    }
}

pub(super) fn turn_ended(number: u64) -> Record {
    Record::TurnEnded {
        result: TurnCompleted {
            turn: TurnId::new(format!("t{number}")),
            reason: TurnReason::Completed,
            usage: Usage::default(),
            model_rounds: 1,
            tool_calls: 0,
            duration_ms: 1,
            error: None,
        },
        took: Vec::new(),
        at: at(5_000),
    }
}
