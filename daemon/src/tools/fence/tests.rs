//! What paths lead to, and which of them are inside.

use super::*;

struct Place {
    _dir: tempfile::TempDir,
    top: PathBuf,
    workspace: Workspace,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let top = fs::canonicalize(dir.path()).unwrap();
    for name in ["w/src", "added", "outside", "home"] {
        fs::create_dir_all(top.join(name)).unwrap();
    }
    let workspace = Workspace {
        root: top.join("w"),
        add_directories: vec![top.join("added")],
        home: top.join("home"),
    };
    Place {
        _dir: dir,
        top,
        workspace,
    }
}

impl Place {
    fn judge(&self, given: &str, access: Access) -> Target {
        judge_blocking(&self.workspace, given, access).unwrap()
    }
}

#[test]
fn a_relative_path_is_taken_from_the_workspace_and_a_tilde_is_a_name() {
    let place = place();
    let target = place.judge("src/./a.rs", Access::Read);
    assert_eq!(target.resolved.path, place.top.join("w/src/a.rs"));
    assert_eq!(target.shown, "src/a.rs");
    assert_eq!(target.authority, Authority::Workspace);
    let target = place.judge("~/notes", Access::Read);
    assert_eq!(target.resolved.path, place.top.join("w/~/notes"));
    assert!(target.resolved.inside);
}

#[test]
fn what_is_missing_is_normalised_by_text() {
    let place = place();
    let target = place.judge("no/such/../file", Access::Write);
    assert_eq!(target.resolved.path, place.top.join("w/no/file"));
    let target = place.judge("no/../../outside/x", Access::Write);
    assert_eq!(target.resolved.path, place.top.join("outside/x"));
    assert_eq!(target.authority, Authority::OutsideWorkspace);
}

#[test]
fn added_directories_are_workspace_for_reads_only() {
    let place = place();
    let given = place.top.join("added/x").display().to_string();
    assert_eq!(
        place.judge(&given, Access::Read).authority,
        Authority::Workspace
    );
    assert_eq!(
        place.judge(&given, Access::Write).authority,
        Authority::OutsideWorkspace
    );
    assert!(!place.judge(&given, Access::Read).resolved.inside);
}

#[test]
fn an_empty_path_and_a_nul_are_refused() {
    let place = place();
    assert!(matches!(
        resolve(&place.workspace.root, ""),
        Err(PathError::Empty)
    ));
    assert!(matches!(
        resolve(&place.workspace.root, "a\0b"),
        Err(PathError::Nul)
    ));
}

#[test]
fn effects_name_the_rule_and_hide_nothing() {
    let place = place();
    let target = place.judge("src/\u{202e}a.rs", Access::Write);
    let effects = target.effects("edit", Scope::Parent, None);
    assert_eq!(effects.title, "edit src/\\u{202e}a.rs");
    assert_eq!(effects.risk, Risk::Write);
    assert_eq!(
        effects.rule,
        Some(Rule::EditsBelow {
            directory: place.top.join("w/src")
        })
    );
    let effects = place
        .judge("../outside/x", Access::Read)
        .effects("read", Scope::Parent, None);
    assert_eq!(effects.authority, Authority::OutsideWorkspace);
    assert_eq!(
        effects.rule,
        Some(Rule::ReadsBelow {
            directory: place.top.join("outside")
        })
    );
}

#[test]
fn a_credential_path_is_forbidden_and_the_reason_names_the_rule() {
    let place = place();
    for access in [Access::Read, Access::Write] {
        let effects = place
            .judge("conf/.ssh/x", access)
            .effects("read", Scope::Parent, None);
        assert_eq!(effects.risk, Risk::Forbidden);
        assert!(effects.reason.contains("`.ssh`"), "{}", effects.reason);
        assert_eq!(effects.rule, None);
    }
    let target = place.judge("../home/credentials.json", Access::Read);
    assert!(target.forbidden.is_some());
}

#[cfg(unix)]
mod links {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_and_dots_leave_where_they_led() {
        let place = place();
        symlink(place.top.join("outside"), place.top.join("w/out")).unwrap();
        let target = place.judge("out/x", Access::Read);
        assert_eq!(target.resolved.path, place.top.join("outside/x"));
        assert!(!target.resolved.inside);
        let target = place.judge("out/../w/src/a", Access::Read);
        assert_eq!(target.resolved.path, place.top.join("w/src/a"));
        let target = place.judge("missing/../out/x", Access::Read);
        assert_eq!(target.resolved.path, place.top.join("outside/x"));
    }

    #[test]
    fn a_dangling_link_names_what_it_would_make() {
        let place = place();
        symlink("../outside/new", place.top.join("w/link")).unwrap();
        let target = place.judge("link", Access::Write);
        assert_eq!(target.resolved.path, place.top.join("outside/new"));
        assert_eq!(target.authority, Authority::OutsideWorkspace);
    }

    #[test]
    fn a_link_to_a_credential_is_forbidden_under_its_innocent_name() {
        let place = place();
        fs::create_dir_all(place.top.join("outside/.aws")).unwrap();
        symlink(place.top.join("outside/.aws"), place.top.join("w/notes")).unwrap();
        assert!(
            place
                .judge("notes/config", Access::Read)
                .forbidden
                .is_some()
        );
    }

    #[test]
    fn a_hard_link_to_a_file_of_the_home_is_forbidden() {
        let place = place();
        fs::write(place.top.join("home/credentials.json"), "{}").unwrap();
        fs::hard_link(
            place.top.join("home/credentials.json"),
            place.top.join("w/data.txt"),
        )
        .unwrap();
        let target = place.judge("data.txt", Access::Read);
        assert!(target.forbidden.unwrap().contains("hard link"));
    }

    #[test]
    fn links_in_a_circle_are_refused() {
        let place = place();
        symlink("b", place.top.join("w/a")).unwrap();
        symlink("a", place.top.join("w/b")).unwrap();
        assert!(matches!(
            resolve(&place.workspace.root, "a"),
            Err(PathError::TooManyLinks(_))
        ));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn magic_links_of_proc_resolve_to_what_they_stand_for() {
        let place = place();
        let inner = place.top.join("outside/x");
        let given = format!("/proc/self/root{}", inner.display());
        assert_eq!(resolve(&place.workspace.root, &given).unwrap(), inner);
        let cwd = fs::canonicalize(std::env::current_dir().unwrap()).unwrap();
        assert_eq!(
            resolve(&place.workspace.root, "/proc/self/cwd/x").unwrap(),
            cwd.join("x")
        );
    }
}
