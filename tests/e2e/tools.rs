//! The built-in tools, run as the operator: what they do, and how they fail.

use std::os::unix::fs::{PermissionsExt, symlink};

use crystal_tests::{client::Client, daemon::Daemon, run_test, workspace::Workspace};
use serde_json::json;

pub(crate) async fn full(daemon: &Daemon, workspace: &Workspace) -> (Client, String) {
    let mut client = daemon.client().await;
    let session = client.create_full(workspace).await;
    (client, session)
}

#[test]
fn the_catalog_depends_on_the_mode_and_leaves_disabled_tools_out() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        let names = async |client: &mut Client, more| -> Vec<String> {
            let session = client.create(&workspace, more).await;
            let list = client.ok("tool/list", json!({"session": session})).await;
            let tools = list["tools"].as_array().unwrap();
            for tool in tools {
                assert_eq!(tool["schema"]["type"], "object", "{tool}");
                assert_eq!(tool["source"], "builtIn");
            }
            tools
                .iter()
                .map(|tool| tool["name"].as_str().unwrap().to_owned())
                .collect()
        };
        let work = names(&mut client, json!({})).await;
        let plan = names(&mut client, json!({"mode": "plan"})).await;
        let less = names(&mut client, json!({"disableTools": ["bash", "grep"]})).await;
        let has = |list: &[String], name: &str| list.iter().any(|other| other == name);
        for name in ["read", "list", "glob", "grep"] {
            assert!(has(&work, name) && has(&plan, name), "{name}");
        }
        for name in ["edit", "write", "bash"] {
            assert!(has(&work, name) && !has(&plan, name), "{name}");
        }
        assert!(!has(&less, "bash") && !has(&less, "grep") && has(&less, "read"));
    });
}

#[test]
fn a_call_of_no_tool_or_with_wrong_arguments_fails_and_names_them() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let (mut client, session) = full(&daemon, &workspace).await;
        for (name, arguments, word) in [
            ("read", json!({}), "path"),
            ("read", json!({"path": 7}), "path"),
            (
                "edit",
                json!({"path": "README.md", "old_string": "a"}),
                "new_string",
            ),
            (
                "bash",
                json!({"command": "true", "timeoutSeconds": "long"}),
                "timeoutSeconds",
            ),
            ("grep", json!({"pattern": "("}), "("),
        ] {
            let output = client.tool_failure(&session, name, arguments).await;
            assert!(output.contains(word), "{name}: {output}");
        }
        let unknown = json!({"session": session, "name": "no_such_tool", "arguments": {}});
        match client.call("tool/call", unknown).await {
            Ok(result) => assert_eq!(result["status"], "failed", "{result}"),
            Err(error) => assert!([-32006, -32602].contains(&error.code), "{error:?}"),
        }
    });
}

#[test]
fn read_gives_numbered_lines_and_refuses_binaries_and_directories() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        workspace.write("binary.bin", b"\x7fELF\0\0\0\x01");
        let utf16: Vec<u8> = [0xfeff_u16]
            .into_iter()
            .chain("wide ä".encode_utf16())
            .flat_map(u16::to_le_bytes)
            .collect();
        workspace.write("wide.txt", utf16);
        workspace.write("bom.txt", "\u{feff}marked");
        let (mut client, session) = full(&daemon, &workspace).await;
        let output = client
            .tool_output(&session, "read", json!({"path": "notes/todo.txt"}))
            .await;
        for (number, text) in [("1", "first"), ("2", "second"), ("3", "third")] {
            let line = output.lines().find(|line| line.ends_with(text)).unwrap();
            assert!(line.trim_start().starts_with(number), "{output}");
        }
        let part = json!({"path": "notes/todo.txt", "offset": 2, "limit": 1});
        let output = client.tool_output(&session, "read", part).await;
        assert!(
            output.contains("second") && !output.contains("first") && !output.contains("third")
        );
        let output = client
            .tool_output(&session, "read", json!({"path": "wide.txt"}))
            .await;
        assert!(output.contains("wide ä"));
        let output = client
            .tool_output(&session, "read", json!({"path": "bom.txt"}))
            .await;
        assert!(output.contains("marked") && !output.contains('\u{feff}'));
        client
            .tool_failure(&session, "read", json!({"path": "binary.bin"}))
            .await;
        client
            .tool_failure(&session, "read", json!({"path": "src"}))
            .await;
        let output = client
            .tool_failure(&session, "read", json!({"path": "none.txt"}))
            .await;
        assert!(output.contains("none.txt"));
    });
}

#[test]
fn list_glob_and_grep_find_what_is_there() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        workspace.write("ignored/deep.rs", "println hidden");
        workspace.write("src/other.rs", "// HELLO again\n");
        let (mut client, session) = full(&daemon, &workspace).await;
        let output = client.tool_output(&session, "list", json!({})).await;
        for name in ["README.md", "src", "notes"] {
            assert!(output.contains(name), "{output}");
        }
        let output = client
            .tool_output(&session, "list", json!({"path": "src"}))
            .await;
        assert!(output.contains("main.rs") && !output.contains("README"));
        let output = client
            .tool_output(&session, "glob", json!({"pattern": "**/*.rs"}))
            .await;
        assert!(output.contains("src/main.rs") && output.contains("src/other.rs"));
        assert!(!output.contains("ignored"), "{output}");
        let output = client
            .tool_output(&session, "grep", json!({"pattern": "hel+o"}))
            .await;
        assert!(output.contains("src/main.rs") && output.contains("println"));
        assert!(!output.contains("other.rs") && !output.contains("hidden"));
        let more = json!({"pattern": "hello", "ignoreCase": true, "output": "files"});
        let output = client.tool_output(&session, "grep", more).await;
        assert!(output.contains("src/other.rs") && !output.contains("println"));
        let globbed = json!({"pattern": "Sample", "glob": "*.rs"});
        let output = client.tool_output(&session, "grep", globbed).await;
        assert!(!output.contains("README.md"), "{output}");
    });
}

#[test]
fn edit_changes_the_range_and_no_other_byte() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        workspace.write(
            "mixed.txt",
            b"\xef\xbb\xbfone\r\ntwo\nthree\r\n\xff\xfe end",
        );
        std::fs::set_permissions(
            workspace.file("mixed.txt"),
            PermissionsExt::from_mode(0o754),
        )
        .unwrap();
        let (mut client, session) = full(&daemon, &workspace).await;
        let edit = json!({"path": "mixed.txt", "old_string": "two", "new_string": "2"});
        let output = client.tool_output(&session, "edit", edit).await;
        assert!(output.contains("-two") && output.contains("+2"), "{output}");
        assert_eq!(
            workspace.read_bytes("mixed.txt"),
            b"\xef\xbb\xbfone\r\n2\nthree\r\n\xff\xfe end"
        );
        let mode = std::fs::metadata(workspace.file("mixed.txt"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o754);
    });
}

#[test]
fn edit_wants_one_match_and_says_what_is_wrong() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        workspace.write("twice.txt", "same\nother\nsame\n");
        let (mut client, session) = full(&daemon, &workspace).await;
        let twice = json!({"path": "twice.txt", "old_string": "same", "new_string": "x"});
        let output = client.tool_failure(&session, "edit", twice.clone()).await;
        assert!(
            output.contains('1') && output.contains('3'),
            "the lines are named: {output}"
        );
        let near = json!({"path": "twice.txt", "old_string": "othr", "new_string": "x"});
        let output = client.tool_failure(&session, "edit", near).await;
        assert!(
            output.contains("other"),
            "the nearest lines are shown: {output}"
        );
        assert_eq!(workspace.read("twice.txt"), "same\nother\nsame\n");
        let mut all = twice;
        all["replace_all"] = true.into();
        client.tool_output(&session, "edit", all).await;
        assert_eq!(workspace.read("twice.txt"), "x\nother\nx\n");
    });
}

#[test]
fn a_file_that_changed_since_it_was_read_is_not_written_over() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let (mut client, session) = full(&daemon, &workspace).await;
        client
            .tool_output(&session, "read", json!({"path": "notes/todo.txt"}))
            .await;
        workspace.write(
            "notes/todo.txt",
            "first\nsecond\nthird\nadded by somebody\n",
        );
        let edit = json!({"path": "notes/todo.txt", "old_string": "second", "new_string": "2"});
        let write = json!({"path": "notes/todo.txt", "content": "all new"});
        client.tool_failure(&session, "edit", edit.clone()).await;
        client.tool_failure(&session, "write", write.clone()).await;
        assert_eq!(
            workspace.read("notes/todo.txt"),
            "first\nsecond\nthird\nadded by somebody\n"
        );
        client
            .tool_output(&session, "read", json!({"path": "notes/todo.txt"}))
            .await;
        client.tool_output(&session, "edit", edit).await;
        // What the session itself wrote is known to it.
        client.tool_output(&session, "write", write).await;
        assert_eq!(workspace.read("notes/todo.txt"), "all new");
    });
}

#[test]
fn write_makes_directories_and_has_a_bound() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let (mut client, session) = full(&daemon, &workspace).await;
        let output = client
            .tool_output(
                &session,
                "write",
                json!({"path": "a/b/c.txt", "content": "new\n"}),
            )
            .await;
        assert!(output.contains("+new"), "{output}");
        assert_eq!(workspace.read("a/b/c.txt"), "new\n");
        let large = json!({"path": "large.txt", "content": "x".repeat(2 * 1024 * 1024 + 1)});
        client.tool_failure(&session, "write", large).await;
        assert!(!workspace.has("large.txt"));
        client
            .tool_failure(&session, "write", json!({"path": "src", "content": "x"}))
            .await;
    });
}

#[test]
fn paths_are_judged_by_where_they_lead() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let outside = workspace.outside("beside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("file.txt"), "beside").unwrap();
        symlink(&outside, workspace.file("link")).unwrap();
        symlink(workspace.file("README.md"), workspace.file("inner")).unwrap();
        let mut client = daemon.client().await;
        let session = client
            .create(&workspace, json!({"approval": "full", "asking": "deny"}))
            .await;
        for path in [
            "link/file.txt",
            "../beside/file.txt",
            "src/../../beside/file.txt",
            "/proc/self/root/etc/passwd",
            "/etc/passwd",
        ] {
            let result = client.tool(&session, "read", json!({"path": path})).await;
            assert_eq!(result["status"], "rejected", "{path}: {result}");
        }
        for path in ["link/new.txt", "../new.txt"] {
            let result = client
                .tool(&session, "write", json!({"path": path, "content": "x"}))
                .await;
            assert_eq!(result["status"], "rejected", "{path}: {result}");
        }
        assert!(!outside.join("new.txt").exists() && !workspace.outside("new.txt").exists());
        client
            .tool_output(&session, "read", json!({"path": "inner"}))
            .await;
        client
            .tool_output(&session, "read", json!({"path": "src/../README.md"}))
            .await;
    });
}
