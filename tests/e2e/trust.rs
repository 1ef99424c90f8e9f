//! Workspace trust.

use crystal_tests::{
    daemon::{Daemon, Options},
    run_test,
    workspace::Workspace,
};
use serde_json::json;

#[test]
fn a_workspace_must_be_trusted() {
    run_test(async {
        let mut daemon = Daemon::start().await;
        let workspace = Workspace::new();
        let inside = workspace.file("src");
        let mut client = daemon.client().await;
        let params = json!({"workspace": inside, "provider": "demo", "model": "demo:fast"});
        let error = client.fails(-32010, "session/create", params.clone()).await;
        let data = error.data.unwrap();
        assert_eq!(data["kind"], "workspaceNotTrusted");
        assert_eq!(data["root"], workspace.text_path());

        client.create(&workspace, json!({"trust": "session"})).await;
        client.fails(-32010, "session/create", params.clone()).await;
        client.create(&workspace, json!({"trust": true})).await;
        client.ok("session/create", params.clone()).await;
        daemon.restart().await;
        let mut client = daemon.client().await;
        client.ok("session/create", params.clone()).await;
        let of = json!({"workspace": inside});
        let status = client.ok("workspace/trustStatus", of.clone()).await;
        assert_eq!(
            status,
            json!({"root": workspace.text_path(), "trusted": true})
        );
        client.ok("workspace/untrust", of.clone()).await;
        client.fails(-32010, "session/create", params.clone()).await;
        client.ok("workspace/trust", of).await;
        client.ok("session/create", params).await;
    });
}

#[test]
fn trust_may_be_switched_off_by_configuration() {
    run_test(async {
        let config = json!({"workspaceTrust": false, "provider": "demo", "model": "demo:fast"});
        let options = Options {
            config: Some(config),
            ..Options::default()
        };
        let daemon = Daemon::start_with(options).await;
        let workspace = Workspace::new();
        let mut client = daemon.client().await;
        client
            .ok(
                "session/create",
                json!({"workspace": workspace.text_path()}),
            )
            .await;
    });
}
