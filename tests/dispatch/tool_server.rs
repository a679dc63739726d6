//! Tests of the MCP server with which agents call tools of the host, and of the relay between them.
//!
//! The client is like that of the MCP SDKs: it sends each call once, and waits for its response
//! however long that takes. It neither repeats a call nor notices that a gateway ended.

use std::path::Path;
use std::sync::Arc;

use aetheel_model::agent::{
    Action, AgentVariable, ArgumentValue, AskDecision, Chunk, Exit, HostCommand, Input,
};
use aetheel_process::tool_relay::{REQUEST_NUMBER, ToolRelay, listen_for_relay};
use aetheel_recording::{EntryKind, ParsedRecording};
use aetheel_turn::ToolEndpoints;
use aetheel_web::tool_server::ToolServer;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
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
                    spawn.stdin.push(Chunk::ToolServer(1));
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

/// Sends a request. Returns when the headers of the response have arrived.
async fn post(
    address: &str,
    method: &str,
    parameters: Value,
) -> Result<reqwest::Response, reqwest::Error> {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters});
    let request = reqwest::Client::new().post(address).json(&request);
    request.header("Accept", "application/json, text/event-stream").send().await
}

/// Reads a response. Returns the status and the JSON of the answer.
async fn answer(sent: Result<reqwest::Response, reqwest::Error>) -> (u16, Value) {
    let Ok(response) = sent else { return (0, Value::Null) };
    let status = response.status().as_u16();
    let text = response.text().await.unwrap_or_default();
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let answers = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let mut answers = answers.filter(|answer| answer["id"] == 1);
    let answer = answers.next_back();
    (status, answer.or_else(|| serde_json::from_str(&text).ok()).unwrap_or(Value::Null))
}

async fn send(address: &str, method: &str, parameters: Value) -> (u16, Value) {
    answer(post(address, method, parameters).await).await
}

async fn call(address: &str, tool: &str, input: Value) -> String {
    let called = json!({"name": tool, "arguments": input});
    shown(send(address, "tools/call", called).await)
}

fn shown((status, answer): (u16, Value)) -> String {
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

/// Opens the server of a gateway for the relay of this folder.
fn serve(state: &Path, relay: &ToolRelay, endpoints: &ToolEndpoints) -> ToolServer {
    endpoints.set_address(([127, 0, 0, 1], relay.port).into());
    ToolServer::open(listen_for_relay(state).unwrap(), REQUEST_NUMBER, endpoints.clone())
}

/// Runs one turn in which the agent does this with its address, and prints the address.
async fn turn<F: Future<Output = ()> + Send + 'static>(
    acts: impl Fn(String) -> F + Send + Sync + 'static,
) -> (Desk, (ToolServer, ToolRelay)) {
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
    let relay = ToolRelay::open(desk.folder.path()).await.expect("loopback");
    let server = serve(desk.folder.path(), &relay, &desk.dispatcher.tool_endpoints);
    std::fs::write(desk.folder.path().join("workspace/a.txt"), "hello").unwrap();
    desk.ask(1, "go");
    (desk, (server, relay))
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

/// OpenCode sends its next request while its `GET` is still being answered. A response that closes
/// the connection would lose that request, and the conversation its tools.
#[tokio::test(flavor = "multi_thread")]
async fn a_get_does_not_close_the_connection_under_the_next_request() {
    let (said, mut heard) = mpsc::unbounded_channel();
    let (_desk, _server) = turn(move |address| {
        let said = said.clone();
        async move {
            let url = reqwest::Url::parse(&address).unwrap();
            let (path, host) = (url.path(), format!("127.0.0.1:{}", url.port().unwrap()));
            let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
            let get = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n");
            let post = format!(
                "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{list}",
                list.len()
            );
            let mut stream = TcpStream::connect(host).await.unwrap();
            stream.write_all(format!("{get}{post}").as_bytes()).await.unwrap();
            let mut both = String::new();
            stream.read_to_string(&mut both).await.unwrap();
            said.send(both).unwrap();
        }
    })
    .await;
    let both = heard.recv().await.unwrap();
    let (get, post) = both.split_once("\r\n\r\n").unwrap();
    assert!(get.starts_with("HTTP/1.1 405"), "{both}");
    assert!(!get.to_lowercase().contains("connection: close"), "{both}");
    assert!(post.contains("HTTP/1.1 200") && post.contains("aetheel_ask"), "{both}");
}

#[tokio::test(flavor = "multi_thread")]
async fn people_learn_that_an_agent_has_not_loaded_the_tools() {
    for loads in [true, false] {
        let (desk, _server) = turn(move |address| async move {
            if loads {
                send(&address, "tools/list", json!({})).await;
            }
        })
        .await;
        let notices = desk.collected.answers(1).await.remove(0).1.notices;
        let told = notices.iter().any(|notice| notice.contains("did not load the tools"));
        assert_eq!(told, !loads, "{notices:?}");
    }
}

/// A conversation whose agent outlives two gateways.
struct Continued {
    folder: tempfile::TempDir,
    shelf: Shelf,
    relay: ToolRelay,
    /// Runs the relay, like the holder.
    _holder: tokio::runtime::Runtime,
}

impl Continued {
    fn new(agents: Arc<ScriptedLauncher>) -> Self {
        let holder = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let relay = holder.block_on(ToolRelay::open(folder.path())).unwrap();
        Self { folder, shelf: Shelf::new(agents), relay, _holder: holder }
    }

    /// Begins a gateway process.
    fn gateway(&self) -> (Gateway, ToolServer) {
        let setup = Setup::with(Arc::new(OneBackend(Arc::new(backend()))));
        let gateway = Gateway::begin(self.folder.path(), &self.shelf, setup);
        let _runtime = gateway.runtime.enter();
        let endpoints = &gateway.dispatcher.tool_endpoints;
        let server = serve(self.folder.path(), &self.relay, endpoints);
        (gateway, server)
    }
}

#[test]
fn a_call_that_is_open_when_the_gateway_dies_gets_its_result_once() {
    let (said, mut heard) = mpsc::unbounded_channel();
    let conversation = Continued::new(ScriptedLauncher::new(move |agent: Agent| {
        let said = said.clone();
        async move {
            let address = address(&agent);
            agent.say(&["text before "]).await;
            let question = json!({"question": "Which?", "options": ["a", "b"]});
            let _ = said.send(call(&address, "aetheel_ask", question).await);
            agent.say(&["text after", "done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    }));
    let (first, server) = conversation.gateway();
    first.ask("go");
    let id = first.runtime.block_on(first.collected.questions(1)).remove(0).id;
    first.die();
    drop(server);
    let (second, _server) = conversation.gateway();
    let asked = second.runtime.block_on(second.collected.questions(1)).remove(0);
    assert_eq!(asked.id, id);
    let chosen = AskDecision::Answers(vec![("answer".to_owned(), vec!["b".to_owned()])]);
    second.dispatcher.questions.answer(&id, &ann(), chosen).unwrap();
    assert_eq!(heard.blocking_recv().unwrap(), "200 false b");
    assert_eq!(second.answer().0, "before after");
    assert_eq!(second.runtime.block_on(second.collected.questions(1)).len(), 1);
    assert!(heard.try_recv().is_err(), "the agent gets one result");
}

#[test]
fn a_call_while_no_gateway_runs_is_carried_out_once_by_the_next() {
    let (said, mut heard) = mpsc::unbounded_channel();
    let (alone, is_alone) = watch::channel(false);
    let conversation = Continued::new(ScriptedLauncher::new(move |agent: Agent| {
        let (said, mut is_alone) = (said.clone(), is_alone.clone());
        async move {
            let address = address(&agent);
            std::fs::write(agent.launch.cwd.join("a.txt"), "hello").unwrap();
            agent.say(&["text before "]).await;
            let _ = is_alone.wait_for(|alone| *alone).await;
            let file = json!({"name": "aetheel_post_file", "arguments": {"path": "a.txt"}});
            let waiting = post(&address, "tools/call", file).await;
            let _ = said.send("the relay has the call".to_owned());
            let _ = said.send(shown(answer(waiting).await));
            agent.say(&["text after", "done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    }));
    let (first, server) = conversation.gateway();
    first.ask("go");
    first.wait_for_text("before ");
    first.die();
    drop(server);
    alone.send_replace(true);
    assert_eq!(heard.blocking_recv().unwrap(), "the relay has the call");
    let (second, _server) = conversation.gateway();
    let posted = heard.blocking_recv().unwrap();
    assert!(posted.starts_with("200 false The file `a.txt`"), "{posted}");
    let (_, answer) = second.runtime.block_on(second.collected.answers(1)).remove(0);
    assert_eq!((answer.text.as_str(), answer.files.len()), ("before after", 1));
}
