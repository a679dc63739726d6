//! Driving one turn: inputs to the guest, its actions to the agent's process and to people, until there is one outcome.
//!
//! Owns the process, the private files and the clocks of the turn. What a guest may not do is decided in `plan`, what
//! people may see in `guard`. Pinned by `tests/dispatch.rs`.

mod files;
mod spawn;
mod stop;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use self::files::{Files, body};
use self::spawn::last_words;
use self::stop::{Cause, Leaving};
use super::ending::{Ending, TurnResult};
use super::guard::Guard;
use super::host::Host;
use super::recording::{Recording, What};
use super::{Answerer, Audience, Backend, Guest, GuestFailure, Launcher, Process, ProcessCommand, ProcessEvent, Settled};
use crate::agent::{
    Action, Answer, AskKey, Command, Decision, Exit, Exited, Failure, FailureKind, HttpFailed, Input, Level, Line, StartTurn, Stop,
    StreamClosed, TimedInput, TurnRef,
};

/// Time an agent has to leave by itself after its turn ended.
const LINGER: Duration = Duration::from_millis(500);
/// Inputs after which a call into the guest is made although more are there.
const BATCH: usize = 1024;
/// Calls into a guest in a row, each made only because of what the one before asked for.
const UNWAITED: u32 = 1_000;
/// Longest grace a guest may ask for, milliseconds.
const GUEST_GRACE: u32 = 10_000;

/// Why a turn is stopped from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// A person asked.
    User,
    /// The gateway is shutting down.
    Shutdown,
}

/// What a turn needs to run.
pub struct TurnRequest {
    /// Correlation id: in logs, in the recording's name and in what users are told.
    pub id: String,
    /// The generation it runs on, to its end.
    pub backend: Arc<dyn Backend>,
    /// What the guest is told.
    pub start: StartTurn,
    /// Becomes a value when the turn shall stop.
    pub stop: watch::Receiver<Option<StopReason>>,
    /// Where it is written down.
    pub recording: Recording,
}

/// Runs a turn. The audience follows it. Dropping the future kills the agent.
pub async fn run(request: TurnRequest, host: &Host, launcher: &dyn Launcher, audience: &mut dyn Audience) -> TurnResult {
    let guest = request.backend.open().await;
    let turn = TurnRef { session: request.start.session, turn: request.start.turn };
    let now = Instant::now();
    let (decide, decisions) = mpsc::unbounded_channel();
    let mut driver = Driver {
        host,
        launcher,
        audience,
        decide,
        asks: BTreeSet::new(),
        backend: request.backend,
        id: request.id,
        turn,
        safety: request.start.settings.safety,
        recording: request.recording,
        guard: Guard::new(turn),
        guest: None,
        failure: None,
        inputs: Vec::new(),
        unwaited: 0,
        said: 0,
        process: None,
        spawns: 0,
        files: Files::default(),
        timers: BTreeMap::new(),
        trouble: None,
        cause: None,
        started: now,
        heard: now,
        leaving: Leaving::No,
        acted: false,
    };
    match guest {
        Ok(guest) => {
            driver.guest = Some(guest);
            driver.input(Input::Command(Command::StartTurn(request.start)));
        }
        Err(failure) => driver.failure = Some(failure),
    }
    driver.run(request.stop, decisions).await
}

struct Driver<'a> {
    host: &'a Host,
    launcher: &'a dyn Launcher,
    audience: &'a mut dyn Audience,
    /// Where decisions of people come from.
    decide: mpsc::UnboundedSender<(AskKey, Decision)>,
    /// Questions without an answer.
    asks: BTreeSet<AskKey>,
    backend: Arc<dyn Backend>,
    id: String,
    turn: TurnRef,
    safety: crate::agent::Safety,
    recording: Recording,
    guard: Guard,
    /// None once it failed.
    guest: Option<Box<dyn Guest>>,
    failure: Option<GuestFailure>,
    /// Not yet told to the guest.
    inputs: Vec<TimedInput>,
    /// Calls since anything was waited for.
    unwaited: u32,
    /// Bytes of all actions so far, as recorded.
    said: u64,
    process: Option<(u32, Process)>,
    spawns: u32,
    files: Files,
    timers: BTreeMap<u32, Instant>,
    /// What to say when the turn ends without the guest saying so.
    trouble: Option<Failure>,
    cause: Option<Cause>,
    started: Instant,
    /// Last output of the agent.
    heard: Instant,
    leaving: Leaving,
    /// The guest did something about an interrupt.
    acted: bool,
}

impl Driver<'_> {
    async fn run(
        mut self,
        mut stop: watch::Receiver<Option<StopReason>>,
        mut decisions: mpsc::UnboundedReceiver<(AskKey, Decision)>,
    ) -> TurnResult {
        loop {
            if !self.inputs.is_empty() && self.guest.is_some() {
                self.tell().await;
                continue;
            }
            if self.process.is_none() && (self.guard.is_done() || self.guest.is_none() || self.timers.is_empty() || self.cause.is_some()) {
                break;
            }
            let deadline = self.deadline();
            self.unwaited = 0;
            tokio::select! {
                event = next_event(&mut self.process) => self.process_event(event),
                Some((ask, decision)) = decisions.recv() => self.decided(ask, decision),
                () = sleep_until(deadline) => self.clock(),
                Ok(reason) = stopped(&mut stop), if self.cause.is_none() && !self.guard.is_done() => self.stop(Cause::Asked(reason)),
            }
        }
        self.finish()
    }

    /// Hands the guest what happened and does what it wants.
    async fn tell(&mut self) {
        let inputs = std::mem::take(&mut self.inputs);
        inputs.iter().for_each(|input| self.recording.input(input));
        let interrupting = inputs.iter().any(|input| matches!(input.input, Input::Command(Command::Interrupt(_))));
        let Some(guest) = self.guest.as_mut() else { return };
        match guest.handle(inputs).await {
            Ok(actions) => {
                for action in actions {
                    self.said += self.recording.action(&action) as u64;
                    self.apply(action).await;
                }
                // One call is bounded by the sandbox; these bound all of them together.
                self.unwaited += 1;
                if self.unwaited > UNWAITED {
                    self.fail(GuestFailure::CutOff(format!("it was called {UNWAITED} times in a row and never waited for anything")));
                } else if self.said > self.host.output_limit {
                    self.fail(GuestFailure::CutOff(format!("it said more than {} bytes in one turn", self.host.output_limit)));
                }
                if interrupting && !self.acted && matches!(self.leaving, Leaving::Interrupted(_)) {
                    self.leave();
                }
            }
            Err(failure) => self.fail(failure),
        }
    }

    /// The link is at its end: no guest, no process.
    fn fail(&mut self, failure: GuestFailure) {
        let kind = failure.kind();
        tracing::warn!(turn = self.id, backend = self.name(), generation = %self.backend.generation(), kind, %failure, "backend failed; its turn ends");
        self.recording.host(What::Host(failure.to_string()));
        self.guest = None;
        self.failure = Some(failure);
        // Dropping the process kills everything of the run.
        self.process = None;
    }

    async fn apply(&mut self, action: Action) {
        match action {
            Action::Spawn(spawn) => self.spawn(spawn).await,
            Action::Write(write) => match body(&write.body) {
                Ok(bytes) => self.command(write.proc, ProcessCommand::Write(bytes)),
                Err(reason) => self.dropped("write", &reason),
            },
            Action::CloseStdin(proc) => self.command(proc, ProcessCommand::CloseStdin),
            Action::Stop(Stop { proc, signal, grace_ms }) => {
                let grace = Duration::from_millis(grace_ms.min(GUEST_GRACE).into());
                self.command(proc, ProcessCommand::Stop { signal, grace });
            }
            Action::PutFile(file) => {
                if let Err(reason) = self.files.put(&file) {
                    self.dropped("put-file", &reason);
                }
            }
            Action::SetTimer(timer) => {
                self.timers.insert(timer.timer, Instant::now() + Duration::from_millis(timer.after_ms.into()));
            }
            Action::CancelTimer(timer) => {
                self.timers.remove(&timer);
            }
            Action::SessionReady(ready) => {
                if let Err(reason) = self.guard.session(ready) {
                    self.dropped("session-ready", &reason.to_string());
                }
            }
            Action::Event(event) => match self.guard.event(event) {
                Ok(event) => {
                    self.audience.event(&event, self.guard.transcript());
                    self.count_rounds();
                }
                Err(reason) => self.dropped("event", &reason.to_string()),
            },
            Action::TurnDone(done) => match self.guard.done(done) {
                Ok(ends) => {
                    ends.iter().for_each(|end| self.audience.event(end, self.guard.transcript()));
                    if !matches!(self.leaving, Leaving::Terminated(_)) {
                        self.leaving = Leaving::Lingering(Instant::now() + LINGER);
                    }
                }
                Err(reason) => self.dropped("turn-done", &reason.to_string()),
            },
            Action::Diagnostic(line) => self.diagnostic(line.level, &line.text),
            // What this host does not do yet is answered, so that no guest waits for ever.
            Action::Http(request) => {
                self.input(Input::HttpFailed(HttpFailed { request: request.request, message: UNSUPPORTED.to_owned(), timed_out: false }));
            }
            Action::OpenStream(stream) => {
                self.input(Input::StreamClosed(StreamClosed { stream: stream.stream, message: Some(UNSUPPORTED.to_owned()) }));
            }
            Action::Ask(ask) => {
                self.asks.insert(ask.ask);
                self.audience.ask(&ask, Answerer::new(ask.ask, self.decide.clone()));
            }
            Action::AskWithdrawn(ask) => {
                if self.asks.remove(&ask) {
                    self.audience.settled(ask, Settled::Withdrawn);
                }
            }
            Action::TurnBegun(_) => self.dropped("turn-begun", UNSUPPORTED),
            Action::CloseStream(_) | Action::Steered(_) | Action::QueryAnswer(_) => {}
        }
    }

    fn decided(&mut self, ask: AskKey, decision: Decision) {
        if self.asks.remove(&ask) {
            self.input(Input::Command(Command::Answer(Answer { ask, decision })));
        }
    }

    fn process_event(&mut self, event: Option<ProcessEvent>) {
        let Some((proc, mut process)) = self.process.take() else { return };
        let Some(mut event) = event else { return self.exited(proc, Exit::Unknown, String::new()) };
        loop {
            match event {
                ProcessEvent::Lines(lines) => {
                    self.heard = Instant::now();
                    let at_ms = self.recording.now();
                    self.inputs.extend(lines.into_iter().map(|line| TimedInput {
                        at_ms,
                        input: Input::Line(Line { proc, pipe: line.pipe, text: line.text, truncated: line.truncated }),
                    }));
                }
                ProcessEvent::OutputLimit => {
                    if self.cause.is_none() && !self.guard.is_done() {
                        self.cause = Some(Cause::Output);
                    }
                }
                ProcessEvent::Exited { how, stderr_tail } => return self.exited(proc, how, stderr_tail),
            }
            // What is there already goes to the guest in the same call.
            if self.inputs.len() >= BATCH {
                break;
            }
            match process.events.try_recv() {
                Ok(more) => event = more,
                Err(_) => break,
            }
        }
        self.process = Some((proc, process));
    }

    fn exited(&mut self, proc: u32, how: Exit, stderr_tail: String) {
        self.process = None;
        if self.guard.is_done() && how != Exit::Code(0) && self.cause.is_none() {
            tracing::info!(turn = self.id, backend = self.name(), ?how, "agent ended its turn well and then exited badly");
        }
        self.trouble = Some(Failure { kind: FailureKind::Crashed, message: last_words(&stderr_tail, how), retry_after_ms: None });
        self.input(Input::Exited(Exited { proc, how, stderr_tail }));
    }

    fn command(&mut self, proc: u32, command: ProcessCommand) {
        self.acted = true;
        match &self.process {
            // A dead process takes no commands; its exit is on the way.
            Some((running, process)) if *running == proc => drop(process.commands.send(command)),
            _ => self.dropped("process command", "the process is not running"),
        }
    }

    fn input(&mut self, input: Input) {
        let at_ms = self.recording.now();
        self.inputs.push(TimedInput { at_ms, input });
    }

    fn name(&self) -> &str {
        &self.backend.descriptor().name
    }

    fn dropped(&mut self, what: &str, reason: &str) {
        tracing::debug!(turn = self.id, backend = self.name(), what, reason, "dropped what the backend said");
        self.recording.host(What::Host(format!("dropped {what}: {reason}")));
    }

    fn diagnostic(&self, level: Level, text: &str) {
        let (turn, backend) = (self.id.as_str(), self.name());
        let text = text.escape_debug().to_string();
        match level {
            Level::Debug => tracing::debug!(turn, backend, "backend says: {text}"),
            Level::Info => tracing::info!(turn, backend, "backend says: {text}"),
            Level::Warn | Level::Error => tracing::warn!(turn, backend, "backend says: {text}"),
        }
    }

    fn finish(mut self) -> TurnResult {
        for ask in std::mem::take(&mut self.asks) {
            self.audience.settled(ask, Settled::TurnEnded);
        }
        for end in self.guard.close_tools() {
            self.audience.event(&end, self.guard.transcript());
        }
        let took = self.started.elapsed();
        let (transcript, session, done) = self.guard.into_parts();
        let (outcome, text, usage) = done.map_or((None, None, None), |done| (Some(done.outcome), done.text, done.usage));
        let stopped = self.cause.map(|cause| match cause {
            Cause::Asked(StopReason::User) => Ending::Interrupted,
            Cause::Asked(StopReason::Shutdown) => Ending::ShutDown,
            Cause::TimedOut => Ending::TimedOut,
            Cause::Silent => Ending::Silent,
            Cause::Output => Ending::Limit("too much output".to_owned()),
            Cause::Rounds => Ending::Limit(format!("more than {} tool uses", self.host.max_turns)),
        });
        let ending = Ending::of(outcome, self.failure, stopped, self.trouble);
        let text = text.unwrap_or_else(|| transcript.text());
        self.recording.host(What::Ending(ending.to_string()));
        TurnResult { ending, text, session, usage: usage.or(transcript.usage()), transcript, took }
    }
}

const UNSUPPORTED: &str = "not supported by this host yet";

/// The next event of the process; never, when there is none.
async fn next_event(process: &mut Option<(u32, Process)>) -> Option<ProcessEvent> {
    match process {
        Some((_, process)) => process.events.recv().await,
        None => std::future::pending().await,
    }
}

/// The reason to stop, once there is one.
async fn stopped(stop: &mut watch::Receiver<Option<StopReason>>) -> Result<StopReason, watch::error::RecvError> {
    let reason = *stop.wait_for(Option::is_some).await?;
    reason.map_or_else(|| unreachable!("waited for a value"), Ok)
}
