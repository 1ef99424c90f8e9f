//! Nothing but what was meant changes.

use proptest::prelude::*;

use super::*;

fn one(bytes: &[u8], old: &str, new: &str) -> Result<Vec<u8>, ReplaceFault> {
    replace(bytes, old, new, Places::One).map(|replaced| replaced.bytes)
}

#[test]
fn the_one_place_is_replaced_and_several_are_named_by_line() {
    assert_eq!(one(b"a\nb\nc", "b", "x").unwrap(), b"a\nx\nc");
    assert_eq!(
        one(b"a\nb\na", "a", "x"),
        Err(ReplaceFault::Several(vec![1, 3]))
    );
    assert_eq!(one(b"a", "b", "x"), Err(ReplaceFault::NoMatch));
    assert_eq!(
        one(b"aaa", "aa", "x"),
        Err(ReplaceFault::Several(vec![1, 1]))
    );
    let all = replace(b"a b a", "a", "x", Places::All).unwrap();
    assert_eq!((all.bytes.as_slice(), all.count), (&b"x b x"[..], 2));
}

#[test]
fn line_breaks_match_either_kind_and_take_on_what_is_there() {
    assert_eq!(
        one(b"a\r\nb\r\n", "a\nb\n", "a\nx\ny\n").unwrap(),
        b"a\r\nx\r\ny\r\n"
    );
    assert_eq!(one(b"a\nb\n", "a\nb", "a\nx\nb").unwrap(), b"a\nx\nb\n");
}

#[test]
fn mixed_line_ends_stay_as_they_are_around_the_change() {
    assert_eq!(
        one(b"a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "a\nB\nc\nd").unwrap(),
        b"a\r\nB\nc\r\nd\n"
    );
    assert_eq!(one(b"a\nb\r\n", "b", "b\nc").unwrap(), b"a\nb\r\nc\r\n");
}

#[test]
fn line_ends_can_be_changed_by_naming_them() {
    assert_eq!(one(b"a\r\nb", "a\r\nb", "a\nb").unwrap(), b"a\nb");
    assert_eq!(one(b"a\nb", "a\nb", "a\r\nb").unwrap(), b"a\r\nb");
    assert_eq!(
        one(b"a\r\nb", "a\nb", "a\r\nb"),
        Err(ReplaceFault::NoChange)
    );
}

#[test]
fn a_text_that_begins_with_a_line_break_is_found_once() {
    assert_eq!(one(b"a\r\nb", "\nb", "\nx").unwrap(), b"a\r\nx");
    assert_eq!(one(b"a\r\nb\r\n", "\nb\n", "\n").unwrap(), b"a\r\n");
}

#[test]
fn a_mark_and_invalid_bytes_and_a_missing_last_line_end_stay() {
    assert_eq!(
        one(b"\xef\xbb\xbfa\xff\nb", "b", "c").unwrap(),
        b"\xef\xbb\xbfa\xff\nc"
    );
    assert_eq!(
        one(b"\xef\xbb\xbfa", "a", "b\nc").unwrap(),
        b"\xef\xbb\xbfb\nc"
    );
}

#[test]
fn wide_text_is_edited_in_its_own_encoding() {
    for (encoding, mark) in [
        (Encoding::Utf16Le, b"\xff\xfe"),
        (Encoding::Utf16Be, b"\xfe\xff"),
    ] {
        let file = |text: &str| [&mark[..], &encoding.encode(text)].concat();
        assert_eq!(
            one(&file("é\r\nb🎈\r\n"), "b🎈\n", "c\nd\n").unwrap(),
            file("é\r\nc\r\nd\r\n")
        );
        // Bytes that look like the text across two characters are not it.
        let decoy = [&mark[..], b"\x61\x00\x62\x00\x61"].concat();
        assert_eq!(
            one(&decoy, "\u{6200}", "x").is_err(),
            encoding == Encoding::Utf16Le
        );
    }
}

fn some_text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(vec![0xff]),
        "[a-cé]{0,4}".prop_map(String::into_bytes),
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn bytes_outside_the_edited_range_never_change(
        head in some_text(),
        old in "[x-z]([a-c\n]{0,6}[x-z])?",
        tail in some_text(),
        new in "[a-z\n]{0,8}",
        crlf: bool,
    ) {
        let lying = if crlf { old.replace('\n', "\r\n") } else { old.clone() };
        let file = [&head, lying.as_bytes(), &tail].concat();
        match one(&file, &old, &new) {
            Ok(result) => {
                prop_assert!(result.starts_with(&head));
                prop_assert!(result.ends_with(&tail));
                let inner = &result[head.len()..result.len() - tail.len()];
                prop_assert_eq!(String::from_utf8_lossy(inner).replace("\r\n", "\n"), new);
            }
            Err(fault) => prop_assert!(fault == ReplaceFault::NoChange && old == new, "{:?}", fault),
        }
    }

    #[test]
    fn replacing_by_itself_changes_nothing(head in some_text(), old in "[x-z][a-c\n]{0,6}", tail in some_text()) {
        let file = [&head, old.as_bytes(), &tail].concat();
        prop_assert_eq!(one(&file, &old, &old), Err(ReplaceFault::NoChange));
    }
}
