//! Tests of the adapter as a whole, against a server on this machine.

use std::sync::Arc;

use crystal_protocol::{ids::SessionId, session::Thinking};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::{
    config::Secret,
    providers::{Finish, Message, ModelEvent},
};

fn endpoint(base_uri: String) -> Endpoint {
    Endpoint {
        protocol: PROTOCOL.into(),
        provider: "acme".into(),
        base_uri,
        api_key: Some(Secret::new("sk-secret")),
        headers: vec![("x-team".into(), "blue".into())],
        organization: Some("org".into()),
        project: Some("proj".into()),
        token_limit_field: Some("max_tokens".into()),
    }
}

#[tokio::test]
async fn a_prompt_goes_out_and_an_answer_comes_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut got = Vec::new();
        while !got.ends_with(b"]}") {
            let mut piece = [0; 4096];
            let len = socket.read(&mut piece).await.unwrap();
            got.extend_from_slice(&piece[..len]);
        }
        let answer = concat!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\ndata: [DONE]\n\n"
        );
        socket.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(got).unwrap()
    });
    let provider = (ADAPTER.open)(&endpoint(base)).unwrap();
    let request = ModelRequest {
        session: SessionId::new("s1"),
        model: "m".into(),
        system: "".into(),
        tools: Arc::from([]),
        messages: vec![Arc::new(Message::User { text: "hi".into() })],
        turn_start: 0,
        thinking: Thinking::Default,
        max_tokens: None,
    };
    let events: Vec<_> = provider.stream(request).collect().await;
    let finished = ModelEvent::Finished {
        finish: Finish::Stop,
        usage: None,
        replay: None,
    };
    assert_eq!(events, [Ok(ModelEvent::Text("hello".into())), Ok(finished)]);
    let got = server.await.unwrap();
    assert!(
        got.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"),
        "{got}"
    );
    for header in [
        "authorization: Bearer sk-secret\r\n",
        "openai-organization: org\r\n",
        "openai-project: proj\r\n",
        "x-team: blue\r\n",
    ] {
        assert!(got.contains(header), "{got}");
    }
    let body = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}"#;
    assert!(got.ends_with(body), "{got}");
}

#[test]
fn a_key_that_no_header_can_hold_is_refused_without_showing_it() {
    let mut endpoint = endpoint("http://localhost".into());
    endpoint.api_key = Some(Secret::new("sk\nsecret"));
    let error = (ADAPTER.open)(&endpoint).err().unwrap();
    assert!(!error.message.contains("secret"), "{error}");
}
