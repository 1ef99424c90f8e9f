//! The lines of a file that are most like a text that is not in it.

use std::time::{Duration, Instant};

use similar::TextDiff;

use super::read::push_line;

/// Places shown.
const SHOWN_PLACES: usize = 3;

/// Lines shown at each place; as many as the text has, up to so many.
const SHOWN_LINES: usize = 10;

/// A line is compared, and shown, up to so many characters.
const COMPARED_CHARS: usize = 200;

/// How like a line must be, from 0 to 1.
const LIKENESS: f32 = 0.6;

/// How long to look.
const SEARCH_TIME: Duration = Duration::from_secs(1);

/// Sentences on what of `file` is like `wanted`; empty when nothing is.
pub fn describe(file: &str, wanted: &str) -> String {
    let mut text = String::new();
    if looks_numbered(wanted) {
        text.push_str(" `old_string` seems to hold the line numbers of `read`; leave them out.");
    } else if squeezed(file).contains(&squeezed(wanted)) {
        text.push_str(
            " It would match but for white space; look at the indentation and line breaks.",
        );
    }
    let lines: Vec<&str> = file.lines().collect();
    let places = nearest(&lines, wanted);
    if places.is_empty() {
        return text;
    }
    text.push_str(" The nearest lines:\n");
    let shown = wanted.lines().count().clamp(1, SHOWN_LINES);
    for (at, place) in places.iter().enumerate() {
        if at > 0 {
            text.push_str("   ...\n");
        }
        for (number, line) in lines.iter().enumerate().skip(*place).take(shown) {
            push_line(&mut text, number + 1, head(line));
            text.push('\n');
        }
    }
    text
}

/// Indices of the lines at which a text like `wanted` may begin, in the order of the file.
fn nearest(lines: &[&str], wanted: &str) -> Vec<usize> {
    // The longest line tells most.
    let Some((offset, probe)) = wanted
        .lines()
        .enumerate()
        .map(|(at, line)| (at, head(line.trim())))
        .max_by_key(|(at, line)| (line.len(), std::cmp::Reverse(*at)))
        .filter(|(_, line)| !line.is_empty())
    else {
        return Vec::new();
    };
    let letters = letters_of(probe);
    let started = Instant::now();
    let mut rated: Vec<(f32, usize)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if started.elapsed() > SEARCH_TIME {
            break;
        }
        let line = head(line.trim());
        let least = match rated.get(SHOWN_PLACES - 1) {
            Some((worst, _)) => worst.max(LIKENESS),
            None => LIKENESS,
        };
        if best_possible(&letters, &letters_of(line)) < least {
            continue;
        }
        let likeness = TextDiff::from_chars(probe, line).ratio();
        if likeness >= least {
            let place = rated.partition_point(|(other, _)| *other >= likeness);
            rated.insert(place, (likeness, at.saturating_sub(offset)));
            rated.truncate(SHOWN_PLACES);
        }
    }
    let mut places: Vec<usize> = rated.into_iter().map(|(_, at)| at).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// Counts by the low bits of each character: cheap to compare.
fn letters_of(line: &str) -> [u16; 64] {
    let mut letters = [0u16; 64];
    for c in line.chars() {
        let slot = &mut letters[c as usize % 64];
        *slot = slot.saturating_add(1);
    }
    letters
}

/// No order of the characters makes two lines more alike than this.
fn best_possible(one: &[u16; 64], other: &[u16; 64]) -> f32 {
    let total: u32 = one.iter().chain(other).map(|count| u32::from(*count)).sum();
    let shared: u32 = one
        .iter()
        .zip(other)
        .map(|(a, b)| u32::from(*a.min(b)))
        .sum();
    if total == 0 {
        return 0.0;
    }
    2.0 * shared as f32 / total as f32
}

fn head(line: &str) -> &str {
    line.char_indices()
        .nth(COMPARED_CHARS)
        .map_or(line, |(at, _)| &line[..at])
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn looks_numbered(text: &str) -> bool {
    let numbered = |line: &str| {
        line.split_once('\t').is_some_and(|(number, _)| {
            !number.trim().is_empty() && number.trim().bytes().all(|b| b.is_ascii_digit())
        })
    };
    text.lines().next().is_some() && text.lines().all(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_lines_are_shown_with_their_numbers() {
        let file = "fn alpha() {}\nfn beta(x: u32) {}\nfn gamma() {}\n";
        let text = describe(file, "fn beta(x: u64) {}");
        assert!(text.contains("     2\tfn beta(x: u32) {}"), "{text}");
    }

    #[test]
    fn white_space_and_line_numbers_are_recognised() {
        assert!(describe("if x {\n\treturn\n}\n", "if x {\n    return\n}").contains("white space"));
        assert!(describe("abc\n", "     1\tabc").contains("line numbers"));
        assert_eq!(describe("abc\n", "zzzzzz"), "");
    }
}
