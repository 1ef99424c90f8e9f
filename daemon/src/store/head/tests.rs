//! Tests of the fold.

use super::*;
use crate::store::samples::{
    at, call, finished, message, session, settings, turn_ended, turn_started,
};
use crystal_protocol::{
    approval::{Approval, Authority, Risk},
    ids::{ApprovalId, CallId, TurnId},
    item::{ItemField, ToolCallStatus},
};

fn folded(records: &[Record]) -> Head {
    let mut head = Head::new(session("s1"), at(0), settings(""));
    for (offset, record) in (0..).zip(records) {
        head.apply(record, offset, offset + 1);
    }
    head
}

fn streamed(item: Item) -> Record {
    Record::Progress {
        item: item.id.clone(),
        started: Some(Box::new(item)),
        round: 1,
        field: ItemField::Arguments,
        delta: "{".to_owned(),
    }
}

#[test]
fn a_call_counts_once_it_was_made_whole_and_not_when_an_attempt_was_discarded() {
    let pending = |number| call(number, ToolCallStatus::Pending);
    let head = folded(&[
        turn_started(1),
        streamed(pending(2)),
        Record::ItemDiscarded { item: item_id(2) },
        streamed(pending(3)),
        Record::CallOpened {
            item: pending(3),
            round: 1,
        },
    ]);
    let turn = head.open_turn.unwrap();
    assert_eq!(turn.calls, 1);
    assert_eq!(turn.open_items.len(), 1);
    assert_eq!(turn.open_items[0].item, pending(3));
}

#[test]
fn an_approval_does_not_outlive_its_turn() {
    let opened = |turn: Option<&str>| Record::ApprovalOpened {
        approval: Box::new(Approval {
            id: ApprovalId::new("a"),
            turn: turn.map(TurnId::new),
            call_id: CallId::new("c"),
            tool: "bash".to_owned(),
            title: String::new(),
            arguments: Value::Null,
            risk: Risk::Write,
            authority: Authority::Workspace,
            reason: String::new(),
            summary: String::new(),
            preview: None,
            offered: Vec::new(),
            rules: Default::default(),
            review: None,
            requested_at: at(0),
        }),
        item: item_id(2),
        rule: None,
    };
    let open = |records: &[Record]| folded(records).approvals.len();
    assert_eq!(open(&[turn_started(1), opened(Some("t1"))]), 1);
    assert_eq!(
        open(&[turn_started(1), opened(Some("t1")), turn_ended(1)]),
        0
    );
    assert_eq!(
        open(&[turn_started(1), opened(Some("t1")), turn_started(9)]),
        0
    );
    assert_eq!(open(&[opened(None), turn_started(1)]), 1);
}

#[test]
fn marks_tell_the_numbers_between_them() {
    let numbers = (1..=300).map(|number| {
        if number % 2 == 0 {
            number - 1
        } else {
            number + 1
        }
    });
    let records: Vec<_> = numbers.map(|n| finished(message(n, ""))).collect();
    let index = folded(&records).item_index;
    assert_eq!(index.len(), 2);
    assert_eq!(
        (index[0].first, index[0].last, index[0].offset),
        (1, 256, 0)
    );
    assert_eq!(
        (index[1].first, index[1].last, index[1].items),
        (257, 300, 256)
    );
}
