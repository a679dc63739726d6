//! Replays recorded dialogues with OpenCode's server with the backend: answers its requests and
//! sends the events as recorded.
//!
//! A recording numbers requests (`http`) and streams (`sse`). The backend uses other numbers, so a
//! recorded answer belongs to the request with the same method and path: the answer to the second
//! recorded `POST /session/x/prompt_async` is used for the backend's second one. Requests that are
//! not in the recording are answered by this module if every server would give the same answer.
#![allow(clippy::unwrap_used, dead_code, reason = "every test file uses some of it")]

pub mod said;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use aetheel_backend_sdk::wit::{
    Action, Ask, Chunk, Command, Decision, EventKind, Exit, Exited, HttpRequest, HttpResponse,
    Input, Line, Outcome, Pipe, Spawned, StartTurn, StreamClosed, StreamEvent, StreamOpened,
    TimedInput, TurnDone,
};
use aetheel_backend_sdk::{Backend as _, dialogue, fixture};
use opencode::Backend;
use serde_json::{Value, json};

/// Returns a turn in live mode.
pub fn turn(number: u32, prompt: &str) -> StartTurn {
    StartTurn { turn: number, one_shot: false, ..fixture::start(prompt) }
}

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/opencode")
}

enum Said {
    Asked(i64, String),
    Answered(i64, u32, String),
    Event(String),
    Line(String),
    Exit(Exit),
}

struct Made {
    key: String,
    request: HttpRequest,
    answered: bool,
}

pub struct Play {
    backend: Backend,
    case: PathBuf,
    rest: VecDeque<(f64, Said)>,
    /// How often each method and path occurs in the recording.
    recorded: BTreeMap<String, usize>,
    asked: BTreeMap<i64, (String, usize)>,
    counts: BTreeMap<String, usize>,
    made: Vec<Made>,
    pub proc: Option<u32>,
    pub stream: Option<u32>,
    timers: BTreeMap<u32, f64>,
    now: f64,
    pub inputs: Vec<TimedInput>,
    pub actions: Vec<Action>,
}

impl Play {
    pub fn load(name: &str) -> Self {
        let case = folder().join(name);
        let text = fs::read_to_string(case.with_extension("dialogue")).unwrap();
        Self { case, ..Self::of(&text) }
    }

    /// Returns a server that reports that it listens, and sends nothing else.
    pub fn server() -> Self {
        Self::of(r#"{"t":1,"dir":"<","raw":"opencode server listening on http://127.0.0.1:4096"}"#)
    }

    fn of(text: &str) -> Self {
        let rest: VecDeque<_> = text.lines().filter_map(said).collect();
        let mut recorded = BTreeMap::new();
        for (_, said) in &rest {
            if let Said::Asked(_, key) = said {
                *recorded.entry(key.clone()).or_default() += 1;
            }
        }
        Self {
            backend: Backend::default(),
            case: PathBuf::new(),
            rest,
            recorded,
            asked: BTreeMap::new(),
            counts: BTreeMap::new(),
            made: Vec::new(),
            proc: None,
            stream: None,
            timers: BTreeMap::new(),
            now: 0.0,
            inputs: Vec::new(),
            actions: Vec::new(),
        }
    }

    pub fn start(&mut self, start: StartTurn) -> &mut Self {
        self.command(Command::StartTurn(start))
    }

    pub fn command(&mut self, command: Command) -> &mut Self {
        self.input(Input::Command(command))
    }

    pub fn answer_ask(&mut self, ask: u32, decision: Decision) -> &mut Self {
        self.command(Command::Answer(aetheel_backend_sdk::wit::Answer { ask, decision }))
    }

    pub fn input(&mut self, input: Input) -> &mut Self {
        let seen = self.actions.len();
        let input = TimedInput { at_ms: self.now, input };
        self.inputs.push(input.clone());
        self.backend
            .handle(input, &mut self.actions)
            .expect("a backend does not give up over output");
        let done = self.actions[seen..].to_vec();
        for action in done {
            match action {
                Action::Spawn(spawn) => {
                    if spawn.listens {
                        self.proc = Some(spawn.proc);
                    }
                    self.input(Input::Spawned(Spawned { proc: spawn.proc, agent_version: None }));
                }
                Action::OpenStream(open) => {
                    self.stream = Some(open.stream);
                    self.input(Input::StreamOpened(StreamOpened {
                        stream: open.stream,
                        status: 200,
                    }));
                }
                Action::Http(request) => self.requested(request),
                Action::SetTimer(timer) => {
                    self.timers.insert(
                        timer.timer,
                        dialogue::microseconds(self.now + f64::from(timer.after_ms)),
                    );
                }
                Action::CancelTimer(timer) => drop(self.timers.remove(&timer)),
                _ => {}
            }
        }
        self
    }

    fn requested(&mut self, request: HttpRequest) {
        let key = key(&request.method, &request.path);
        let number = self.made.iter().filter(|made| made.key == key).count();
        let (id, recorded) =
            (request.request, self.recorded.get(&key).copied().unwrap_or_default());
        self.made.push(Made { key: key.clone(), request, answered: false });
        if number >= recorded {
            if key == "GET /global/health" {
                self.reply(id, 200, r#"{"healthy":true,"version":"1.18.33"}"#);
            } else if let Some(session) = key.strip_prefix("PATCH /session/ses_unknown") {
                let error = json!({"name": "NotFoundError", "data": {"message": format!("Session not found: ses_unknown{session}")}});
                self.reply(id, 404, &error.to_string());
            } else if let Some(session) = key.strip_prefix("PATCH /session/") {
                self.reply(
                    id,
                    200,
                    &json!({"id": session, "title": "New session - then"}).to_string(),
                );
            }
        }
    }

    fn reply(&mut self, request: u32, status: u32, body: &str) {
        let made = self.made.iter_mut().find(|made| made.request.request == request).unwrap();
        assert!(!std::mem::replace(&mut made.answered, true), "answered twice: {}", made.key);
        self.input(Input::HttpResponse(HttpResponse { request, status, body: body.to_owned() }));
    }

    /// Answers the oldest open request whose method and path contain a text.
    pub fn answer(&mut self, contains: &str, status: u32, body: &str) -> &mut Self {
        let made = self.made.iter().find(|made| !made.answered && made.key.contains(contains));
        let request = made
            .unwrap_or_else(|| panic!("no open request contains {contains}: {:?}", self.paths()))
            .request
            .request;
        self.reply(request, status, body);
        self
    }

    /// Sends an event of a session.
    pub fn tell(&mut self, kind: &str, properties: Value) -> &mut Self {
        let event = json!({"directory": "/srv/proj", "payload": {"id": "evt_1", "type": kind, "properties": properties}});
        self.event(event.to_string())
    }

    pub fn event(&mut self, data: String) -> &mut Self {
        let stream = self.stream.unwrap();
        self.input(Input::StreamEvent(StreamEvent { stream, name: None, id: None, data }))
    }

    pub fn close_stream(&mut self) -> &mut Self {
        let stream = self.stream.unwrap();
        self.input(Input::StreamClosed(StreamClosed {
            stream,
            message: Some("end of file".to_owned()),
        }))
    }

    pub fn exit(&mut self, how: Exit, stderr: &str) -> &mut Self {
        let proc = self.proc.take().unwrap();
        self.input(Input::Exited(Exited { proc, how, stderr_tail: stderr.to_owned() }))
    }

    pub fn elapse(&mut self, ms: f64) -> &mut Self {
        self.until_time(self.now + ms);
        self
    }

    /// Plays up to and including the server's next recorded line that contains a text.
    pub fn until(&mut self, contains: &str) -> &mut Self {
        loop {
            let (at, said) = self
                .rest
                .pop_front()
                .unwrap_or_else(|| panic!("no further line is recorded that contains {contains}"));
            let here = match &said {
                Said::Event(text) | Said::Line(text) | Said::Answered(_, _, text) => {
                    text.contains(contains)
                }
                _ => false,
            };
            self.step(at, said);
            if here {
                return self;
            }
        }
    }

    /// Plays up to the next recorded request that contains a text.
    pub fn until_request(&mut self, contains: &str) -> &mut Self {
        loop {
            let (at, said) = self.rest.pop_front().unwrap_or_else(|| {
                panic!("no further request is recorded that contains {contains}")
            });
            let here = matches!(&said, Said::Asked(_, key) if key.contains(contains));
            self.step(at, said);
            if here {
                return self;
            }
        }
    }

    pub fn finish(&mut self) -> &mut Self {
        while let Some((at, said)) = self.rest.pop_front() {
            self.step(at, said);
        }
        self
    }

    fn step(&mut self, at: f64, said: Said) {
        self.until_time(at);
        match said {
            Said::Asked(id, key) => {
                let count = self.counts.entry(key.clone()).or_default();
                self.asked.insert(id, (key, *count));
                *count += 1;
            }
            Said::Answered(id, status, body) => {
                let Some((key, number)) = self.asked.get(&id) else { return };
                let made = self.made.iter().filter(|made| made.key == *key).nth(*number);
                if let Some(request) =
                    made.filter(|made| !made.answered).map(|made| made.request.request)
                {
                    self.reply(request, status, &body);
                }
            }
            Said::Event(data) if self.stream.is_some() => drop(self.event(data)),
            Said::Line(text) if self.proc.is_some() => {
                let line =
                    Line { proc: self.proc.unwrap(), pipe: Pipe::Stdout, text, truncated: false };
                self.input(Input::Line(line));
            }
            Said::Exit(how) if self.proc.is_some() => drop(self.exit(how, "")),
            _ => {}
        }
    }

    fn until_time(&mut self, at: f64) {
        while let Some((&timer, &due)) = self.timers.iter().min_by(|(_, a), (_, b)| a.total_cmp(b))
            && due <= at
        {
            self.timers.remove(&timer);
            self.now = self.now.max(due);
            self.input(Input::Timer(timer));
        }
        self.now = self.now.max(at);
    }

    /// Moves the state to another instance, as after a reload.
    pub fn reload(&mut self) -> &mut Self {
        let state = self.backend.save().expect("an idle link can be saved");
        let mut backend = Backend::default();
        backend.load(&state, "0.0.0").expect("a saved state can be loaded");
        self.backend = backend;
        self
    }

    pub fn saved(&self) -> Option<String> {
        self.backend.save()
    }

    /// Returns the methods and paths of all requests, in order.
    pub fn paths(&self) -> Vec<&str> {
        self.made.iter().map(|made| made.key.as_str()).collect()
    }

    /// Returns the bodies of requests whose method and path contain a text. `<base64 of 1>`
    /// represents the bytes of blob 1.
    pub fn bodies(&self, contains: &str) -> Vec<Value> {
        let made = self.made.iter().filter(|made| made.key.contains(contains));
        made.map(|made| {
            made.request
                .body
                .as_deref()
                .map_or(Value::Null, |body| serde_json::from_str(&text(body)).unwrap())
        })
        .collect()
    }

    pub fn done(&self) -> Vec<&TurnDone> {
        self.actions
            .iter()
            .filter_map(
                |action| if let Action::TurnDone(done) = action { Some(done) } else { None },
            )
            .collect()
    }

    pub fn outcomes(&self) -> Vec<&Outcome> {
        self.done().into_iter().map(|done| &done.outcome).collect()
    }

    pub fn asks(&self) -> Vec<&Ask> {
        fixture::asks(&self.actions)
    }

    pub fn events(&self) -> Vec<&EventKind> {
        fixture::events(&self.actions).collect()
    }

    /// Compares the inputs and actions with the golden files of the dialogue.
    pub fn check(&self) {
        fixture::check(&self.case, &self.inputs, &self.actions);
    }
}

fn key(method: &str, path: &str) -> String {
    format!("{method} {}", path.split('?').next().unwrap())
}

fn text(body: &[Chunk]) -> String {
    body.iter()
        .map(|chunk| match chunk {
            Chunk::Text(text) => text.clone(),
            Chunk::Base64(blob) => format!("<base64 of {blob}>"),
            Chunk::Secret(name) => format!("<secret {name}>"),
            Chunk::ToolServer(session) => format!("<tool server of session {session}>"),
        })
        .collect()
}

fn said(line: &str) -> Option<(f64, Said)> {
    let line: Value = serde_json::from_str(line).unwrap();
    let at = dialogue::microseconds(line["t"].as_f64().unwrap() * 1000.0);
    let message = &line["msg"];
    let said = match line["dir"].as_str().unwrap() {
        ">" => Said::Asked(
            message["http"].as_i64()?,
            key(message["method"].as_str().unwrap(), message["path"].as_str().unwrap()),
        ),
        "<" if line.get("raw").is_some() => Said::Line(line["raw"].as_str().unwrap().to_owned()),
        "<" if message.get("sse").is_some() => Said::Event(message["sse"]["data"].to_string()),
        "<" => {
            let body =
                if message["body"].is_null() { String::new() } else { message["body"].to_string() };
            Said::Answered(
                message["http"].as_i64()?,
                u32::try_from(message["status"].as_u64()?).unwrap(),
                body,
            )
        }
        _ => match message.get("exit")?.as_i64() {
            Some(code @ 0..) => Said::Exit(Exit::Code(u32::try_from(code).unwrap())),
            Some(signal) => Said::Exit(Exit::Signal(u32::try_from(-signal).unwrap())),
            None => Said::Exit(Exit::Unknown),
        },
    };
    Some((at, said))
}
