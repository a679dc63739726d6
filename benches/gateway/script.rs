//! The first turn of a recording as a script: the agent's reply to each input. Works for any agent
//! that speaks JSON lines or HTTP, because the backend itself shows its inputs to the agent and
//! their times.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use aetheel_model::agent::descriptor::LinkSharing;
use aetheel_model::agent::{Action, AgentEventKind, Chunk, HostCommand, Input, Pipe, StartTurn};
use aetheel_recording::{Backend as _, Guest as _};
use aetheel_wasm::ComponentBackend;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backends::Measured;
use crate::recordings::{case, inputs};

/// An input of the agent, and the agent's output until the next input.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Step {
    /// Method, type, or method and path of the input. Empty before the first input.
    kind: String,
    /// The id of the call, if it is one.
    id: Option<Value>,
    says: Vec<Said>,
    /// The same output with other ids, for a second turn. Agents never use an id twice, and
    /// backends rely on that.
    again: Vec<Said>,
}

/// One output of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Said {
    pub way: Way,
    pub text: String,
    /// Whether people see the first text of the turn with this output.
    pub first_text: bool,
}

/// The channel of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    Line(Pipe),
    /// The response to a request, with this status.
    Response(u32),
    /// An event in a stream of server-sent events.
    Event,
}

/// The inputs and outputs of an agent in a recorded turn, in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Script {
    steps: Vec<Step>,
    /// The agent's id of the recorded session.
    native: String,
    /// The kind of input that opens a session, if one agent has several sessions.
    opener: Option<String>,
}

impl Script {
    /// Reads the recorded conversation of a backend. Returns the script and the start of its turn.
    pub async fn load(measured: &Measured, backend: &ComponentBackend) -> (Arc<Self>, StartTurn) {
        let mut guest = backend.open_guest().await.unwrap();
        let mut script = Self { steps: vec![Step::default()], native: String::new(), opener: None };
        let (mut begun, mut requests) = (None, HashMap::new());
        let mut awaiting_text = true;
        for input in inputs(&case(measured.name, measured.conversation)) {
            let newest = script.steps.len() - 1;
            let mut says = |step: usize, way, text: &str| {
                script.steps[step].says.push(Said {
                    way,
                    text: text.to_owned(),
                    first_text: false,
                });
                Some(step)
            };
            let spoke = match &input.input {
                Input::Command(HostCommand::StartTurn(start)) if begun.is_none() => {
                    begun = Some(start.clone());
                    None
                }
                Input::Command(_) | Input::Exited(_) => break,
                Input::Line(line) => says(newest, Way::Line(line.pipe), &line.text),
                Input::HttpResponse(response) => says(
                    requests[&response.request],
                    Way::Response(response.status),
                    &response.body,
                ),
                Input::StreamEvent(event) => says(newest, Way::Event, &event.data),
                _ => None,
            };
            for action in guest.handle(vec![input]).await.unwrap() {
                match action {
                    Action::Spawn(spawn) => script.add_steps(&text(&spawn.stdin)),
                    Action::Write(write) => script.add_steps(&text(&write.body)),
                    Action::Http(http) => {
                        script.add_steps(&format!("{} {}", http.method, http.path));
                        requests.insert(http.request, script.steps.len() - 1);
                    }
                    Action::OpenStream(stream) => script.add_steps(&format!("GET {}", stream.path)),
                    Action::SessionReady(ready) if script.native.is_empty() => {
                        // Codex's backend appends a suffix to the agent's id.
                        script.native = ready.native_id.split('.').next().unwrap().to_owned();
                    }
                    Action::Event(event)
                        if awaiting_text && matches!(event.kind, AgentEventKind::Text(_)) =>
                    {
                        awaiting_text = false;
                        let step = spoke.expect("text comes from what the agent said");
                        script.steps[step].says.last_mut().unwrap().first_text = true;
                    }
                    _ => {}
                }
            }
        }
        assert!(
            !script.native.is_empty() && !awaiting_text,
            "no turn with text in `{}`",
            measured.conversation
        );
        if backend.descriptor().sharing == LinkSharing::Link {
            let names_it =
                |step: &Step| step.says.iter().any(|said| said.text.contains(&script.native));
            script.opener =
                script.steps.iter().find(|step| names_it(step)).map(|step| step.kind.clone());
        }
        script.renew();
        (Arc::new(script), begun.expect("a turn"))
    }

    fn add_steps(&mut self, text: &str) {
        for line in text.lines() {
            let (kind, id) = classify(line, &self.native);
            self.steps.push(Step { kind, id, ..Step::default() });
        }
    }

    /// Fills in the outputs of a second turn.
    fn renew(&mut self) {
        let mut known = BTreeSet::from([self.native.clone()]);
        for step in &mut self.steps {
            let mut named = BTreeSet::new();
            step.says
                .iter()
                .filter_map(|said| serde_json::from_str(&said.text).ok())
                .for_each(|line| ids(&line, &mut named));
            step.again.clone_from(&step.says);
            for id in named.difference(&known) {
                let fresh = format!("{}fff", &id[..id.len() - 3]);
                step.again.iter_mut().for_each(|said| said.text = said.text.replace(id, &fresh));
            }
            known.extend(named);
        }
    }

    /// Returns a copy with `bytes` more text in pieces.
    pub fn stretched(&self, bytes: usize) -> Self {
        let mut long = self.clone();
        for says in long.steps.iter_mut().flat_map(|step| [&mut step.says, &mut step.again]) {
            if let Some(at) = says.iter().position(|said| said.first_text) {
                let piece = says[at].clone();
                says.splice(at..at, std::iter::repeat_n(piece, bytes / says[at].text.len()));
            }
        }
        long
    }

    /// Returns whether the agent is a server.
    pub fn listens(&self) -> bool {
        self.steps
            .iter()
            .flat_map(|step| &step.says)
            .any(|said| matches!(said.way, Way::Response(_)))
    }
}

fn text(chunks: &[Chunk]) -> String {
    chunks
        .iter()
        .map(|chunk| if let Chunk::Text(text) = chunk { text.as_str() } else { "" })
        .collect()
}

/// Collects all values that look like ids.
fn ids(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(id) = value.as_str().filter(|id| {
                    id.len() > 12 && id.is_ascii() && name.to_ascii_lowercase().ends_with("id")
                }) {
                    found.insert(id.to_owned());
                }
                ids(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| ids(item, found)),
        _ => {}
    }
}

/// Returns the kind of an agent's input, and the id if it is a call.
fn classify(text: &str, native: &str) -> (String, Option<Value>) {
    let Ok(line) = serde_json::from_str::<Value>(text) else {
        let path = text.split('?').next().unwrap();
        return (if native.is_empty() { path.to_owned() } else { path.replace(native, "*") }, None);
    };
    let kind =
        ["/method", "/request/subtype", "/type"].iter().find_map(|at| line.pointer(at)?.as_str());
    (kind.unwrap_or_default().to_owned(), line.get("id").or(line.get("request_id")).cloned())
}

/// An agent that follows a script, in any number of sessions.
pub struct Player {
    script: Arc<Script>,
    /// The agent's ids of its sessions.
    sessions: Vec<String>,
    /// Pairs of a session and a kind of input that was answered once.
    said: HashSet<(String, String)>,
}

impl Player {
    pub fn new(script: Arc<Script>) -> Self {
        Self { script, sessions: Vec::new(), said: HashSet::new() }
    }

    /// Returns the output that the agent prints when it starts.
    pub fn begins(&self) -> Vec<Said> {
        self.script.steps[0].says.clone()
    }

    /// Returns the agent's reply to an input: the output for the first input of this kind in the
    /// script. There are two versions of it, so a session has two turns.
    pub fn respond(&mut self, text: &str) -> Vec<Said> {
        let native = self.session(text);
        let (kind, id) = classify(text, &native);
        let Some(step) = self.script.steps[1..].iter().find(|step| step.kind == kind) else {
            return Vec::new();
        };
        let first = self.said.insert((native.clone(), kind));
        let mut says = if first { &step.says } else { &step.again }.clone();
        for said in &mut says {
            if native != self.script.native {
                said.text = said.text.replace(&self.script.native, &native);
            }
            if id != step.id {
                answer(said, step.id.as_ref(), id.as_ref());
            }
        }
        says
    }

    /// Returns the session of an input: the one it names, one that it opens, or the only one.
    fn session(&mut self, text: &str) -> String {
        if let Some(named) = self.sessions.iter().find(|native| text.contains(native.as_str())) {
            return named.clone();
        }
        let recorded = &self.script.native;
        let mut native = recorded.clone();
        if self.script.opener.as_ref().is_some_and(|opener| *opener == classify(text, recorded).0) {
            let number = self.sessions.len();
            if number > 0 {
                native.replace_range(recorded.len() - 3.., &format!("{number:03}"));
            }
            self.sessions.push(native.clone());
        }
        native
    }
}

/// Replaces the id of the recorded call in a response by the id of the actual one.
fn answer(said: &mut Said, recorded: Option<&Value>, asked: Option<&Value>) {
    let Ok(mut line) = serde_json::from_str::<Value>(&said.text) else { return };
    let (Some(asked), None) = (asked, line.get("method")) else { return };
    let at = if line.get("id").is_some() { "/id" } else { "/response/request_id" };
    if let Some(id) = line.pointer_mut(at).filter(|id| Some(&**id) == recorded) {
        *id = asked.clone();
        said.text = line.to_string();
    }
}
