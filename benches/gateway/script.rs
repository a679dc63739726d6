//! A recorded conversation as a script: what the agent says when it is told something. Works for any agent that speaks JSON
//! lines or HTTP, because the backend itself shows what it tells the agent and when.

use std::collections::HashMap;
use std::sync::Arc;

use aetheel::agent::descriptor::Sharing;
use aetheel::agent::{Action, Chunk, Command, EventKind, Input, Pipe, StartTurn};
use aetheel::backend::ComponentBackend;
use aetheel::turn::{Backend as _, Guest as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backends::Measured;
use crate::recordings::inputs;

/// What an agent was told, and what it said until it was told more.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Step {
    /// Method, type, or method and path; empty: nothing yet.
    kind: String,
    /// Of the call, where it is one.
    id: Option<Value>,
    says: Vec<Said>,
}

/// Something an agent says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Said {
    pub way: Way,
    pub text: String,
    /// With this, people see the first text of the turn.
    pub first_text: bool,
}

/// How it says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    Line(Pipe),
    /// In answer to a request, with this status.
    Response(u32),
    /// In a stream of server-sent events.
    Event,
}

/// All of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Script {
    steps: Vec<Step>,
    /// The agent's id of the recorded session.
    native: String,
    /// The step that makes the session, where one agent has several.
    opener: Option<usize>,
}

impl Script {
    /// Reads the conversation of a backend: what the agent says, and with what its turns were begun.
    pub async fn load(measured: &Measured, backend: &ComponentBackend) -> (Arc<Self>, Vec<StartTurn>) {
        let mut guest = backend.open_guest().await.unwrap();
        let mut script = Self { steps: vec![Step::default()], native: String::new(), opener: None };
        let (mut starts, mut requests) = (Vec::new(), HashMap::new());
        let mut awaiting_text = false;
        for input in inputs(&measured.fixtures().join(measured.conversation)) {
            let newest = script.steps.len() - 1;
            let mut says = |step: usize, way, text: &str| {
                script.steps[step].says.push(Said { way, text: text.to_owned(), first_text: false });
                Some(step)
            };
            let spoke = match &input.input {
                Input::Command(Command::Shutdown) | Input::Exited(_) => break,
                Input::Command(Command::StartTurn(start)) => {
                    starts.push(start.clone());
                    awaiting_text = true;
                    None
                }
                Input::Line(line) => says(newest, Way::Line(line.pipe), &line.text),
                Input::HttpResponse(response) => says(requests[&response.request], Way::Response(response.status), &response.body),
                Input::StreamEvent(event) => says(newest, Way::Event, &event.data),
                _ => None,
            };
            for action in guest.handle(vec![input]).await.unwrap() {
                match action {
                    Action::Spawn(spawn) => script.told(&text(&spawn.stdin)),
                    Action::Write(write) => script.told(&text(&write.body)),
                    Action::Http(http) => {
                        script.told(&format!("{} {}", http.method, http.path));
                        requests.insert(http.request, script.steps.len() - 1);
                    }
                    Action::OpenStream(stream) => script.told(&format!("GET {}", stream.path)),
                    Action::SessionReady(ready) if script.native.is_empty() => {
                        // Codex' backend appends a mark of its own to the agent's id.
                        script.native = ready.native_id.split('.').next().unwrap().to_owned();
                    }
                    Action::Event(event) if awaiting_text && matches!(event.kind, EventKind::Text(_)) => {
                        awaiting_text = false;
                        let step = spoke.expect("text comes from what the agent said");
                        script.steps[step].says.last_mut().unwrap().first_text = true;
                    }
                    _ => {}
                }
            }
        }
        assert!(starts.len() > 1 && !script.native.is_empty(), "`{}` is not a conversation of two turns", measured.conversation);
        if backend.descriptor().sharing == Sharing::Link {
            let names_it = |step: &Step| step.says.iter().any(|said| said.text.contains(&script.native));
            script.opener = script.steps.iter().position(names_it);
        }
        (Arc::new(script), starts)
    }

    fn told(&mut self, text: &str) {
        for line in text.lines() {
            let (kind, id) = told(line, &self.native);
            self.steps.push(Step { kind, id, says: Vec::new() });
        }
    }

    /// Whether the agent is a server.
    pub fn listens(&self) -> bool {
        self.steps.iter().flat_map(|step| &step.says).any(|said| matches!(said.way, Way::Response(_)))
    }
}

fn text(chunks: &[Chunk]) -> String {
    chunks.iter().map(|chunk| if let Chunk::Text(text) = chunk { text.as_str() } else { "" }).collect()
}

/// What kind of thing an agent is told, and the id of a call.
fn told(text: &str, native: &str) -> (String, Option<Value>) {
    let Ok(line) = serde_json::from_str::<Value>(text) else {
        let path = text.split('?').next().unwrap();
        return (if native.is_empty() { path.to_owned() } else { path.replace(native, "*") }, None);
    };
    let kind = ["/method", "/request/subtype", "/type"].iter().find_map(|at| line.pointer(at)?.as_str());
    (kind.unwrap_or_default().to_owned(), line.get("id").or(line.get("request_id")).cloned())
}

/// An agent that follows a script, in any number of sessions.
pub struct Player {
    script: Arc<Script>,
    sessions: Vec<Session>,
}

struct Session {
    native: String,
    /// Where it is in the script.
    next: usize,
}

impl Player {
    pub fn new(script: Arc<Script>) -> Self {
        let first = Session { native: script.native.clone(), next: 1 };
        Self { script, sessions: vec![first] }
    }

    /// What it says by itself when it starts.
    pub fn begins(&self) -> Vec<Said> {
        self.script.steps[0].says.clone()
    }

    /// What it says when it is told something: what it said when it was told the same kind of thing next in the session.
    pub fn hears(&mut self, text: &str) -> Vec<Said> {
        let script = Arc::clone(&self.script);
        let number = self.session(text);
        let session = &mut self.sessions[number];
        let (kind, id) = told(text, &session.native);
        let Some(at) = (session.next..script.steps.len()).chain(1..session.next).find(|at| script.steps[*at].kind == kind) else {
            return Vec::new();
        };
        session.next = at + 1;
        let step = &script.steps[at];
        let mut says = step.says.clone();
        for said in &mut says {
            if number > 0 {
                said.text = said.text.replace(&script.native, &session.native);
            }
            if id != step.id {
                answer(said, step.id.as_ref(), id.as_ref());
            }
        }
        says
    }

    fn session(&mut self, text: &str) -> usize {
        if let Some(named) = self.sessions.iter().position(|session| text.contains(&session.native)) {
            return named;
        }
        let Some(opener) = self.script.opener else { return 0 };
        if self.sessions[0].next <= opener || told(text, "").0 != self.script.steps[opener].kind {
            return 0;
        }
        let number = self.sessions.len();
        let kept = &self.script.native[..self.script.native.len() - 3];
        self.sessions.push(Session { native: format!("{kept}{number:03}"), next: opener });
        number
    }
}

/// Makes an answer to one call the answer to another.
fn answer(said: &mut Said, recorded: Option<&Value>, asked: Option<&Value>) {
    let Ok(mut line) = serde_json::from_str::<Value>(&said.text) else { return };
    let (Some(asked), None) = (asked, line.get("method")) else { return };
    let at = if line.get("id").is_some() { "/id" } else { "/response/request_id" };
    if let Some(id) = line.pointer_mut(at).filter(|id| Some(&**id) == recorded) {
        *id = asked.clone();
        said.text = line.to_string();
    }
}
