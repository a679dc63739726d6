//! Tests of the MCP server with which agents call tools of the host, with a client that sends plain
//! HTTP.

use std::sync::Arc;

use aetheel::agent::{Action, AgentVariable, ArgumentValue, AskDecision, Exit, HostCommand, Input};
use aetheel::turn::recording::{EntryKind, ParsedRecording};
use aetheel::web::tool_server::ToolServer;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::outlive::{Gateway, Setup, ann};
use super::turns::only_recording;
use crate::support::scripted::{
    Agent, Desk, DeskOptions, OneBackend, ScriptedBackend, ScriptedLauncher, Understanding, plain,
};
use crate::support::shelf::Shelf;

/// The name of the variable with the address.
const ADDRESS: &str = "TOOLS";

fn backend() -> ScriptedBackend {
    let descriptor = r#"{"name":"scripted","version":"1","features":["host-tools"],"programs":[{"name":"agent"}],"environment":{"set":["TOOLS"]}}"#;
    ScriptedBackend::described(with_address(), descriptor)
}

/// Starts the agent with the address of the server.
fn with_address() -> Understanding {
    let usual = plain();
    Arc::new(move |state, input| {
        let mut actions = usual(state, input)?;
        if let Input::Command(HostCommand::StartTurn(_)) = input {
            for action in &mut actions {
                if let Action::Spawn(spawn) = action {
                    let value = ArgumentValue::ToolServer(1);
                    spawn.environment.push(AgentVariable { name: ADDRESS.to_owned(), value });
                }
            }
        }
        Ok(actions)
    })
}

fn address(agent: &Agent) -> String {
    let found = agent.launch.environment.iter().find(|(name, _)| name == ADDRESS);
    found.expect("the address").1.clone()
}

/// Sends a request and returns the status and the response.
async fn send(address: &str, method: &str, parameters: Value) -> (u16, Value) {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters});
    let sent = reqwest::Client::new()
        .post(address)
        .header("Accept", "application/json, text/event-stream")
        .json(&request)
        .send();
    let Ok(response) = sent.await else { return (0, Value::Null) };
    let status = response.status().as_u16();
    let text = response.text().await.unwrap_or_default();
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let answers = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let mut answers = answers.filter(|answer| answer["id"] == 1);
    let answer = answers.next_back();
    (status, answer.or_else(|| serde_json::from_str(&text).ok()).unwrap_or(Value::Null))
}

async fn call(address: &str, tool: &str, input: Value) -> String {
    let (status, answer) =
        send(address, "tools/call", json!({"name": tool, "arguments": input})).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    format!("{status} {} {text}", answer["result"]["isError"])
}

async fn initialize(address: &str) -> (u16, Value) {
    let parameters = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    send(address, "initialize", parameters).await
}

/// Runs one turn in which the agent does this with its address, and prints the address.
async fn turn<F: Future<Output = ()> + Send + 'static>(
    acts: impl Fn(String) -> F + Send + Sync + 'static,
) -> (Desk, ToolServer) {
    let acts = Arc::new(acts);
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let acts = Arc::clone(&acts);
        async move {
            let address = address(&agent);
            acts(address.clone()).await;
            agent.say(&[&format!("text {address}"), "done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    });
    let options = DeskOptions { backend: Some(Arc::new(backend())), ..DeskOptions::default() };
    let desk = Desk::new(launcher, options).await;
    let server =
        ToolServer::open(None, desk.dispatcher.tool_endpoints.clone()).await.expect("loopback");
    std::fs::write(desk.folder.path().join("workspace/a.txt"), "hello").unwrap();
    desk.ask(1, "go");
    (desk, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_mcp_client_lists_and_calls_the_tools_of_its_session() {
    let (said, mut heard) = mpsc::unbounded_channel();
    let (desk, _server) = turn(move |address| {
        let said = said.clone();
        async move {
            let (status, answer) = initialize(&address).await;
            said.send(format!("{status} {}", answer["result"]["serverInfo"]["name"])).unwrap();
            let (_, answer) = send(&address, "tools/list", json!({})).await;
            let tools = answer["result"]["tools"].as_array().cloned().unwrap_or_default();
            let names: Vec<String> = tools.iter().map(|tool| tool["name"].to_string()).collect();
            said.send(names.join(" ")).unwrap();
            let post = json!({"path": "a.txt"});
            said.send(call(&address, "aetheel_post_file", post).await).unwrap();
            let missing = json!({"path": "b.txt"});
            said.send(call(&address, "aetheel_post_file", missing).await).unwrap();
            said.send(call(&address, "rm", json!({})).await).unwrap();
            said.send(address).unwrap();
        }
    })
    .await;
    let answer = desk.collected.answers(1).await.remove(0).1;
    assert_eq!(heard.recv().await.unwrap(), "200 \"aetheel\"");
    assert_eq!(
        heard.recv().await.unwrap(),
        "\"aetheel_post_file\" \"aetheel_ask\" \"aetheel_claim\""
    );
    let posted = heard.recv().await.unwrap();
    assert!(posted.starts_with("200 false The file `a.txt`"), "{posted}");
    let missing = heard.recv().await.unwrap();
    assert!(missing.starts_with("200 true there is no file `b.txt`"), "{missing}");
    let unknown = heard.recv().await.unwrap();
    assert!(unknown.contains("true the host offers no tool \"rm\""), "{unknown}");
    assert_eq!(answer.files.len(), 1);
    desk.dispatcher.turns.idle().await;
    let text = only_recording(&desk).await;
    let tape = ParsedRecording::read(&text).unwrap();
    let count = |found: fn(&EntryKind) -> bool| {
        tape.entries.iter().filter(|entry| found(&entry.kind)).count()
    };
    assert_eq!(count(|kind| matches!(kind, EntryKind::Called(_))), 3);
    assert_eq!(count(|kind| matches!(kind, EntryKind::Returned(_))), 3);
    let address = heard.recv().await.unwrap();
    let secret = address.split('/').nth(4).expect("the secret");
    assert!(!text.contains(secret) && text.contains("/mcp/***"), "the printed address is a secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_with_another_secret_session_method_or_origin_is_refused() {
    let (said, mut heard) = mpsc::unbounded_channel();
    let (_desk, _server) = turn(move |address| {
        let said = said.clone();
        async move {
            let (base, _) = address.rsplit_once('/').expect("a session");
            let other = if base.ends_with('0') { "1" } else { "0" };
            let guessed = format!("{}{other}/1", &base[..base.len() - 1]);
            said.send(initialize(&guessed).await.0.to_string()).unwrap();
            let post = json!({"path": "a.txt"});
            said.send(call(&format!("{base}/2"), "aetheel_post_file", post).await).unwrap();
            let (_, listed) = send(&format!("{base}/2"), "tools/list", json!({})).await;
            said.send(listed["result"]["tools"].to_string()).unwrap();
            let client = reqwest::Client::new();
            let read = client.get(&address).send().await.unwrap();
            said.send(read.status().as_u16().to_string()).unwrap();
            let foreign = client.post(&address).header("Origin", "https://example.com");
            let foreign = foreign
                .header("Accept", "application/json, text/event-stream")
                .json(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
            let status = foreign.send().await.unwrap().status().as_u16();
            said.send(status.to_string()).unwrap();
            let large = json!({"path": "x".repeat(2 << 20)});
            said.send(call(&address, "aetheel_post_file", large).await).unwrap();
        }
    })
    .await;
    assert_eq!(heard.recv().await.unwrap(), "404");
    assert_eq!(heard.recv().await.unwrap(), "200 true the turn of this call is not open");
    assert_eq!(heard.recv().await.unwrap(), "[]", "the tools of a session that is not open");
    assert_eq!(heard.recv().await.unwrap(), "405");
    assert_eq!(heard.recv().await.unwrap(), "403");
    let large = heard.recv().await.unwrap();
    assert!(large.starts_with("413") || large.starts_with('0'), "{large}");
}

#[test]
fn a_question_outlives_the_gateway_and_is_answered_once_when_the_agent_calls_again() {
    let folder = tempfile::tempdir().unwrap();
    let (said, mut heard) = mpsc::unbounded_channel();
    let (again, given) = watch::channel(false);
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let (said, mut given) = (said.clone(), given.clone());
        async move {
            let address = address(&agent);
            let question = json!({"question": "Which?", "options": ["a", "b"]});
            agent.say(&["text before "]).await;
            // The gateway ends meanwhile.
            let lost = call(&address, "aetheel_ask", question.clone()).await;
            let _ = given.wait_for(|given| *given).await;
            let answer = call(&address, "aetheel_ask", question).await;
            let _ = said.send((lost, answer));
            agent.say(&["text after", "done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    });
    let setup = || Setup::with(Arc::new(OneBackend(Arc::new(backend()))));
    let shelf = Shelf::new(launcher);
    let serve = |gateway: &Gateway, port| {
        let endpoints = gateway.dispatcher.tool_endpoints.clone();
        gateway.runtime.block_on(ToolServer::open(port, endpoints)).expect("loopback")
    };
    let first = Gateway::begin(folder.path(), &shelf, setup());
    let server = serve(&first, None);
    let port = server.address.port();
    first.ask("go");
    let id = first.runtime.block_on(first.collected.questions(1)).remove(0).id;
    first.die();
    drop(server);
    let second = Gateway::begin(folder.path(), &shelf, setup());
    let _server = serve(&second, Some(port));
    let asked = second.runtime.block_on(second.collected.questions(1)).remove(0);
    assert_eq!(asked.id, id);
    again.send_replace(true);
    let chosen = AskDecision::Answers(vec![("answer".to_owned(), vec!["b".to_owned()])]);
    // The answer may arrive before or after the second call.
    second.dispatcher.questions.answer(&id, &ann(), chosen).unwrap();
    let (lost, answer) = heard.blocking_recv().unwrap();
    assert!(!lost.contains("false"), "the connection was lost: {lost}");
    assert_eq!(answer, "200 false b");
    assert_eq!(second.answer().0, "before after");
    assert_eq!(second.runtime.block_on(second.collected.questions(1)).len(), 1);
}
