//! The environment of the processes that a session starts: its client's, without what is not theirs to know, and with
//! what keeps programs from waiting for a terminal that is not there.

use std::collections::{BTreeMap, BTreeSet};

/// Variables that are Crystal's own.
const OWN: &[&str] = &["CRYSTAL_HOME", "CRYSTAL_API_KEY"];

/// What is set for every process: nothing pages, edits, asks for a password or draws.
const UNATTENDED: &[(&str, &str)] = &[
    ("CI", "1"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("EDITOR", "true"),
    ("GIT_ASKPASS", "true"),
    ("GIT_EDITOR", "true"),
    ("GIT_PAGER", "cat"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("MANPAGER", "cat"),
    ("PAGER", "cat"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("SYSTEMD_PAGER", "cat"),
    ("TERM", "dumb"),
    ("VISUAL", "true"),
];

/// What the user's configuration says about a variable of the child's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Override {
    /// It has this value.
    Set(String),
    /// It stays as the client has it, or absent.
    Keep,
}

/// The environment for a session's processes, made of its client's. Variables in `key_variables`, those named `OWN` and
/// names that no process could take are left out, whatever `overrides` says.
pub fn child_environment(
    client: &BTreeMap<String, String>,
    key_variables: &BTreeSet<String>,
    overrides: &BTreeMap<String, Override>,
) -> BTreeMap<String, String> {
    let mut environment = client.clone();
    for (name, value) in UNATTENDED {
        environment.insert((*name).to_owned(), (*value).to_owned());
    }
    for (name, change) in overrides {
        match (change, client.get(name)) {
            (Override::Set(value), _) | (Override::Keep, Some(value)) => {
                environment.insert(name.clone(), value.clone());
            }
            (Override::Keep, None) => {
                environment.remove(name);
            }
        }
    }
    environment.retain(|name, value| {
        !key_variables.contains(name) && !OWN.contains(&name.as_str()) && is_passable(name, value)
    });
    environment
}

/// Whether a process can be given the variable: one that it cannot would fail every start.
fn is_passable(name: &str, value: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn keys_and_crystals_own_variables_stay_out_and_the_rest_passes() {
        let environment = child_environment(
            &client(&[
                ("PATH", "/bin"),
                ("ACME_API_KEY", "k"),
                ("ACME_TOKEN", "t"),
                ("CRYSTAL_API_KEY", "k"),
                ("CRYSTAL_HOME", "/h"),
            ]),
            &BTreeSet::from(["ACME_API_KEY".to_owned(), "ACME_TOKEN".to_owned()]),
            &BTreeMap::new(),
        );
        assert_eq!(environment["PATH"], "/bin");
        for name in [
            "ACME_API_KEY",
            "ACME_TOKEN",
            "CRYSTAL_API_KEY",
            "CRYSTAL_HOME",
        ] {
            assert!(!environment.contains_key(name), "{name}");
        }
    }

    #[test]
    fn nothing_waits_for_a_terminal() {
        let environment = child_environment(
            &client(&[("PAGER", "less"), ("EDITOR", "vim")]),
            &BTreeSet::new(),
            &BTreeMap::new(),
        );
        assert_eq!(environment["PAGER"], "cat");
        assert_eq!(environment["GIT_PAGER"], "cat");
        assert_eq!(environment["GIT_TERMINAL_PROMPT"], "0");
        assert_eq!(environment["EDITOR"], "true");
        assert_eq!(environment["CI"], "1");
    }

    #[test]
    fn the_configuration_has_the_last_word_except_about_keys() {
        let overrides = BTreeMap::from([
            ("CI".to_owned(), Override::Keep),
            ("PAGER".to_owned(), Override::Keep),
            ("EDITOR".to_owned(), Override::Set("ed".to_owned())),
            ("CRYSTAL_API_KEY".to_owned(), Override::Set("k".to_owned())),
        ]);
        let environment =
            child_environment(&client(&[("PAGER", "less")]), &BTreeSet::new(), &overrides);
        assert_eq!(environment.get("CI"), None);
        assert_eq!(environment["PAGER"], "less");
        assert_eq!(environment["EDITOR"], "ed");
        assert!(!environment.contains_key("CRYSTAL_API_KEY"));
    }

    #[test]
    fn variables_that_no_process_can_take_are_left_out() {
        let environment = child_environment(
            &client(&[("", "x"), ("A=B", "x"), ("NUL", "\0")]),
            &BTreeSet::new(),
            &BTreeMap::new(),
        );
        assert_eq!(environment.len(), UNATTENDED.len());
    }
}
