//! The tool `bash`: output, time limits, and the environment of children.

use crystal_tests::{
    client::Client,
    daemon::{Daemon, Options},
    home::is_alive,
    run_test,
    workspace::Workspace,
};
use serde_json::json;

use crate::tools::full;

#[test]
fn bash_gives_output_and_exit_code() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let (mut client, session) = full(&daemon, &workspace).await;
        let command = json!({"command": "pwd; echo to-stderr >&2; cat; echo end"});
        let result = client.tool(&session, "bash", command).await;
        let output = result["output"].as_str().unwrap();
        for text in [workspace.text_path(), "to-stderr", "end"] {
            assert!(output.contains(text), "{output}");
        }
        assert_eq!(result["exitCode"], 0);
        let result = client
            .tool(&session, "bash", json!({"command": "echo why; false"}))
            .await;
        assert_eq!(result["status"], "failed");
        assert_eq!(result["exitCode"], 1);
        assert!(result["output"].as_str().unwrap().contains("why"));
    });
}

#[test]
fn a_timeout_kills_the_group_and_keeps_what_was_printed() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let (mut client, session) = full(&daemon, &workspace).await;
        let command = "sleep 1000 & echo $! > child.pid; echo printed; sleep 1000";
        let arguments = json!({"command": command, "timeoutSeconds": 1});
        let output = client.tool_failure(&session, "bash", arguments).await;
        assert!(output.contains("printed"), "{output}");
        let child: u32 = workspace.read("child.pid").trim().parse().unwrap();
        assert!(!is_alive(child));
    });
}

#[test]
fn a_leftover_that_keeps_the_pipe_open_does_not_keep_the_call() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let (mut client, session) = full(&daemon, &workspace).await;
        let begun = std::time::Instant::now();
        let command = json!({"command": "sleep 1000 & echo $! > child.pid; echo done"});
        let result = client.tool(&session, "bash", command).await;
        assert!(result["output"].as_str().unwrap().contains("done"));
        assert!(begun.elapsed().as_secs() < 10);
        let child: u32 = workspace.read("child.pid").trim().parse().unwrap();
        assert!(!is_alive(child));
    });
}

#[test]
fn a_flood_of_output_is_cut_in_the_middle() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let (mut client, session) = full(&daemon, &workspace).await;
        let command = json!({"command": "echo the-head; yes | head -c 3000000; echo the-tail"});
        let output = client.tool_output(&session, "bash", command).await;
        assert!(output.len() < 1024 * 1024, "{}", output.len());
        assert!(output.contains("the-head") && output.contains("the-tail"));
    });
}

#[test]
fn children_get_the_clients_environment_without_keys_and_homes() {
    run_test(async {
        let providers = json!({"mine": {"protocol": "openai", "baseUri": "http://127.0.0.1:9/v1", "apiKeyEnvironment": "MY_SECRET_NAME", "models": {"m": {"contextWindow": 1000}}}});
        let environment = vec![
            ("OPENAI_API_KEY".to_owned(), "daemon-key".to_owned()),
            ("DAEMON_ONLY".to_owned(), "daemon-value".to_owned()),
        ];
        let options = Options {
            providers: Some(providers),
            environment,
            ..Options::default()
        };
        let daemon = Daemon::start_with(options).await;
        let workspace = Workspace::new();
        let own = json!({"environment": {
            "PATH": std::env::var("PATH").unwrap(), "CLIENT_ONLY": "client-value", "CRYSTAL_HOME": "/elsewhere",
            "OPENAI_API_KEY": "k1", "ANTHROPIC_API_KEY": "k2", "CRYSTAL_API_KEY": "k3", "MINE_API_KEY": "k4",
            "MY_SECRET_NAME": "k5", "DEEPSEEK_API_KEY": "k6", "GEMINI_API_KEY": "k7",
        }});
        let mut client = Client::connect_as(&daemon, own).await;
        let session = client.create_full(&workspace).await;
        let output = client
            .tool_output(&session, "bash", json!({"command": "env"}))
            .await;
        assert!(output.contains("CLIENT_ONLY=client-value"));
        assert!(!output.contains("DAEMON_ONLY"));
        for absent in ["API_KEY", "MY_SECRET_NAME", "CRYSTAL_HOME", "daemon-key"] {
            assert!(!output.contains(absent), "{absent} in {output}");
        }
        for present in ["CI=", "GIT_PAGER=cat", "PAGER=cat", "GIT_TERMINAL_PROMPT=0"] {
            assert!(output.contains(present), "{present} not in {output}");
        }
        let replaced = json!({"session": session, "environment": {"PATH": std::env::var("PATH").unwrap(), "SECOND": "yes"}});
        client.ok("session/configure", replaced).await;
        let output = client
            .tool_output(&session, "bash", json!({"command": "env"}))
            .await;
        assert!(output.contains("SECOND=yes") && !output.contains("CLIENT_ONLY"));
        // A client that sends none gives the daemon's own.
        let mut plain = Client::connect_as(&daemon, json!({"environment": null})).await;
        let session = plain.create_full(&workspace).await;
        let output = plain
            .tool_output(&session, "bash", json!({"command": "env"}))
            .await;
        assert!(output.contains("DAEMON_ONLY=daemon-value") && !output.contains("daemon-key"));
    });
}

#[test]
fn children_inherit_no_descriptors_of_the_daemon() {
    run_test(async {
        let daemon = Daemon::start().await;
        let workspace = Workspace::new();
        // In a file, so that what the command names lies within the workspace.
        workspace.write(
            "list.sh",
            "for fd in /proc/$$/fd/*; do readlink $fd; done; true\n",
        );
        let (mut client, session) = full(&daemon, &workspace).await;
        let output = client
            .tool_output(&session, "bash", json!({"command": "bash list.sh"}))
            .await;
        assert!(
            output.contains("pipe:") || output.contains("/dev/null"),
            "{output}"
        );
        for line in output.lines() {
            let home = daemon.home().path();
            assert!(
                !line.contains("socket:") && !line.contains(home.to_str().unwrap()),
                "{output}"
            );
        }
    });
}

#[test]
fn the_environment_of_a_client_is_never_on_disk() {
    run_test(async {
        let daemon = Daemon::start().await;
        let path = std::env::var("PATH").unwrap();
        let own = json!({"environment": {"PATH": path, "NEVER_STORED": "never-stored-value"}});
        let mut client = Client::connect_as(&daemon, own).await;
        let session = client.create_full(&Workspace::new()).await;
        client.complete_turn(&session, "run true").await;
        client
            .ok("session/close", json!({"session": session}))
            .await;
        let found = std::process::Command::new("grep")
            .args([
                "--recursive",
                "--devices=skip",
                "--quiet",
                "never-stored-value",
            ])
            .arg(daemon.home().path())
            .status()
            .unwrap();
        assert_eq!(found.code(), Some(1), "grep finds nothing");
    });
}
