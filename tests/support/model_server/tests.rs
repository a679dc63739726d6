//! What holds of the service itself; runs without any CLI.

use serde_json::{Value, json};

use super::{Gate, ModelServer, Reply};

async fn ask(server: &ModelServer, stream: bool) -> reqwest::Response {
    let body = json!({"model": "m", "max_tokens": 1, "stream": stream, "messages": [{"role": "user", "content": "hello"}]});
    let request = reqwest::Client::new().post(format!("{}/v1/messages", server.url())).header("x-api-key", "canary-key");
    request.json(&body).send().await.unwrap()
}

#[tokio::test]
async fn a_scripted_reply_streams_up_to_its_gate_and_goes_on_when_it_opens() {
    let gate = Gate::new();
    let server = ModelServer::replying([Reply::text("one").then_pause_in_text(&gate).then_piece("two")]).await;
    let mut response = ask(&server, true).await;
    gate.reached().await;
    let mut read = String::new();
    while !read.contains("one") {
        read += std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap();
    }
    assert!(!read.contains("two"));
    gate.open();
    read += &response.text().await.unwrap();
    let events: Vec<Value> =
        read.lines().filter_map(|line| line.strip_prefix("data: ")).map(|data| serde_json::from_str(data).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(kinds[..3], ["message_start", "ping", "content_block_start"]);
    assert_eq!(kinds[3..], ["content_block_delta", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]);
}

#[tokio::test]
async fn a_request_beyond_the_script_is_refused_and_no_key_is_kept() {
    let server = ModelServer::replying([Reply::tool("t1", "Read", json!({"file_path": "x"}))]).await;
    let message: Value = ask(&server, false).await.json().await.unwrap();
    assert_eq!((&message["stop_reason"], &message["content"][0]["input"]["file_path"]), (&json!("tool_use"), &json!("x")));
    let refused = ask(&server, false).await;
    assert_eq!(refused.status(), 400);
    assert!(refused.text().await.unwrap().contains("no reply left"));
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.has_key) && requests.len() == 2);
    assert!(!format!("{requests:?}").contains("canary-key"));
}

#[tokio::test]
async fn a_cut_reply_breaks_the_connection() {
    let server = ModelServer::replying([Reply::text("half").then_cut(), Reply::text("half").then_cut()]).await;
    for stream in [true, false] {
        let response = ask(&server, stream).await;
        assert!(response.bytes().await.is_err(), "stream: {stream}");
    }
}
