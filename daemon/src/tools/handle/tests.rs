//! Files are opened where they were judged to be, or not at all.

use std::{fs, sync::Arc};

use super::*;

fn workspace(root: &Path) -> Arc<Workspace> {
    Arc::new(Workspace {
        root: root.to_owned(),
        add_directories: Vec::new(),
        home: root.join("home"),
    })
}

fn top(dir: &tempfile::TempDir) -> PathBuf {
    fs::canonicalize(dir.path()).unwrap()
}

#[test]
fn a_directory_and_a_missing_file_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let top = top(&dir);
    fs::create_dir(top.join("d")).unwrap();
    let workspace = workspace(&top);
    assert!(matches!(
        open_file(&top.join("d"), &workspace),
        Err(FileFault::IsDirectory(_))
    ));
    assert!(matches!(
        open_file(&top.join("none"), &workspace),
        Err(FileFault::Missing(_))
    ));
}

#[test]
fn parents_are_made_and_a_replaced_file_leaves_nothing_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let top = top(&dir);
    let directory = Directory::open_or_create(&top.join("a/b")).unwrap();
    directory.replace("f".as_ref(), b"1", None).unwrap();
    let (_, old) = directory.open_file("f".as_ref()).unwrap();
    directory.replace("f".as_ref(), b"2", Some(&old)).unwrap();
    assert_eq!(fs::read(top.join("a/b/f")).unwrap(), b"2");
    assert_eq!(fs::read_dir(top.join("a/b")).unwrap().count(), 1);
}

#[test]
fn a_file_that_appeared_or_changed_meanwhile_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let top = top(&dir);
    let directory = Directory::open(&top).unwrap();
    fs::write(top.join("f"), "theirs").unwrap();
    assert!(directory.replace("f".as_ref(), b"ours", None).is_err());
    let (_, old) = directory.open_file("f".as_ref()).unwrap();
    fs::write(top.join("f"), "theirs, longer").unwrap();
    assert!(
        directory
            .replace("f".as_ref(), b"ours", Some(&old))
            .is_err()
    );
    assert_eq!(fs::read(top.join("f")).unwrap(), b"theirs, longer");
    assert_eq!(fs::read_dir(&top).unwrap().count(), 1);
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_directory_swapped_for_a_link_makes_the_opening_fail() {
        let dir = tempfile::tempdir().unwrap();
        let top = top(&dir);
        for name in ["d", "elsewhere"] {
            fs::create_dir(top.join(name)).unwrap();
            fs::write(top.join(name).join("f"), name).unwrap();
        }
        let workspace = workspace(&top);
        assert!(open_file(&top.join("d/f"), &workspace).is_ok());
        fs::rename(top.join("d"), top.join("old")).unwrap();
        symlink(top.join("elsewhere"), top.join("d")).unwrap();
        assert!(matches!(
            open_file(&top.join("d/f"), &workspace),
            Err(FileFault::LeadsElsewhere(_))
        ));
        assert!(matches!(
            Directory::open_or_create(&top.join("d/new")),
            Err(FileFault::LeadsElsewhere(_))
        ));
        assert!(!top.join("elsewhere/new").exists());
    }

    #[test]
    fn a_link_in_the_place_of_the_file_makes_the_opening_fail() {
        let dir = tempfile::tempdir().unwrap();
        let top = top(&dir);
        fs::write(top.join("real"), "r").unwrap();
        symlink("real", top.join("link")).unwrap();
        assert!(matches!(
            open_file(&top.join("link"), &workspace(&top)),
            Err(FileFault::LeadsElsewhere(_))
        ));
        let directory = Directory::open(&top).unwrap();
        assert!(matches!(
            directory.replace("link".as_ref(), b"x", None),
            Err(FileFault::LeadsElsewhere(_))
        ));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_is_refused_without_waiting_for_its_other_end() {
        let dir = tempfile::tempdir().unwrap();
        let top = top(&dir);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            top.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(matches!(
            open_file(&top.join("pipe"), &workspace(&top)),
            Err(FileFault::NotRegular(_))
        ));
    }

    #[test]
    fn a_file_that_became_a_hard_link_to_a_credential_is_refused_when_opened() {
        let dir = tempfile::tempdir().unwrap();
        let top = top(&dir);
        fs::create_dir(top.join("home")).unwrap();
        fs::write(top.join("home/trusted.json"), "{}").unwrap();
        fs::hard_link(top.join("home/trusted.json"), top.join("plain")).unwrap();
        assert!(matches!(
            open_file(&top.join("plain"), &workspace(&top)),
            Err(FileFault::Closed { .. })
        ));
    }

    #[test]
    fn mode_bits_survive_a_replacement() {
        let dir = tempfile::tempdir().unwrap();
        let top = top(&dir);
        fs::write(top.join("f"), "1").unwrap();
        fs::set_permissions(top.join("f"), fs::Permissions::from_mode(0o751)).unwrap();
        let directory = Directory::open(&top).unwrap();
        let (_, old) = directory.open_file("f".as_ref()).unwrap();
        directory.replace("f".as_ref(), b"2", Some(&old)).unwrap();
        assert_eq!(
            fs::metadata(top.join("f")).unwrap().permissions().mode() & 0o7777,
            0o751
        );
    }
}
