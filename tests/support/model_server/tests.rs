//! Tests of the service itself. They need no CLI.

use serde_json::{Value, json};

use super::{Api, Gate, Intent, ModelServer, Reply};

async fn ask(server: &ModelServer, stream: bool) -> reqwest::Response {
    let body = json!({"model": "m", "max_tokens": 1, "stream": stream, "messages": [{"role": "user", "content": "hello"}]});
    let request = reqwest::Client::new()
        .post(format!("{}/v1/messages", server.url()))
        .header("x-api-key", "canary-key");
    request.json(&body).send().await.unwrap()
}

#[tokio::test]
async fn a_scripted_reply_stops_at_its_gate_and_continues_when_it_opens() {
    let gate = Gate::new();
    let server =
        ModelServer::replying([Reply::text("one").then_pause_in_text(&gate).then_piece("two")])
            .await;
    let mut response = ask(&server, true).await;
    gate.reached().await;
    let mut read = String::new();
    while !read.contains("one") {
        read += std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap();
    }
    assert!(!read.contains("two"));
    gate.open();
    read += &response.text().await.unwrap();
    let events: Vec<Value> = read
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(kinds[..3], ["message_start", "ping", "content_block_start"]);
    assert_eq!(
        kinds[3..],
        [
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
}

#[tokio::test]
async fn a_request_after_the_end_of_the_script_is_refused_and_keys_are_not_stored() {
    let server =
        ModelServer::replying([Reply::tool("t1", "Read", json!({"file_path": "x"}))]).await;
    let message: Value = ask(&server, false).await.json().await.unwrap();
    assert_eq!(
        (&message["stop_reason"], &message["content"][0]["input"]["file_path"]),
        (&json!("tool_use"), &json!("x"))
    );
    let refused = ask(&server, false).await;
    assert_eq!(refused.status(), 400);
    assert!(refused.text().await.unwrap().contains("no reply left"));
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.has_key) && requests.len() == 2);
    assert!(!format!("{requests:?}").contains("canary-key"));
}

#[tokio::test]
async fn a_cut_reply_breaks_the_connection() {
    let server =
        ModelServer::replying([Reply::text("half").then_cut(), Reply::text("half").then_cut()])
            .await;
    for stream in [true, false] {
        let response = ask(&server, stream).await;
        assert!(response.bytes().await.is_err(), "stream: {stream}");
    }
}

/// Returns a minimal request of each API, with one tool of an agent that uses it.
fn requests() -> [(Api, &'static str, Value); 4] {
    let system = "You are scripted.";
    let function = |name: &str| json!({"type": "function", "name": name});
    [
        (
            Api::Messages,
            "/v1/messages",
            json!({"model": "m", "max_tokens": 1, "stream": true, "system": system, "tools": [{"name": "Bash"}], "messages": [
                {"role": "user", "content": [{"type": "text", "text": "<system-reminder>x"}, {"type": "text", "text": "hello"}]},
                {"role": "assistant", "content": "hi"},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_0", "content": "out"}]}]}),
        ),
        (
            Api::Responses,
            "/v1/responses",
            json!({"model": "m", "stream": true, "instructions": system, "tools": [function("exec_command")], "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>x"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
                {"type": "function_call_output", "call_id": "call_0", "output": "out"}]}),
        ),
        (
            Api::Chat,
            "/v1/chat/completions",
            json!({"model": "m", "stream": true, "tools": [{"type": "function", "function": {"name": "bash"}}], "messages": [
                {"role": "system", "content": system}, {"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"},
                {"role": "tool", "tool_call_id": "call_0", "content": "out"}]}),
        ),
        (
            Api::Gemini,
            "/v1beta/models/m:streamGenerateContent",
            json!({"systemInstruction": {"parts": [{"text": system}]}, "tools": [{"functionDeclarations": [{"name": "run_shell_command"}]}],
                "contents": [{"role": "user", "parts": [{"text": "<session_context>x"}, {"text": "hello"}]},
                    {"role": "model", "parts": [{"text": "hm", "thought": true}, {"text": "hi"}]},
                    {"role": "user", "parts": [{"functionResponse": {"id": "call_0", "name": "x", "response": {"output": "out"}}}]}]}),
        ),
    ]
}

async fn post(server: &ModelServer, path: &str, body: &Value) -> reqwest::Response {
    reqwest::Client::new()
        .post(format!("{}{path}", server.url()))
        .header("authorization", "canary-key")
        .json(body)
        .send()
        .await
        .unwrap()
}

#[tokio::test]
async fn every_api_is_parsed_alike() {
    for (api, path, body) in requests() {
        let server = ModelServer::replying([Reply::text("ok")]).await;
        assert!(post(&server, path, &body).await.status().is_success(), "{api:?}");
        let request = server.only_request();
        assert_eq!(
            (request.api, request.model(), request.streaming(), request.has_key),
            (api, "m", true, true)
        );
        assert_eq!(
            (request.system().as_str(), request.tools().len()),
            ("You are scripted.", 1),
            "{api:?}"
        );
        assert_eq!(
            (request.prompts(), request.said_by("assistant")),
            (vec!["hello"], vec!["hi"]),
            "{api:?}"
        );
        assert_eq!(request.tool_results()["call_0"], "out", "{api:?}");
        assert!(request.mentions("scripted") && !request.mentions("canary"), "{api:?}");
    }
}

#[tokio::test]
async fn every_api_streams_thinking_text_and_a_call_of_the_offered_tool() {
    for (api, path, body) in requests() {
        let reply = Reply::thinking("Well then.")
            .then_text("Working")
            .then_piece(" now.")
            .then_does("call_1", Intent::shell("ls -l"));
        let server = ModelServer::replying([reply]).await;
        let said = post(&server, path, &body).await.text().await.unwrap();
        let tool = server.only_request().tools()[0].to_owned();
        let places = ["Well then.", "Working", " now.", "ls -l"].map(|word| said.find(word));
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "{api:?}: {places:?} in {said}"
        );
        assert!(said.contains(&format!("\"{tool}\"")), "{api:?} calls {tool}: {said}");
        assert!(said.contains("11") && said.contains('7'), "{api:?} reports the tokens: {said}");
        let events = said
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .filter(|data| *data != "[DONE]");
        let all: Vec<Value> = events.map(|data| serde_json::from_str(data).unwrap()).collect();
        assert!(all.len() >= 4, "{api:?}: {said}");
    }
}

#[tokio::test]
async fn every_api_reports_errors_by_status_and_answers_internal_requests_of_agents() {
    for (api, path, mut body) in requests() {
        let server =
            ModelServer::replying([Reply::refusing(429, "slow down").retry_after(3)]).await;
        let refused = post(&server, path, &body).await;
        assert_eq!(
            (refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()),
            (429, "3"),
            "{api:?}"
        );
        assert!(refused.text().await.unwrap().contains("slow down"), "{api:?}");
        if matches!(api, Api::Chat | Api::Gemini) {
            body.as_object_mut().unwrap().remove("tools");
            assert!(
                post(&server, path, &body).await.text().await.unwrap().contains("Scripted title"),
                "{api:?}"
            );
            assert_eq!((server.requests().len(), server.others().len()), (1, 1), "{api:?}");
        }
    }
}
