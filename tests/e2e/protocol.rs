//! The wire: what is refused, how, and that the connection lives on.

use crystal_tests::{client::Client, daemon::Daemon, run_test};
use serde_json::{Value, json};

pub(crate) async fn assert_alive(client: &mut Client) {
    client.ok("daemon/status", json!({})).await;
}

fn error_of(message: &Value) -> (Value, i64) {
    let code = message["error"]["code"].as_i64();
    (
        message["id"].clone(),
        code.unwrap_or_else(|| panic!("no error: {message}")),
    )
}

/// A request of exactly so many bytes, its id near the beginning.
fn request_of(bytes: usize, id: &str) -> String {
    let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"daemon/status","params":{{"x":""#);
    let tail = r#""}}"#;
    format!(
        "{head}{}{tail}",
        "a".repeat(bytes - head.len() - tail.len())
    )
}

#[test]
fn initialize_says_who_answers_and_within_which_bounds() {
    run_test(async {
        let daemon = Daemon::start().await;
        let client = daemon.client().await;
        let hello = client.hello();
        assert_eq!(hello["protocol"], 1);
        assert_eq!(hello["server"]["name"], "crystald");
        assert_eq!(hello["server"]["pid"], daemon.pid());
        assert_eq!(hello["limits"]["messageBytes"], 64 * 1024 * 1024);
        assert!(hello["limits"]["imageBytes"].is_u64());
        assert!(hello["capabilities"]["sandbox"]["kind"].is_string());
        let home = daemon.home().path().canonicalize().unwrap();
        assert_eq!(hello["home"], home.to_str().unwrap());
        let other = daemon.client().await;
        assert_ne!(client.connection(), other.connection());
    });
}

#[test]
fn text_that_is_not_json_gets_a_parse_error() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let lines: [&[u8]; 5] = [
            b"this is not json",
            b"{",
            b"{\"a\":\xff\xfe}",
            b"\x00\x01",
            b"][",
        ];
        for line in lines {
            client.send_line(line).await;
            let answer = client.next_other().await;
            assert_eq!(error_of(&answer), (Value::Null, -32700), "{line:?}");
        }
        assert_alive(&mut client).await;
    });
}

#[test]
fn deep_nesting_gets_an_error() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let params = format!(
            r#"{{"jsonrpc":"2.0","id":null,"method":"session/get","params":{{"session":{deep}}}}}"#
        );
        for line in [deep, params] {
            client.send_line(&line).await;
            let answer = client.next_other().await;
            let first = answer.get(0).unwrap_or(&answer);
            assert!(error_of(first).1 < -32000, "{answer}");
        }
        assert_alive(&mut client).await;
    });
}

#[test]
fn json_that_is_no_request_gets_invalid_request() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        for line in [
            "42",
            r#""text""#,
            "null",
            "{}",
            r#"{"jsonrpc":"2.0","id":900}"#,
            r#"{"jsonrpc":"2.0","id":901,"method":7}"#,
            r#"{"jsonrpc":"1.0","id":902,"method":"daemon/status"}"#,
        ] {
            client.send_line(line).await;
            let answer = client.next_other().await;
            assert_eq!(error_of(&answer).1, -32600, "{line} {answer}");
        }
        assert_alive(&mut client).await;
    });
}

#[test]
fn an_oversize_line_before_initialize_gets_too_large_with_its_id() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = Client::connect_raw(&daemon).await;
        let bound = 1024 * 1024;
        client.send_line(request_of(bound + 1, "900")).await;
        assert_eq!(error_of(&client.next_other().await), (json!(900), -32007));
        client.send_line(request_of(bound + 1, r#""mine""#)).await;
        assert_eq!(
            error_of(&client.next_other().await),
            (json!("mine"), -32007)
        );
        client.send_line(vec![b'x'; 3 * bound]).await;
        assert_eq!(error_of(&client.next_other().await), (Value::Null, -32007));
        client.send_line(request_of(bound, "901")).await;
        assert_eq!(error_of(&client.next_other().await), (json!(901), -32000));
        client.initialize(json!({})).await.unwrap();
        assert_alive(&mut client).await;
        // What was too large for a stranger is not too large for a client.
        client.send_line(request_of(2 * bound, "902")).await;
        let answer = client.next_other().await;
        assert!(answer["result"]["pid"].is_u64(), "{answer}");
    });
}

#[test]
fn an_oversize_line_after_initialize_gets_too_large_with_its_id() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let mut other = daemon.client().await;
        client
            .send_line(request_of(64 * 1024 * 1024 + 1, "900"))
            .await;
        assert_alive(&mut other).await;
        assert_eq!(error_of(&client.next_other().await), (json!(900), -32007));
        assert_alive(&mut client).await;
    });
}

#[test]
fn an_id_beyond_the_first_kibibytes_of_an_oversize_line_is_null() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = Client::connect_raw(&daemon).await;
        let padding = "a".repeat(1024 * 1024);
        let line = format!(r#"{{"jsonrpc":"2.0","params":{{"x":"{padding}"}},"id":900}}"#);
        client.send_line(line).await;
        assert_eq!(error_of(&client.next_other().await), (Value::Null, -32007));
    });
}

#[test]
fn requests_before_initialize_are_refused_and_it_may_be_tried_again() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = Client::connect_raw(&daemon).await;
        for method in ["daemon/status", "session/list", "no/such"] {
            let error = client.fails(-32000, method, json!({})).await;
            assert_eq!(error.data.unwrap()["kind"], "notInitialized");
        }
        client.notify("daemon/status", json!({})).await;
        client
            .fails(-32602, "initialize", json!({"protocol": "one"}))
            .await;
        let error = client
            .initialize(json!({"protocol": {"min": 2, "max": 9}}))
            .await
            .unwrap_err();
        assert_eq!(error.code, -32001);
        let data = error.data.unwrap();
        assert_eq!(data["kind"], "unsupportedProtocol");
        assert_eq!(data["supported"], json!({"min": 1, "max": 1}));
        client.fails(-32000, "daemon/status", json!({})).await;
        client
            .initialize(json!({"protocol": {"min": 1, "max": 9}}))
            .await
            .unwrap();
        assert_alive(&mut client).await;
    });
}

#[test]
fn a_batch_of_a_thousand_gets_an_answer_for_each_but_notifications() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let one = |index: usize| match index % 5 {
            0 => json!({"jsonrpc": "2.0", "id": format!("s{index}"), "method": "daemon/status"}),
            1 => json!({"jsonrpc": "2.0", "id": format!("u{index}"), "method": "no/such"}),
            2 => {
                json!({"jsonrpc": "2.0", "id": format!("p{index}"), "method": "session/get", "params": {"session": 1}})
            }
            3 => json!({"jsonrpc": "2.0", "method": "daemon/status"}),
            _ => json!(index),
        };
        let batch: Vec<Value> = (0..1000).map(one).collect();
        client.send_line(Value::Array(batch).to_string()).await;
        let answer = client.next_other().await;
        let answers = answer.as_array().unwrap();
        assert_eq!(answers.len(), 800);
        for (start, code) in [("s", None), ("u", Some(-32601)), ("p", Some(-32602))] {
            let of_kind = answers.iter().filter(|answer| {
                answer["id"]
                    .as_str()
                    .is_some_and(|id| id.starts_with(start))
            });
            let right = of_kind.filter(|answer| answer["error"]["code"].as_i64() == code);
            assert_eq!(right.count(), 200, "{start}");
        }
        let invalid = answers
            .iter()
            .filter(|a| a["id"].is_null() && a["error"]["code"] == -32600);
        assert_eq!(invalid.count(), 200);
        assert_alive(&mut client).await;
    });
}

#[test]
fn an_empty_batch_is_invalid_and_notifications_get_no_answer() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        client.notify("daemon/status", json!({})).await;
        client.notify("no/such", json!({})).await;
        let notification = json!({"jsonrpc": "2.0", "method": "daemon/status"});
        client
            .send_line(json!([notification, notification]).to_string())
            .await;
        client.send_line("[]").await;
        // The first thing that comes is the answer to the last line.
        assert_eq!(error_of(&client.next_other().await), (Value::Null, -32600));
        assert_alive(&mut client).await;
    });
}

#[test]
fn a_thousand_and_more_requests_in_flight_are_all_answered() {
    run_test(async {
        let daemon = Daemon::start().await;
        let mut client = daemon.client().await;
        let mut ids = Vec::new();
        for _ in 0..1500 {
            ids.push(client.send("daemon/status", json!({})).await);
        }
        for id in ids {
            client.answer(id).await.unwrap();
        }
    });
}
