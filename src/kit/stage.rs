//! A host that only pretends: tells a guest what a script says, keeps the books a host keeps, and
//! watches that the guest keeps to the contract. Nothing is started and nothing is waited for; at
//! the end everything still open ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use super::finding::Rule;
use super::script::{Manner, Script, Tell};
use super::{brief, damage, shortened};
use crate::agent::{
    Action, Answer, Chunk, Command, EventKind, Exited, HttpFailed, HttpResponse, Input, Safety,
    Spawn, SpawnFailed, Spawned, StreamClosed, StreamEvent, StreamOpened, TimedInput, Value,
};
use crate::turn::replay::Keys;
use crate::turn::{Backend, Guest, GuestFailure, plan};
use crate::workspace::SessionId;

/// What stands in every prompt of the kit's own, to be found again where it must not be.
pub(super) const PROMPT: &str = "kit-prompt-7c1f7e52";
/// Processes a turn may start.
const SPAWNS: usize = 8;
/// Rounds in which everything open ends, each because of what the guest did in the one before.
const ROUNDS: usize = 64;
/// Bytes of the sample of something unrecognised, and of a private file.
const SAMPLE: usize = 2 << 10;
const FILE: usize = 1 << 20;
/// Private files of a link.
const FILES: usize = 8;

/// Something the guest must not do, and what it had been told.
#[derive(Clone, Debug)]
pub(super) struct Remark {
    pub(super) rule: Rule,
    pub(super) line: Option<usize>,
    pub(super) told: String,
    pub(super) came: String,
    pub(super) expected: String,
}

/// Plays a script, `batch` inputs a call. Returns what the guest did wrong and how many inputs it
/// was told.
///
/// # Errors
/// When no guest can be opened.
pub(super) async fn play(
    backend: &dyn Backend,
    keys: Keys,
    script: &Script,
    batch: usize,
) -> Result<(Vec<Remark>, usize), GuestFailure> {
    let mut stage = Stage {
        backend,
        guest: backend.open().await?,
        keys,
        manner: &script.manner,
        now: 0.0,
        told: 0,
        waiting: Vec::new(),
        last: (None, String::new()),
        safety: HashMap::new(),
        turns: BTreeMap::new(),
        spawned: BTreeSet::new(),
        alive: BTreeMap::new(),
        requests: BTreeSet::new(),
        streams: BTreeSet::new(),
        timers: BTreeMap::new(),
        asks: BTreeSet::new(),
        files: HashMap::new(),
        remarks: Vec::new(),
        profile: Vec::new(),
        excused: false,
        failed: false,
    };
    for tell in &script.tells {
        if let Some(start) = tell.start() {
            stage.flush().await;
            // A host begins no turn before the session's last one is over.
            if stage
                .turns
                .iter()
                .any(|((session, _), ends)| *session == start.session && *ends == 0)
            {
                break;
            }
        }
        stage.hear(tell, batch).await;
    }
    stage.flush().await;
    stage.settle().await;
    Ok((stage.remarks, stage.told))
}

struct Stage<'a> {
    backend: &'a dyn Backend,
    guest: Box<dyn Guest>,
    keys: Keys,
    manner: &'a Manner,
    now: f64,
    told: usize,
    waiting: Vec<TimedInput>,
    /// Line and words of what was told last.
    last: (Option<usize>, String),
    safety: HashMap<u32, Safety>,
    /// How often each turn of each session ended.
    turns: BTreeMap<(u32, u32), usize>,
    /// All processes there ever were.
    spawned: BTreeSet<u32>,
    /// Those that run, and whether the guest knows.
    alive: BTreeMap<u32, bool>,
    requests: BTreeSet<u32>,
    streams: BTreeSet<u32>,
    /// When they run out.
    timers: BTreeMap<u32, f64>,
    asks: BTreeSet<u32>,
    files: HashMap<String, PathBuf>,
    remarks: Vec<Remark>,
    /// What the operator's options hold: a launch profile declares more than the component does.
    profile: Vec<String>,
    /// It was told to leave in the middle of a turn, which no host does: turns need not end.
    excused: bool,
    failed: bool,
}

impl Stage<'_> {
    async fn hear(&mut self, tell: &Tell, batch: usize) {
        if self.failed {
            return;
        }
        if self.waiting.len() >= batch || (!tell.foreign && self.keys.is_open(&tell.input)) {
            self.flush().await;
        }
        let input = match tell.foreign {
            true => tell.input.clone(),
            false => match self.keys.translate(&tell.input) {
                Some(input) => input,
                None => return,
            },
        };
        self.last = (tell.line, brief(&input));
        self.note(&input);
        self.now += 1.0;
        self.waiting.push(TimedInput { at_ms: self.now, input });
    }

    /// What a host knows from what it tells.
    fn note(&mut self, input: &Input) {
        match input {
            Input::Command(Command::StartTurn(start)) => {
                self.safety.insert(start.session, start.settings.safety);
                self.profile = damage::words(&start.settings.options);
                self.turns.entry((start.session, start.turn)).or_default();
            }
            Input::Command(Command::Shutdown | Command::CloseSession(_)) => {
                self.excused |= self.turns.values().any(|ends| *ends == 0)
            }
            Input::Command(Command::Answer(answer)) => drop(self.asks.remove(&answer.ask)),
            Input::Spawned(spawned) => {
                if let Some(knows) = self.alive.get_mut(&spawned.proc) {
                    *knows = true;
                }
            }
            Input::SpawnFailed(failed) => drop(self.alive.remove(&failed.proc)),
            Input::Exited(exited) => drop(self.alive.remove(&exited.proc)),
            Input::HttpResponse(response) => drop(self.requests.remove(&response.request)),
            Input::HttpFailed(failed) => drop(self.requests.remove(&failed.request)),
            Input::StreamClosed(closed) => drop(self.streams.remove(&closed.stream)),
            Input::Timer(timer) => drop(self.timers.remove(timer)),
            _ => {}
        }
    }

    async fn flush(&mut self) {
        if self.waiting.is_empty() || self.failed {
            return;
        }
        self.told += self.waiting.len();
        match self.guest.handle(std::mem::take(&mut self.waiting)).await {
            Ok(actions) => {
                for action in &actions {
                    self.keys.note(action);
                    self.judge(action);
                }
            }
            Err(failure) => {
                self.failed = true;
                self.remark(
                    Rule::NeverFails,
                    failure.to_string(),
                    "no failure, whatever comes".into(),
                );
            }
        }
    }

    fn remark(&mut self, rule: Rule, came: String, expected: String) {
        let (line, told) = self.last.clone();
        self.remarks.push(Remark { rule, line, told, came: shortened(&came, 600), expected });
    }

    fn judge(&mut self, action: &Action) {
        match action {
            Action::Spawn(spawn) => self.judge_spawn(spawn),
            Action::Write(write) => self.known_process("write", write.proc),
            Action::CloseStdin(proc) => self.known_process("close-stdin", *proc),
            Action::Stop(stop) => {
                self.known_process("stop", stop.proc);
                self.within(
                    stop.grace_ms <= 10_000,
                    "stop.grace-ms",
                    stop.grace_ms as usize,
                    "at most 10000",
                );
            }
            Action::PutFile(file) => {
                let named = (1..=64).contains(&file.name.len())
                    && file.name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b))
                    && !file.name.starts_with('.');
                if !named {
                    self.remark(
                        Rule::Limits,
                        format!("put-file {:?}", file.name),
                        "a plain name of letters, digits, `.`, `-`, `_`".into(),
                    );
                }
                self.within(
                    size(&file.body) <= FILE,
                    "bytes of put-file",
                    size(&file.body),
                    "at most 1 MiB",
                );
                self.files.insert(file.name.clone(), PathBuf::from("/kit").join(&file.name));
                self.within(self.files.len() <= FILES, "files", self.files.len(), "at most 8");
            }
            Action::Http(request) => {
                self.known_process("http", request.proc);
                self.path(&request.path);
                self.within(
                    request.timeout_ms <= 600_000,
                    "http.timeout-ms",
                    request.timeout_ms as usize,
                    "at most 600000",
                );
                self.requests.insert(request.request);
            }
            Action::OpenStream(open) => {
                self.known_process("open-stream", open.proc);
                self.path(&open.path);
                self.streams.insert(open.stream);
            }
            Action::SetTimer(timer) => {
                self.timers.insert(timer.timer, self.now + f64::from(timer.after_ms));
            }
            Action::CancelTimer(timer) => drop(self.timers.remove(timer)),
            Action::SessionReady(ready) => {
                if !self.manner.forged && SessionId::new(&ready.native_id).is_err() {
                    let came = format!(
                        "session-ready with native-id {:?}",
                        shortened(&ready.native_id, 150)
                    );
                    self.remark(
                        Rule::Limits,
                        came,
                        "1 to 128 letters, digits, `_`, `.`, `:`, `-`, not beginning with `-`"
                            .into(),
                    );
                }
            }
            Action::TurnBegun(turn) => {
                if turn.turn < 0x8000_0000 {
                    self.remark(
                        Rule::Keys,
                        format!("turn-begun with key {}", turn.turn),
                        "a key from 0x8000_0000 up".into(),
                    );
                }
                self.turns.entry((turn.session, turn.turn)).or_default();
            }
            Action::Event(event) => {
                self.running("an event", (event.session, event.turn));
                if let EventKind::Unrecognised(unknown) = &event.kind {
                    self.within(
                        unknown.sample.len() <= SAMPLE,
                        "bytes of unrecognised.sample",
                        unknown.sample.len(),
                        "at most 2 KiB",
                    );
                }
            }
            Action::Ask(ask) => {
                self.running("an ask", (ask.session, ask.turn));
                self.asks.insert(ask.ask);
            }
            Action::AskWithdrawn(ask) => drop(self.asks.remove(ask)),
            Action::TurnDone(done) => match self.turns.get_mut(&(done.session, done.turn)) {
                Some(ends) => {
                    *ends += 1;
                    if *ends == 2 {
                        self.remark(
                            Rule::EndsOnce,
                            "a second turn-done for the same turn".into(),
                            "one turn-done a turn".into(),
                        );
                    }
                }
                None => self.remark(
                    Rule::Keys,
                    format!("turn-done for turn {}", done.turn),
                    "a turn that was begun".into(),
                ),
            },
            Action::CloseStream(_)
            | Action::Steered(_)
            | Action::QueryAnswer(_)
            | Action::Diagnostic(_) => {}
        }
    }

    fn judge_spawn(&mut self, spawn: &Spawn) {
        if !self.spawned.insert(spawn.proc) {
            self.remark(
                Rule::Keys,
                format!("spawn with process key {} a second time", spawn.proc),
                "a fresh key for every process".into(),
            );
        }
        self.alive.insert(spawn.proc, false);
        let named = spawn.environment.iter().filter_map(|variable| match &variable.value {
            Value::Secret(name) => Some(name),
            _ => None,
        });
        let named = named.chain(spawn.basic_auth.iter().map(|auth| &auth.secret));
        let secrets: HashMap<String, String> =
            named.map(|name| (name.clone(), "secret".to_owned())).collect();
        let safety = spawn
            .session
            .and_then(|session| self.safety.get(&session))
            .copied()
            .unwrap_or(Safety::Default);
        let port = spawn.listens.then_some(4096);
        let known =
            plan::Known { files: &self.files, secrets: &secrets, port, inherited: &HashMap::new() };
        let mut planned = spawn.clone();
        planned
            .arguments
            .retain(|value| !matches!(value, Value::Text(text) if self.profile.contains(text)));
        if let Some(program) = self
            .backend
            .descriptor()
            .programs
            .first()
            .filter(|_| self.profile.contains(&planned.program))
        {
            planned.program.clone_from(&program.name);
        }
        match plan::check(&planned, self.backend.descriptor(), safety, known) {
            Err(fault) => {
                let came = format!(
                    "spawn of {}: {fault}",
                    serde_json::to_string(&spawn.arguments).unwrap_or_default()
                );
                self.remark(
                    Rule::Plan,
                    came,
                    "only what the descriptor declares for the turn's safety level".into(),
                );
            }
            Ok(checked) => {
                if checked.arguments.iter().any(|argument| argument.contains(PROMPT)) {
                    self.remark(
                        Rule::Plan,
                        "the prompt in an argument".into(),
                        "the prompt on stdin or in a protocol message".into(),
                    );
                }
            }
        }
    }

    fn known_process(&mut self, what: &str, proc: u32) {
        if !self.spawned.contains(&proc) {
            self.remark(
                Rule::Keys,
                format!("{what} for process {proc}"),
                "a process it started".into(),
            );
        }
    }

    fn running(&mut self, what: &str, turn: (u32, u32)) {
        match self.turns.get(&turn) {
            Some(0) => {}
            Some(_) => self.remark(
                Rule::EndsOnce,
                format!("{what} after the turn's end"),
                "nothing about a turn after its turn-done".into(),
            ),
            None => self.remark(
                Rule::Keys,
                format!("{what} of turn {} of session {}", turn.1, turn.0),
                "a turn that was begun".into(),
            ),
        }
    }

    fn within(&mut self, fits: bool, what: &str, is: usize, limit: &str) {
        if !fits {
            self.remark(Rule::Limits, format!("{what}: {is}"), limit.to_owned());
        }
    }

    fn path(&mut self, path: &str) {
        if !path.starts_with('/') {
            self.remark(
                Rule::Limits,
                format!("a request for {:?}", shortened(path, 100)),
                "a path that begins with `/`".into(),
            );
        }
    }

    /// Ends everything that is still open, as a host does whose agents die; timers run out while a
    /// turn waits for them.
    async fn settle(&mut self) {
        for _ in 0..ROUNDS {
            if self.failed {
                return;
            }
            let mut ends = self.ends();
            if ends.is_empty() && self.turns.values().any(|ends| *ends == 0) {
                let next = self
                    .timers
                    .iter()
                    .min_by(|a, b| a.1.total_cmp(b.1))
                    .map(|(timer, due)| (*timer, *due));
                if let Some((timer, due)) = next {
                    self.now = self.now.max(due);
                    ends.push(Input::Timer(timer));
                }
            }
            if ends.is_empty() {
                break;
            }
            for input in ends {
                self.hear(&Tell { line: self.last.0, ..Tell::foreign(input) }, 1).await;
            }
            self.flush().await;
        }
        self.afterwards().await;
    }

    /// The ends of what is open now.
    fn ends(&self) -> Vec<Input> {
        let mut ends = Vec::new();
        for (proc, knows) in &self.alive {
            let proc = *proc;
            if !knows && self.spawned.len() > SPAWNS {
                ends.push(Input::SpawnFailed(SpawnFailed {
                    proc,
                    message: "a turn starts at most 8 processes".into(),
                    not_found: false,
                }));
                continue;
            }
            if !knows {
                ends.push(Input::Spawned(Spawned { proc, agent_version: None }));
            }
            if self.manner.body.is_none() || self.requests.is_empty() && self.streams.is_empty() {
                ends.push(Input::Exited(Exited {
                    proc,
                    how: self.manner.exit,
                    stderr_tail: "the kit ended it".into(),
                }));
            }
        }
        for request in &self.requests {
            ends.push(match self.manner.body {
                Some(body) => Input::HttpResponse(HttpResponse {
                    request: *request,
                    status: 200,
                    body: body.into(),
                }),
                None => Input::HttpFailed(HttpFailed {
                    request: *request,
                    message: "connection refused".into(),
                    timed_out: false,
                }),
            });
        }
        for stream in &self.streams {
            let stream = *stream;
            if let Some(body) = self.manner.body {
                ends.push(Input::StreamOpened(StreamOpened { stream, status: 200 }));
                ends.push(Input::StreamEvent(StreamEvent {
                    stream,
                    name: None,
                    id: None,
                    data: body.into(),
                }));
            }
            ends.push(Input::StreamClosed(StreamClosed {
                stream,
                message: Some("the connection broke".into()),
            }));
        }
        let answers = self
            .asks
            .iter()
            .map(|ask| Answer { ask: *ask, decision: self.manner.decision.clone() });
        ends.extend(answers.map(|answer| Input::Command(Command::Answer(answer))));
        ends
    }

    /// With everything at its end: nothing was forgotten, and nothing begins anew.
    async fn afterwards(&mut self) {
        let open: Vec<(u32, u32)> =
            self.turns.iter().filter(|(_, ends)| **ends == 0).map(|(turn, _)| *turn).collect();
        let excused = self.excused;
        for turn in open.into_iter().filter(|_| !excused) {
            let came = if self.spawned.is_empty() {
                "no process and no turn-done"
            } else {
                "no turn-done after all its processes had exited"
            };
            self.remark(Rule::EndsOnce, came.into(), "one turn-done a turn".into());
            // Said once; what follows is about other things.
            self.turns.insert(turn, 1);
        }
        if let Some(proc) = self.spawned.last().copied() {
            let again = Exited { proc, how: self.manner.exit, stderr_tail: String::new() };
            self.hear(&Tell { line: self.last.0, ..Tell::foreign(Input::Exited(again)) }, 1).await;
        }
        self.hear(
            &Tell { line: self.last.0, ..Tell::foreign(Input::Command(Command::Shutdown)) },
            1,
        )
        .await;
        self.flush().await;
    }
}

fn size(body: &[Chunk]) -> usize {
    body.iter().map(|chunk| if let Chunk::Text(text) = chunk { text.len() } else { 0 }).sum()
}
