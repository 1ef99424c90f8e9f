//! Unified diffs for people and models.

use std::time::Duration;

use similar::TextDiff;

use crate::stdx::visible::escape_invisible_lines;

/// Lines of context around a change.
const CONTEXT_LINES: usize = 3;

/// How long to look for the shortest diff; after it a longer one is good enough.
const SEARCH_TIME: Duration = Duration::from_millis(500);

/// The change of a file from `old` to `new` (`None`: there was no file) as a unified diff. Where every line of both ends
/// in CRLF the ends are not shown. Blocks for up to a second on large files.
pub fn unified(name: &str, old: Option<&str>, new: &str) -> String {
    let (before, after) = (old.unwrap_or_default(), new);
    let (before, after) = if all_crlf(before) && all_crlf(after) {
        (before.replace("\r\n", "\n"), after.replace("\r\n", "\n"))
    } else {
        (before.to_owned(), after.to_owned())
    };
    let diff = TextDiff::configure()
        .timeout(SEARCH_TIME)
        .diff_lines(before.as_str(), after.as_str());
    let from = if old.is_some() { name } else { "/dev/null" };
    diff.unified_diff()
        .context_radius(CONTEXT_LINES)
        .header(from, name)
        .to_string()
}

/// A diff as it is shown to a person who decides: nothing in it is invisible.
pub fn for_people(diff: &str) -> String {
    escape_invisible_lines(diff)
}

/// Whether two diffs make the same change of the same lines, though these may stand elsewhere in the file by now.
pub fn same_change(one: &str, other: &str) -> bool {
    fn lines(diff: &str) -> impl Iterator<Item = &str> {
        diff.lines()
            .map(|line| if line.starts_with("@@ ") { "@@" } else { line })
    }
    lines(one).eq(lines(other))
}

fn all_crlf(text: &str) -> bool {
    let breaks = text.matches('\n').count();
    breaks > 0 && breaks == text.matches("\r\n").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_and_a_new_file_are_shown_in_the_usual_form() {
        assert_eq!(
            unified("a", Some("x\ny\n"), "x\nz\n"),
            "--- a\n+++ a\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n"
        );
        assert!(unified("a", None, "x\n").starts_with("--- /dev/null\n+++ a\n"));
        assert!(unified("a", Some("x"), "x\n").contains("No newline at end of file"));
    }

    #[test]
    fn line_ends_are_shown_only_where_they_matter() {
        assert!(!unified("a", Some("x\r\n"), "y\r\n").contains('\r'));
        assert!(for_people(&unified("a", Some("x\n"), "x\r\n")).contains("+x\\r\n"));
    }

    #[test]
    fn a_change_that_moved_is_the_same_change() {
        let one = unified("a", Some("1\n2\n3\n4\nx\n"), "1\n2\n3\n4\ny\n");
        let moved = unified("a", Some("0\n1\n2\n3\n4\nx\n"), "0\n1\n2\n3\n4\ny\n");
        assert_ne!(one, moved);
        assert!(same_change(&one, &moved));
        assert!(!same_change(&one, &unified("a", Some("x\n"), "z\n")));
    }
}
