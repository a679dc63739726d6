//! A long-lived agent and its backend, both in this process. The agent reads `open NATIVE|new
//! SESSION`, `prompt SESSION TURN TEXT`, `stop TURN`, `answer ASK DECISION`, `steer TURN TEXT` and
//! `bye` on stdin. Its output lines are `SESSION TURN WORD REST`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aetheel_model::agent::{
    Action, AgentEvent, AgentEventKind, AgentFailure, AgentQuery, Ask, AskKind, Chunk, Descriptor,
    Exit, FailureKind, HostCommand, Input, Model, PromptPart, QueryAnswer, QueryKind, QueryResult,
    SessionInfo, SessionReady, Spawn, SteerOutcome, SteerResult, TextEvent, TimedInput, TurnDone,
    TurnOutcome, TurnRef, Write,
};
use aetheel_recording::{Backend, Generation, Guest, GuestFailure};
use aetheel_turn::{Backends, ProcessCommand};
use async_trait::async_trait;

use super::scripted::Agent;

/// The state of the guest, which is also what it saves.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Memory {
    proc: Option<u32>,
    procs: u32,
    sessions: Vec<u32>,
    turns: Vec<(u32, u32)>,
    pub generation: u32,
    /// The working directory of its last turn.
    cwd: String,
    /// How many queries it has answered.
    asked: u32,
}

/// One generation of the backend.
pub struct LastingBackend {
    descriptor: Descriptor,
    generation: Generation,
    /// Whether it loads the state that an older generation saved.
    pub loads: bool,
    /// How many inputs its guests got.
    pub handled: Arc<AtomicUsize>,
}

impl LastingBackend {
    pub fn new(sharing: &str, generation: u32) -> Self {
        let json = format!(
            r#"{{"name":"lasting","version":"{generation}","sharing":"{sharing}","features":["resume","fork","steer","model","models","sessions","compact"],"programs":[{{"name":"agent"}}]}}"#
        );
        let descriptor = Descriptor::parse(&json).unwrap();
        Self {
            descriptor,
            generation: Generation {
                number: generation,
                digest: generation.to_string().repeat(64),
            },
            loads: true,
            handled: Arc::default(),
        }
    }
}

#[async_trait]
impl Backend for LastingBackend {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn generation(&self) -> &Generation {
        &self.generation
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        let memory = Memory { generation: self.generation.number, ..Memory::default() };
        let handled = Arc::clone(&self.handled);
        Ok(Box::new(LastingGuest { memory, loads: self.loads, handled }))
    }
}

/// The current generation of the only backend. Tests replace it.
pub struct Replaceable(pub Mutex<Arc<dyn Backend>>);

impl Replaceable {
    pub fn new(backend: LastingBackend) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Arc::new(backend))))
    }

    pub fn replace(&self, backend: LastingBackend) {
        *self.0.lock().unwrap() = Arc::new(backend);
    }
}

impl Backends for Replaceable {
    fn get(&self, name: &str) -> Option<Arc<dyn Backend>> {
        (name == "lasting").then(|| self.0.lock().unwrap().clone())
    }

    fn names(&self) -> Vec<String> {
        vec!["lasting".to_owned()]
    }
}

struct LastingGuest {
    memory: Memory,
    loads: bool,
    handled: Arc<AtomicUsize>,
}

#[async_trait]
impl Guest for LastingGuest {
    async fn handle(&mut self, inputs: Vec<TimedInput>) -> Result<Vec<Action>, GuestFailure> {
        self.handled.fetch_add(inputs.len(), Ordering::Relaxed);
        Ok(inputs.into_iter().flat_map(|input| self.memory.take(input.input)).collect())
    }

    async fn save(&mut self) -> Result<Option<String>, GuestFailure> {
        Ok(Some(serde_json::to_string(&self.memory).unwrap()))
    }

    async fn load(&mut self, state: &str, _: &str) -> Result<(), GuestFailure> {
        if !self.loads {
            return Err(GuestFailure::Refused("it loads no state".to_owned()));
        }
        let generation = self.memory.generation;
        self.memory = Memory { generation, ..serde_json::from_str(state).unwrap() };
        Ok(())
    }
}

impl Memory {
    fn take(&mut self, input: Input) -> Vec<Action> {
        match input {
            Input::Command(HostCommand::StartTurn(start)) => {
                let mut out = Vec::new();
                self.cwd.clone_from(&start.cwd);
                if self.proc.is_none() {
                    self.procs += 1;
                    self.proc = Some(self.procs);
                    self.sessions.clear();
                    out.push(Action::Spawn(Spawn {
                        proc: self.procs,
                        program: "agent".into(),
                        arguments: vec![],
                        environment: vec![],
                        stdin: vec![],
                        keep_open: true,
                        listens: false,
                        basic_auth: None,
                        session: Some(start.session),
                        turn: Some(start.turn),
                    }));
                }
                if !self.sessions.contains(&start.session) {
                    self.sessions.push(start.session);
                    let copy = if start.fork { "copy-of-" } else { "" };
                    out.push(self.say(&format!(
                        "open {copy}{} {}",
                        start.native_id.as_deref().unwrap_or("new"),
                        start.session
                    )));
                }
                let Some(PromptPart::Text(text)) = start.parts.first() else { panic!("no prompt") };
                self.turns.push((start.session, start.turn));
                out.push(self.say(&format!("prompt {} {} {text}", start.session, start.turn)));
                out
            }
            Input::Command(HostCommand::Interrupt(turn)) => {
                vec![self.say(&format!("stop {}", turn.turn))]
            }
            Input::Command(HostCommand::Answer(answer)) => {
                vec![self.say(&format!("answer {} {:?}", answer.ask, answer.decision))]
            }
            Input::Command(HostCommand::Steer(steer)) => {
                let Some(PromptPart::Text(text)) = steer.parts.first() else { panic!("no text") };
                let steered = Action::Steered(SteerResult {
                    message: steer.message,
                    outcome: SteerOutcome::Injected,
                });
                vec![self.say(&format!("steer {} {text}", steer.turn)), steered]
            }
            Input::Command(HostCommand::Query(query)) => self.query(&query),
            Input::Command(HostCommand::Shutdown) if self.proc.is_some() => vec![self.say("bye")],
            Input::Line(line) => self.line(&line.text),
            Input::Exited(_) => {
                self.proc = None;
                let failure = AgentFailure {
                    kind: FailureKind::Crashed,
                    message: "the agent exited".to_owned(),
                    retry_after_ms: None,
                };
                std::mem::take(&mut self.turns)
                    .into_iter()
                    .map(|turn| done(turn, TurnOutcome::Lost(failure.clone())))
                    .collect()
            }
            _ => vec![],
        }
    }

    fn query(&mut self, query: &AgentQuery) -> Vec<Action> {
        self.asked += 1;
        let answer = match &query.kind {
            QueryKind::Health if self.proc.is_some() => QueryResult::Health("it runs".to_owned()),
            QueryKind::Health => QueryResult::Health("it does not run yet".to_owned()),
            // The label shows the number of queries so far.
            QueryKind::Models => {
                let label = format!("asked\u{1b}[2J {}\u{202e}", self.asked);
                let model =
                    |id: &str| Model { id: id.to_owned(), label: label.clone(), efforts: vec![] };
                QueryResult::Models(vec![model("m-1"), model("--evil")])
            }
            QueryKind::Sessions => {
                let session = |id: &str, title: &str, cwd: &str| SessionInfo {
                    native_id: id.to_owned(),
                    title: Some(title.to_owned()),
                    cwd: Some(cwd.to_owned()),
                    updated: Some("2026-08-06T12:00:00Z".to_owned()),
                };
                let own = self
                    .sessions
                    .iter()
                    .map(|key| session(&format!("n-{key}"), "of the gateway", &self.cwd));
                let foreign = [
                    session("t-1", "At the terminal\n", &self.cwd),
                    session("t-2", "far", "/far"),
                    session("--evil", "", &self.cwd),
                ];
                QueryResult::Sessions(own.chain(foreign).collect())
            }
            QueryKind::Compact => {
                let session = query.session.expect("the query has a session");
                assert!(self.sessions.contains(&session), "{session} is not open");
                let ready = SessionReady {
                    session,
                    native_id: format!("short-{session}"),
                    model: None,
                    title: None,
                    tools: vec![],
                };
                let answer = Action::QueryAnswer(QueryAnswer {
                    query: query.query,
                    answer: QueryResult::Done,
                });
                return vec![Action::SessionReady(ready), answer];
            }
        };
        vec![Action::QueryAnswer(QueryAnswer { query: query.query, answer })]
    }

    fn line(&mut self, line: &str) -> Vec<Action> {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let [session, turn, word, rest] = words[..] else {
            panic!("invalid line of the agent: {line:?}")
        };
        let (session, turn) = (session.parse().unwrap(), turn.parse().unwrap());
        match word {
            "session" => vec![Action::SessionReady(SessionReady {
                session,
                native_id: rest.to_owned(),
                model: None,
                title: None,
                tools: vec![],
            })],
            "text" => {
                let text = format!("{rest} (by {})", self.generation);
                vec![Action::Event(AgentEvent {
                    session,
                    turn,
                    kind: AgentEventKind::Text(TextEvent {
                        part: 0,
                        text,
                        replace: false,
                        parent: None,
                    }),
                })]
            }
            "begin" => vec![Action::TurnBegun(TurnRef { session, turn })],
            "ask" => {
                let kind = AskKind::PlanApproval(rest.to_owned());
                let title = rest.to_owned();
                let (options, diffs) = (vec![], vec![]);
                // Keys from here up belong to the host.
                let reserved = if rest == "reserved" { 0x8000_0000 } else { 0 };
                vec![Action::Ask(Ask {
                    ask: 7 + reserved,
                    session,
                    turn,
                    title,
                    kind,
                    always_label: None,
                    options,
                    diffs,
                    changeable: false,
                    parent: None,
                    deadline_ms: None,
                })]
            }
            "withdraw" => vec![Action::AskWithdrawn(7)],
            "done" | "stopped" => {
                self.turns.retain(|open| *open != (session, turn));
                vec![done(
                    (session, turn),
                    if word == "done" { TurnOutcome::Completed } else { TurnOutcome::Interrupted },
                )]
            }
            other => panic!("unexpected line of the agent: {other:?}"),
        }
    }

    fn say(&self, text: &str) -> Action {
        Action::Write(Write {
            proc: self.proc.expect("it runs"),
            body: vec![Chunk::Text(format!("{text}\n"))],
        })
    }
}

fn done((session, turn): (u32, u32), outcome: TurnOutcome) -> Action {
    Action::TurnDone(TurnDone { session, turn, outcome, text: None, usage: None })
}

/// The agent. The test decides how it reacts to prompts. It handles the opening of sessions itself.
pub struct LastingAgent {
    pub agent: Agent,
    /// The sessions that were opened, as `NATIVE SESSION`.
    pub opened: Arc<Mutex<Vec<String>>>,
}

/// A command to the agent.
#[derive(Debug)]
pub enum AgentCommand {
    Prompt { session: String, turn: String, text: String },
    Other(String),
}

impl LastingAgent {
    pub fn new(agent: Agent, opened: &Arc<Mutex<Vec<String>>>) -> Self {
        Self { agent, opened: Arc::clone(opened) }
    }

    /// Returns the next command that does not open a session, or `None` when the agent is to exit.
    pub async fn next_command(&mut self) -> Option<AgentCommand> {
        loop {
            let text = match self.agent.commands.recv().await? {
                ProcessCommand::Write(bytes) => {
                    String::from_utf8(bytes).unwrap().trim_end().to_owned()
                }
                ProcessCommand::CloseStdin => return None,
                ProcessCommand::Recorded(_) => continue,
                ProcessCommand::Stop { signal, .. } => {
                    return Some(AgentCommand::Other(format!("{signal:?}")));
                }
            };
            let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
            match word {
                "open" => {
                    self.opened.lock().unwrap().push(rest.to_owned());
                    let (native, session) = rest.split_once(' ').unwrap();
                    let native =
                        if native == "new" { format!("n-{session}") } else { native.to_owned() };
                    self.agent.say(&[&format!("{session} 0 session {native}")]).await;
                }
                "prompt" => {
                    let [session, turn, text] = rest
                        .splitn(3, ' ')
                        .map(str::to_owned)
                        .collect::<Vec<_>>()
                        .try_into()
                        .unwrap();
                    return Some(AgentCommand::Prompt { session, turn, text });
                }
                "bye" => return None,
                _ => return Some(AgentCommand::Other(text)),
            }
        }
    }

    pub async fn answer(&self, session: &str, turn: &str, text: &str) {
        self.agent
            .say(&[&format!("{session} {turn} text {text}"), &format!("{session} {turn} done .")])
            .await;
    }
}

/// Answers every prompt with its text, and exits when asked to.
pub async fn echoing(agent: Agent, opened: Arc<Mutex<Vec<String>>>) {
    let mut lasting = LastingAgent::new(agent, &opened);
    while let Some(command) = lasting.next_command().await {
        match command {
            AgentCommand::Prompt { session, turn, text } => {
                lasting.answer(&session, &turn, &text).await
            }
            AgentCommand::Other(signal) if signal == "Terminate" => break,
            AgentCommand::Other(other) => panic!("unexpected command {other:?}"),
        }
    }
    opened.lock().unwrap().push("left".to_owned());
    lasting.agent.exit(Exit::Code(0), "").await;
}
