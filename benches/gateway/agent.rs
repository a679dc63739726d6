//! Agents that follow a script: within this process, where only the gateway costs time, and as a
//! program.

use std::io::{BufRead as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aetheel_model::agent::{Exit, Pipe};
use aetheel_turn::{
    AgentProcess, Launch, LaunchError, Launcher, OutputLine, ProcessCommand, ProcessEvent,
};
use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::serve::ListenerExt as _;
use tokio::sync::mpsc;

use crate::script::{Player, Said, Script, Way};

/// Pauses before and after the first text of a turn, so that it is delivered alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pauses {
    pub before: Duration,
    pub after: Duration,
}

/// Launches agents within this process.
pub struct Agents {
    pub script: Arc<Script>,
    pub pauses: Pauses,
    /// When the latest turn's first text was passed to the gateway.
    pub spoke: Arc<Mutex<Option<Instant>>>,
    /// When any output was last passed to the gateway.
    pub ended: Arc<Mutex<Option<Instant>>>,
}

#[async_trait]
impl Launcher for Agents {
    async fn launch(&self, launch: Launch) -> Result<AgentProcess, LaunchError> {
        let (events, received) = mpsc::channel(16);
        let (commands, input) = mpsc::unbounded_channel();
        let agent = Arc::new(Agent {
            player: Mutex::new(Player::new(Arc::clone(&self.script))),
            events,
            stream: Mutex::default(),
            pauses: self.pauses,
            spoke: Arc::clone(&self.spoke),
            ended: Arc::clone(&self.ended),
        });
        let listens = self.script.listens();
        tokio::spawn(agent.run(launch, input, listens));
        Ok(AgentProcess { events: received, commands, pid: None, held: false })
    }
}

struct Agent {
    player: Mutex<Player>,
    events: mpsc::Sender<ProcessEvent>,
    /// The stream of server-sent events, once it is open.
    stream: Mutex<Option<mpsc::UnboundedSender<Bytes>>>,
    pauses: Pauses,
    spoke: Arc<Mutex<Option<Instant>>>,
    ended: Arc<Mutex<Option<Instant>>>,
}

impl Agent {
    /// Runs the agent until it is stopped.
    async fn run(
        self: Arc<Self>,
        launch: Launch,
        mut input: mpsc::UnboundedReceiver<ProcessCommand>,
        listens: bool,
    ) {
        let server = if listens { Some(Arc::clone(&self).serve(&launch).await) } else { None };
        let begins = self.player.lock().unwrap().begins();
        self.say(begins).await;
        self.hear(&launch.stdin).await;
        while let Some(ProcessCommand::Write(bytes)) = input.recv().await {
            self.hear(&bytes).await;
        }
        if let Some(server) = server {
            server.abort();
        }
        // The link may have been closed already.
        let _ = self
            .events
            .send(ProcessEvent::Exited { how: Exit::Code(0), stderr_tail: String::new() })
            .await;
    }

    async fn hear(&self, bytes: &[u8]) {
        for line in String::from_utf8_lossy(bytes).lines() {
            let says = self.player.lock().unwrap().respond(line);
            self.say(says).await;
        }
    }

    async fn say(&self, says: Vec<Said>) {
        let Pauses { before, after } = self.pauses;
        let pieces = says.chunk_by(|said, next| {
            (after.is_zero() || !said.first_text) && (before.is_zero() || !next.first_text)
        });
        for (number, piece) in pieces.enumerate() {
            if number > 0 {
                tokio::time::sleep(if piece[0].first_text { before } else { after }).await;
            }
            let mut lines = Vec::new();
            let mut events = String::new();
            for Said { way, text, .. } in piece {
                match way {
                    Way::Line(pipe) => {
                        lines.push(OutputLine { pipe: *pipe, text: text.clone(), truncated: false })
                    }
                    Way::Event => events.extend(["data: ", text, "\n\n"]),
                    Way::Response(_) => {}
                }
            }
            if piece[0].first_text {
                *self.spoke.lock().unwrap() = Some(Instant::now());
            }
            *self.ended.lock().unwrap() = Some(Instant::now());
            if !lines.is_empty() {
                let _ = self.events.send(ProcessEvent::Lines(lines)).await;
            }
            if let (false, Some(stream)) = (events.is_empty(), &*self.stream.lock().unwrap()) {
                let _ = stream.send(events.into());
            }
        }
    }

    /// Answers HTTP requests on the port among its arguments.
    async fn serve(self: Arc<Self>, launch: &Launch) -> tokio::task::JoinHandle<()> {
        let port: u16 = launch
            .arguments
            .iter()
            .find_map(|argument| argument.to_str()?.parse().ok())
            .expect("a port");
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let answer =
            move |method: Method, uri: Uri| async move { self.respond(&format!("{method} {uri}")) };
        // As real agent servers do. Otherwise the kernel holds small pieces back for 40 ms.
        let listener = listener.tap_io(|connection| connection.set_nodelay(true).unwrap());
        tokio::spawn(
            async move { axum::serve(listener, Router::new().fallback(answer)).await.unwrap() },
        )
    }

    fn respond(self: Arc<Self>, request: &str) -> Response {
        let says = self.player.lock().unwrap().respond(request);
        let answer = says.iter().find_map(|said| {
            if let Way::Response(status) = said.way {
                Some((status, said.text.clone()))
            } else {
                None
            }
        });
        let response = match answer {
            Some((status, body)) => {
                (StatusCode::from_u16(status as u16).unwrap(), body).into_response()
            }
            None => {
                let (sender, mut events) = mpsc::unbounded_channel();
                *self.stream.lock().unwrap() = Some(sender);
                let body = futures_util::stream::poll_fn(move |context| {
                    events.poll_recv(context).map(|event| event.map(Ok::<_, std::io::Error>))
                });
                ([("content-type", "text/event-stream")], Body::from_stream(body)).into_response()
            }
        };
        tokio::spawn(async move { self.say(says).await });
        response
    }
}

/// Runs the same agent as a program that reads stdin and writes stdout: `gateway replay-agent
/// SCRIPT`. Further arguments are ignored.
pub fn replay(script: &str) {
    let script: Script = serde_json::from_slice(&std::fs::read(script).unwrap()).unwrap();
    let mut player = Player::new(Arc::new(script));
    say(&player.begins());
    for line in std::io::stdin().lock().lines() {
        say(&player.respond(&line.unwrap()));
    }
}

fn say(says: &[Said]) {
    let (mut out, mut error) = (Vec::new(), Vec::new());
    for said in says {
        let to = if said.way == Way::Line(Pipe::Stderr) { &mut error } else { &mut out };
        to.extend([said.text.as_bytes(), b"\n"].concat());
    }
    std::io::stderr().write_all(&error).unwrap();
    // Fails when the gateway has ended.
    let _ = std::io::stdout().write_all(&out).and_then(|()| std::io::stdout().flush());
}
