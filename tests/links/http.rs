//! Tests of HTTP and server-sent events with an agent that listens: requests go only there, with
//! the host's credentials, whatever the agent returns.

use std::sync::{Arc, Mutex};

use aetheel_model::agent::{
    Action, AgentFailure, AgentVariable, ArgumentValue, BasicAuth, Chunk, Descriptor, Exit,
    FailureKind, HostCommand, HttpRequest, Input, OpenStream, Safety, Spawn, StartTurn, TimedInput,
    TurnDone, TurnOutcome,
};
use aetheel_model::event::Lane;
use aetheel_model::redact::Redactor;
use aetheel_recording::{Backend, Generation, Guest, GuestFailure, Recorder, RecordingLimits};
use aetheel_turn::{Launcher, Links, TurnRequest, TurnResult, run};
use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tokio::sync::{mpsc, watch};

use super::{Follower, LIMIT};
use crate::support::scripted::{Agent, ScriptedLauncher, host};

/// Starts an agent that listens, makes the calls, and ends the turn after the expected number of
/// inputs.
struct Caller {
    descriptor: Descriptor,
    generation: Generation,
    calls: Vec<Action>,
    inputs: Arc<Mutex<Vec<Input>>>,
    wait_for: usize,
    outcome: TurnOutcome,
}

#[async_trait]
impl Backend for Caller {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn generation(&self) -> &Generation {
        &self.generation
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        Ok(Box::new(CallerGuest {
            calls: self.calls.clone(),
            inputs: self.inputs.clone(),
            wait_for: self.wait_for,
            outcome: self.outcome.clone(),
        }))
    }
}

struct CallerGuest {
    calls: Vec<Action>,
    inputs: Arc<Mutex<Vec<Input>>>,
    wait_for: usize,
    outcome: TurnOutcome,
}

#[async_trait]
impl Guest for CallerGuest {
    async fn handle(&mut self, inputs: Vec<TimedInput>) -> Result<Vec<Action>, GuestFailure> {
        let mut out = Vec::new();
        for input in inputs {
            match input.input {
                Input::Command(HostCommand::StartTurn(_)) => out.push(Action::Spawn(Spawn {
                    proc: 1,
                    program: "agent".into(),
                    arguments: vec![ArgumentValue::Text("--port".into()), ArgumentValue::Port],
                    environment: vec![AgentVariable {
                        name: "PASSWORD".into(),
                        value: ArgumentValue::Secret("password".into()),
                    }],
                    stdin: vec![],
                    keep_open: false,
                    listens: true,
                    basic_auth: Some(BasicAuth { user: "host".into(), secret: "password".into() }),
                    session: None,
                    turn: None,
                })),
                Input::Line(_) => out.append(&mut self.calls),
                Input::Command(_) | Input::Spawned(_) | Input::Exited(_) => {}
                came => {
                    let mut inputs = self.inputs.lock().unwrap();
                    inputs.push(came);
                    if inputs.len() == self.wait_for {
                        out.push(Action::TurnDone(TurnDone {
                            session: 1,
                            turn: 1,
                            outcome: self.outcome.clone(),
                            text: None,
                            usage: None,
                        }));
                    }
                }
            }
        }
        Ok(out)
    }

    async fn save(&mut self) -> Result<Option<String>, GuestFailure> {
        Ok(None)
    }

    async fn load(&mut self, _: &str, _: &str) -> Result<(), GuestFailure> {
        Err(GuestFailure::Refused("no".into()))
    }
}

/// Serves on the given port until it is stopped. `password` returns the credentials that it
/// received.
async fn listening(mut agent: Agent) {
    let port = agent.launch.arguments[1].to_str().unwrap().to_owned();
    let password =
        agent.launch.environment.iter().find(|(name, _)| name == "PASSWORD").unwrap().1.clone();
    let answer = move |uri: Uri, headers: HeaderMap, body: Bytes| {
        let password = password.clone();
        async move { respond(uri.path(), &headers, &body, &password) }
    };
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.unwrap();
    let served = tokio::spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
    agent.say(&["ready"]).await;
    agent.commands.recv().await;
    served.abort();
    agent.exit(Exit::Code(0), "").await;
}

fn respond(path: &str, headers: &HeaderMap, body: &Bytes, password: &str) -> Response {
    match path {
        "/echo" => {
            let authorization = headers["authorization"].to_str().unwrap().to_owned();
            assert!(authorization.starts_with("Basic ") && password.len() == 64);
            let body = String::from_utf8_lossy(body).replace(password, "<password>");
            (
                StatusCode::CREATED,
                format!(
                    "{body} {} {}",
                    headers["content-type"].to_str().unwrap(),
                    authorization.len()
                ),
            )
                .into_response()
        }
        "/elsewhere" => {
            (StatusCode::FOUND, [("location", "http://127.0.0.1:1/")], "moved").into_response()
        }
        "/endless" => Body::from_stream(futures_util::stream::repeat_with(|| {
            Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 65536]))
        }))
        .into_response(),
        "/never" => {
            Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>())
                .into_response()
        }
        "/events" => {
            let pieces = [
                "data: on",
                "e\n\n: beat\n\nevent: named\nid: 4\r\ndata: tw",
                "o\ndata: lines\n",
                "\ndata: cut off",
            ];
            let pieces = futures_util::stream::iter(
                pieces.map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece))),
            );
            ([("content-type", "text/event-stream")], Body::from_stream(pieces)).into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Serves one stream of events. A moment after the stream has ended, the agent is lost with its
/// holder.
async fn lost_after_a_stream(agent: Agent) {
    let port = agent.launch.arguments[1].to_str().unwrap().to_owned();
    let (ended_tx, mut ended) = mpsc::unbounded_channel();
    let answer = move || {
        let ended_tx = ended_tx.clone();
        let last = futures_util::stream::once(async move {
            let _ = ended_tx.send(());
            Ok::<_, std::io::Error>(Bytes::from("data: one\n\n"))
        });
        async move { ([("content-type", "text/event-stream")], Body::from_stream(last)) }
    };
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.unwrap();
    let served = tokio::spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
    agent.say(&["ready"]).await;
    ended.recv().await;
    // The holder's connection ends later than those of the processes it killed.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    served.abort();
    agent.exit(Exit::Unknown, "").await;
}

/// Returns the guest's inputs after it made these calls.
async fn inputs_after(calls: Vec<Action>, wait_for: usize) -> Vec<Input> {
    turn(listening, calls, (wait_for, TurnOutcome::Completed)).await.0
}

/// Runs a turn whose guest makes these calls and ends the turn with `outcome` after this many
/// inputs. Returns these inputs and the turn's result.
async fn turn<F>(
    agent: fn(Agent) -> F,
    calls: Vec<Action>,
    (wait_for, outcome): (usize, TurnOutcome),
) -> (Vec<Input>, TurnResult)
where
    F: Future<Output = ()> + Send + 'static,
{
    let json = r#"{"name":"caller","version":"1","environment":{"set":["PASSWORD"]},
        "programs":[{"name":"agent","flags":[{"name":"--port","value":"one"}]}]}"#;
    let inputs: Arc<Mutex<Vec<Input>>> = Arc::default();
    let backend = Caller {
        descriptor: Descriptor::parse(json).unwrap(),
        generation: Generation { number: 1, digest: "0".repeat(64) },
        calls,
        inputs: inputs.clone(),
        wait_for,
        outcome,
    };
    let folder = tempfile::tempdir().unwrap();
    let launcher = ScriptedLauncher::new(agent);
    let recorder = Recorder::new(
        folder.path().join("recordings"),
        RecordingLimits::UNLIMITED,
        Redactor::default(),
    );
    let links = Links::new(
        Arc::new(host(folder.path())),
        launcher as Arc<dyn Launcher>,
        recorder,
        mpsc::unbounded_channel().0,
        Arc::new(|_| {}),
    );
    let (_stop, stopped) = watch::channel(None);
    let request = TurnRequest {
        id: "t1".into(),
        event: 1,
        lane: Lane::Console,
        backend: Arc::new(backend),
        start: StartTurn::plain("hi", Safety::Default),
        blobs: vec![],
        stop: stopped,
        steers: mpsc::unbounded_channel().1,
        continued: None,
    };
    let (told, _seen) = mpsc::unbounded_channel();
    let result = tokio::time::timeout(LIMIT, run(request, &links, &mut Follower(told)))
        .await
        .expect("the turn ends");
    let inputs = std::mem::take(&mut *inputs.lock().unwrap());
    (inputs, result)
}

fn call(request: u32, path: &str, timeout_ms: u32) -> Action {
    let body = Some(vec![Chunk::Text("it is ".into()), Chunk::Secret("password".into())]);
    Action::Http(HttpRequest {
        request,
        proc: 1,
        method: "POST".into(),
        path: path.into(),
        body,
        timeout_ms,
    })
}

#[tokio::test]
async fn a_request_goes_to_the_agent_with_the_hosts_credentials() {
    let inputs = inputs_after(vec![call(5, "/echo", 10_000)], 1).await;
    let Input::HttpResponse(response) = &inputs[0] else { panic!("{inputs:?}") };
    assert_eq!((response.request, response.status), (5, 201));
    assert!(response.body.starts_with("it is <password> application/json "), "{}", response.body);
}

#[tokio::test]
async fn redirects_are_not_followed_and_failures_are_reported() {
    let calls = vec![
        call(1, "/elsewhere", 10_000),
        call(2, "/endless", 10_000),
        call(3, "/never", 200),
        call(4, "//evil.example/", 10_000),
    ];
    let mut inputs = inputs_after(calls, 4).await;
    inputs.sort_by_key(|input| match input {
        Input::HttpResponse(response) => response.request,
        Input::HttpFailed(failed) => failed.request,
        other => panic!("{other:?}"),
    });
    let Input::HttpResponse(moved) = &inputs[0] else { panic!("{inputs:?}") };
    assert_eq!((moved.status, moved.body.as_str()), (302, "moved"));
    let failed: Vec<_> = inputs[1..]
        .iter()
        .map(|input| match input {
            Input::HttpFailed(failed) => (failed.message.as_str(), failed.timed_out),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(failed[0].0.contains("more than") && !failed[0].1, "{failed:?}");
    assert!(failed[1].1, "{failed:?}");
    assert!(failed[2].0.contains("not a path"), "{failed:?}");
}

#[tokio::test]
async fn a_stream_delivers_each_event_and_its_end_once() {
    let inputs = inputs_after(
        vec![Action::OpenStream(OpenStream { stream: 9, proc: 1, path: "/events".into() })],
        4,
    )
    .await;
    let told: Vec<String> = inputs
        .iter()
        .map(|input| match input {
            Input::StreamOpened(opened) => format!("opened {}", opened.status),
            Input::StreamEvent(event) => {
                format!("{:?} {:?} {:?}", event.name, event.id, event.data)
            }
            Input::StreamClosed(closed) => format!("closed {:?}", closed.message),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        told,
        [
            "opened 200",
            r#"None None "one""#,
            r#"Some("named") Some("4") "two\nlines""#,
            r#"closed Some("the server ended the stream")"#
        ]
    );
}

#[tokio::test]
async fn a_missing_or_closed_stream_is_reported() {
    let open =
        |stream, path: &str| Action::OpenStream(OpenStream { stream, proc: 1, path: path.into() });
    let inputs =
        inputs_after(vec![open(1, "/gone"), open(2, "/never"), Action::CloseStream(2)], 3).await;
    let closed = |stream| {
        inputs.iter().find_map(|input| match input {
            Input::StreamClosed(closed) if closed.stream == stream => Some(closed.message.clone()),
            _ => None,
        })
    };
    assert_eq!(
        closed(1),
        Some(Some("the server answered with status 404".to_owned())),
        "{inputs:?}"
    );
    assert_eq!(closed(2), Some(None), "{inputs:?}");
}

#[tokio::test]
async fn an_agent_lost_with_its_holder_has_not_failed_because_its_stream_ended_first() {
    let failed = TurnOutcome::Failed(AgentFailure {
        kind: FailureKind::Crashed,
        message: "the events were lost".into(),
        retry_after_ms: None,
    });
    let (inputs, result) = turn(
        lost_after_a_stream,
        vec![Action::OpenStream(OpenStream { stream: 1, proc: 1, path: "/events".into() })],
        (3, failed),
    )
    .await;
    let Some(Input::StreamClosed(closed)) = inputs.last() else { panic!("{inputs:?}") };
    assert_eq!(closed.stream, 1);
    assert!(result.findings.orphaned, "{:?}", result.ending);
}

/// Proxies are settings of a process, so the tests above also run in a process of their own.
#[test]
fn no_request_and_no_stream_goes_through_a_proxy() {
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let variables = ["http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"];
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["links::http::", "--skip", "through_a_proxy", "--test-threads=1"])
        .envs(variables.map(|name| (name, &address)))
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !text.contains(" 0 passed"), "{text}");
    proxy.set_nonblocking(true).unwrap();
    let connected = proxy.accept().map(|(_, from)| from);
    assert!(connected.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
}
