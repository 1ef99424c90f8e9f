//! The house rules that a machine can check, over every file that git knows.
// Helpers of tests fail a test by panicking, as the tests themselves do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{collections::BTreeSet, path::Path, process::Command};

use crystal_tests::home::workspace_root;

/// Longest production file, in lines.
const FILE_LINES: usize = 500;

/// The modules of the daemon, and which others each may name. Unlisted ones may be named by nobody but the top.
const LAYERS: &[(&str, &[&str])] = &[
    ("stdx", &[]),
    ("limits", &[]),
    ("terms", &["stdx", "limits"]),
    ("home", &["stdx", "limits", "terms"]),
    ("config", &["stdx", "limits", "terms", "home"]),
    ("providers", &["stdx", "limits", "terms", "home", "config"]),
    ("store", &["stdx", "limits", "terms", "home", "config"]),
    ("prompts", &["stdx", "limits", "terms", "home", "config"]),
    ("tools", &["stdx", "limits", "terms", "home", "config"]),
    (
        "approvals",
        &[
            "stdx",
            "limits",
            "terms",
            "home",
            "config",
            "providers",
            "prompts",
            "tools",
        ],
    ),
    (
        "engine",
        &[
            "stdx",
            "limits",
            "terms",
            "home",
            "config",
            "providers",
            "store",
            "prompts",
            "tools",
            "approvals",
        ],
    ),
    (
        "hub",
        &[
            "stdx", "limits", "terms", "home", "config", "engine", "store", "tools",
        ],
    ),
    (
        "rpc",
        &[
            "stdx", "limits", "terms", "home", "config", "prompts", "engine", "hub",
        ],
    ),
    (
        "transport",
        &["stdx", "limits", "terms", "home", "engine", "hub", "rpc"],
    ),
];

/// Modules that may name all others.
const TOP: &[&str] = &["lifecycle", "wiring", "main", "lib"];

/// Module names that say nothing.
const EMPTY_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc"];

/// A file of the repository.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Tests may be longer, and may say anything.
    fn is_test(&self) -> bool {
        self.path.starts_with("tests/")
            || self.path.ends_with("/tests.rs")
            || self.path.contains("/tests/")
            || self.path.contains("/benches/")
    }

    /// The text without its inline test module.
    fn production(&self) -> &str {
        self.text
            .find("\n#[cfg(test)]\nmod tests {")
            .map_or(&self.text, |at| &self.text[..at])
    }
}

fn git_files() -> Vec<String> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(workspace_root())
        .output()
        .expect("git can be run");
    assert!(output.status.success(), "git ls-files failed");
    let text = String::from_utf8(output.stdout).expect("paths are UTF-8");
    let paths = text.split('\0').filter(|path| !path.is_empty());
    // A file that was removed and not yet committed is still listed.
    paths
        .filter(|path| workspace_root().join(path).is_file())
        .map(str::to_owned)
        .collect()
}

fn sources() -> Vec<Source> {
    let read = |path: String| {
        let bytes = std::fs::read(workspace_root().join(&path)).expect("a listed file can be read");
        let text = String::from_utf8(bytes).ok()?;
        Some(Source { path, text })
    };
    git_files().into_iter().filter_map(read).collect()
}

fn rust_sources() -> Vec<Source> {
    sources().into_iter().filter(Source::is_rust).collect()
}

#[track_caller]
fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn production_files_are_short() {
    let long = |source: &Source| {
        let lines = source.production().lines().count();
        (lines > FILE_LINES)
            .then(|| format!("{}: {lines} lines, at most {FILE_LINES}", source.path))
    };
    let sources = rust_sources();
    let faults: Vec<String> = sources
        .iter()
        .filter(|source| !source.is_test())
        .filter_map(long)
        .collect();
    assert_none(&faults);
}

#[test]
fn every_file_begins_with_what_it_is_for() {
    let bare = |source: &Source| {
        let begins = source.text.starts_with("//!") || source.text.starts_with("#!");
        (!begins).then(|| source.path.clone())
    };
    let faults: Vec<String> = rust_sources().iter().filter_map(bare).collect();
    assert_none(&faults);
}

#[test]
fn nothing_is_left_for_later() {
    // Written in two parts, so that this file does not accuse itself.
    let words = [
        ["to", "do!("],
        ["unimple", "mented!("],
        ["TO", "DO"],
        ["FIX", "ME"],
        ["XX", "X:"],
    ];
    let words: Vec<String> = words.iter().map(|parts| parts.concat()).collect();
    let mut faults = Vec::new();
    for source in rust_sources() {
        for (number, line) in source.text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word.as_str())) {
                faults.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn no_module_has_an_empty_name() {
    let empty = |source: &Source| {
        let path = Path::new(&source.path);
        let stem = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        let parent = path
            .parent()
            .and_then(Path::file_name)
            .and_then(|name| name.to_str());
        let hit = EMPTY_NAMES.contains(&stem) || EMPTY_NAMES.contains(&parent.unwrap_or_default());
        hit.then(|| source.path.clone())
    };
    let faults: Vec<String> = rust_sources().iter().filter_map(empty).collect();
    assert_none(&faults);
}

#[test]
fn no_channel_is_unbounded() {
    let word = ["unbounded", "_channel"].concat();
    let unbounded = |source: &Source| source.text.contains(&word).then(|| source.path.clone());
    let faults: Vec<String> = rust_sources().iter().filter_map(unbounded).collect();
    assert_none(&faults);
}

/// The top-level modules that a text names by `crate::X`.
fn named_modules(text: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    let mut note = |rest: &str| {
        let name: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        if name.chars().next().is_some_and(char::is_lowercase) {
            named.insert(name);
        }
    };
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default();
        for (at, _) in code.match_indices("crate::") {
            let glued = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            if !glued {
                note(&code[at + "crate::".len()..]);
            }
        }
    }
    // `use crate::{a::B, c}` over one line or several.
    for (at, found) in text.match_indices("crate::{") {
        let mut depth = 1_usize;
        let mut begins = true;
        let body = &text[at + found.len()..];
        for (place, c) in body.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            if depth == 1 && begins && (c.is_alphabetic() || c == '_') {
                note(&body[place..]);
            }
            begins = depth == 1 && (c == ',' || (begins && c.is_whitespace()));
        }
    }
    named
}

/// The top-level module of the daemon that a file belongs to.
fn module_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("daemon/src/")?;
    inside
        .split('/')
        .next()
        .map(|first| first.trim_end_matches(".rs"))
}

#[test]
fn daemon_modules_name_only_lower_layers() {
    let known =
        |name: &str| TOP.contains(&name) || LAYERS.iter().any(|(module, _)| *module == name);
    let mut faults = Vec::new();
    for source in rust_sources() {
        let Some(module) = module_of(&source.path) else {
            continue;
        };
        if TOP.contains(&module) {
            continue;
        }
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == module) else {
            faults.push(format!("{}: module {module} is in no layer", source.path));
            continue;
        };
        for name in named_modules(&source.text) {
            if name != module && known(&name) && !allowed.contains(&name.as_str()) {
                faults.push(format!("{}: {module} may not name {name}", source.path));
            }
        }
        if module == "stdx" && source.text.contains("crystal_protocol") {
            faults.push(format!(
                "{}: stdx knows nothing of the protocol",
                source.path
            ));
        }
    }
    assert_none(&faults);
}

#[test]
fn module_names_are_found_in_every_form() {
    let text = "use crate::{\n    a::B,\n    c::{self, D}, e,\n};\nuse crate::f::G;\nlet x = crate::h::i(); // crate::no\nmycrate::no2::x();\nuse crate::Root;";
    let named: Vec<String> = named_modules(text).into_iter().collect();
    assert_eq!(named, ["a", "c", "e", "f", "h"]);
}

#[test]
fn the_layer_table_has_no_cycle() {
    for (index, (module, allowed)) in LAYERS.iter().enumerate() {
        for name in *allowed {
            let place = LAYERS.iter().position(|(other, _)| other == name);
            assert!(
                place.is_some_and(|place| place < index),
                "{module} names {name}, which is not below it"
            );
        }
    }
}

/// Whether a text in backticks looks like a path of this repository.
fn looks_like_a_path(text: &str, roots: &BTreeSet<String>) -> bool {
    let plain = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let (first, nested) = text
        .split_once('/')
        .map_or((text, false), |(first, _)| (first, true));
    plain && nested && roots.contains(first)
}

#[test]
fn paths_named_in_the_documents_exist() {
    let files = git_files();
    let roots: BTreeSet<String> = files
        .iter()
        .filter_map(|path| path.split_once('/'))
        .map(|(root, _)| root.to_owned())
        .collect();
    let mut faults = Vec::new();
    for source in sources()
        .iter()
        .filter(|source| !source.path.contains('/') && source.path.ends_with(".md"))
    {
        for named in source.text.split('`').skip(1).step_by(2) {
            if looks_like_a_path(named, &roots) && !workspace_root().join(named).exists() {
                faults.push(format!("{}: there is no {named}", source.path));
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn nothing_refers_to_what_is_not_in_the_repository() {
    let words = [["../", "shared"], ["/work", "/"]].map(|parts| parts.concat());
    let mut faults = Vec::new();
    for source in sources() {
        for (number, line) in source.text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word.as_str())) {
                faults.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    assert_none(&faults);
}
