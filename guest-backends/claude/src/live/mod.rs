//! A conversation with a Claude Code that lives on: stream-json in and out, with the control protocol.
//!
//! Owns the life of the process and of the turns ([`turn`]), what people are asked ([`asks`]) and what is in force in the
//! process ([`agent`]); what the output means is read by [`crate::stream`], as in one-shot runs. A turn ends when Claude
//! Code says that it is idle: one turn can have several results, and several messages one. Only what a flag alone can
//! say (system prompt, tools, limit of turns) makes it start the process anew, between turns and with `--resume`; and a
//! turn that may do less than the one in which something was allowed "always": a process does not forget that, so
//! neither it nor this guest answers with it at a lower safety level or in plan mode.
//! Pinned by `tests/live` (`turns.rs`, `asks.rs`, `settings.rs` and, disturbed, `weather.rs`).

mod agent;
mod asks;
mod lines;
mod queries;
mod turn;

use aetheel_backend_sdk::one_shot::{Agent as _, INTERRUPT_GRACE_MS, LINGER_MS};
use aetheel_backend_sdk::rpc::write;
use aetheel_backend_sdk::wit::{
    Action, Command, Delivery, Exited, Failure, FailureKind, Input, Outcome, Pipe, Query, SetTimer, Signal, SpawnFailed, StartTurn, Steer,
    SteerOutcome, Steered, Stop, TimedInput, TurnRef, Write,
};
use aetheel_backend_sdk::{Backend, without_result};

use self::agent::{Agent, Need, Phase};
use self::asks::Asks;
use self::turn::Turn;
use crate::stream::Claude;
use crate::{plan, prompt};

/// A conversation.
#[derive(Debug, Default)]
pub struct Live {
    session: Option<u32>,
    /// Claude Code's id of it.
    native: Option<String>,
    claude: Claude,
    agent: Option<Agent>,
    turn: Option<Turn>,
    /// Waits for the end of a turn the agent began.
    next: Option<Turn>,
    asks: Asks,
    /// Queries that wait for an agent.
    queries: Vec<Query>,
    procs: u32,
    own_turns: u32,
    timers: u32,
    timer: Option<(u32, Timer)>,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    /// There is a result, and the agent is not one that says when it is idle.
    Linger,
    /// The agent was asked to leave.
    Leave,
}

impl Backend for Live {
    fn describe() -> String {
        Claude::describe()
    }

    fn handle(&mut self, input: TimedInput, out: &mut Vec<Action>) -> Result<(), String> {
        let ours = |proc: u32| self.agent.as_ref().is_some_and(|agent| agent.proc == proc);
        match input.input {
            Input::Command(command) => self.command(command, out),
            Input::Spawned(spawned) if ours(spawned.proc) => {
                if let Some(agent) = &mut self.agent {
                    agent.version = spawned.agent_version;
                }
            }
            Input::SpawnFailed(failed) if ours(failed.proc) => self.spawn_failed(failed, out),
            Input::Line(line) if ours(line.proc) && line.pipe == Pipe::Stdout => self.line(&line, out),
            Input::Exited(exited) if ours(exited.proc) => self.exited(&exited, out),
            Input::Timer(timer) => self.timer(timer, out),
            _ => {}
        }
        self.advance(out);
        Ok(())
    }
}

impl Live {
    fn command(&mut self, command: Command, out: &mut Vec<Action>) {
        match command {
            Command::StartTurn(start) => self.start(start, out),
            Command::Interrupt(turn) => self.interrupt(turn, out),
            Command::Steer(steer) => {
                let outcome = self.steer(&steer, out);
                out.push(Action::Steered(Steered { message: steer.message, outcome }));
            }
            Command::Answer(answer) => {
                if let Some(told) = self.asks.decide(answer.ask, answer.decision) {
                    if let Some(tool_use) = told.refused {
                        self.claude.refuse(&tool_use);
                    }
                    self.tell(told.line, out);
                }
            }
            Command::Query(query) => self.query(query, out),
            Command::CloseSession(_) | Command::Shutdown => self.leave(out),
        }
    }

    fn start(&mut self, start: StartTurn, out: &mut Vec<Action>) {
        let turn = Turn::wanted(start);
        match &self.turn {
            None => self.open(turn, out),
            Some(open) if open.own && self.next.is_none() => self.next = Some(turn),
            Some(_) => {
                let failure = failure(FailureKind::Unsupported, "a conversation with Claude Code has one turn at a time");
                out.push(Action::TurnDone(turn.done(|| Outcome::Failed(failure))));
            }
        }
    }

    /// Makes a turn the current one.
    fn open(&mut self, turn: Turn, out: &mut Vec<Action>) {
        let Some(start) = &turn.prompt else { return };
        if let Err(failure) = plan::checked(&start.parts) {
            out.push(Action::TurnDone(turn.done(|| Outcome::Failed(failure))));
            return;
        }
        let elsewhere = self.native.is_some() && start.native_id.is_some() && self.native != start.native_id;
        if self.session != Some(start.session) || elsewhere {
            if self.session.is_some() {
                self.native = None;
                self.claude = Claude::default();
                self.asks.forget();
                self.agent.iter_mut().for_each(|agent| agent.stale = true);
            }
            self.session = Some(start.session);
        }
        if self.asks.begin(&start.settings) {
            self.agent.iter_mut().for_each(|agent| agent.stale = true);
        }
        self.claude.begin(self.native.clone().or_else(|| start.native_id.clone().filter(|_| !start.fork)));
        self.turn = Some(turn);
    }

    /// Ends the current turn.
    fn end(&mut self, otherwise: impl FnOnce() -> Outcome, out: &mut Vec<Action>) {
        let Some(turn) = self.turn.take() else { return };
        out.push(Action::TurnDone(turn.done(otherwise)));
        self.asks.close();
        if let Some(next) = self.next.take() {
            self.open(next, out);
        }
    }

    /// Does what the current turn waits for, as far as it is possible now.
    fn advance(&mut self, out: &mut Vec<Action>) {
        let start = self.turn.as_ref().and_then(|turn| turn.prompt.as_ref());
        let Some(agent) = &mut self.agent else {
            match start.cloned() {
                Some(start) => self.spawn(&start, out),
                None if !self.queries.is_empty() => {
                    self.procs += 1;
                    self.agent = Some(Agent::probe(self.procs, self.queries[0].session, out));
                }
                None => {}
            }
            return;
        };
        if agent.phase != Phase::Ready {
            return;
        }
        match start {
            Some(start) => match agent.prepare(&start.settings, out) {
                Need::Patience => {}
                Need::Restart => self.leave(out),
                Need::Nothing => {
                    out.push(Action::Write(Write { proc: agent.proc, body: prompt::message(&start.parts, None) }));
                    self.turn.iter_mut().for_each(Turn::hand_over);
                }
            },
            None if agent.is_probe() && agent.unanswered().next().is_none() => self.leave(out),
            None => {}
        }
    }

    fn spawn(&mut self, start: &StartTurn, out: &mut Vec<Action>) {
        self.procs += 1;
        self.claude.restarted();
        let known = self.native.clone().map(|id| (id, false));
        let resume = known.or_else(|| start.native_id.clone().map(|id| (id, start.fork)));
        match Agent::start(self.procs, resume, start, out) {
            Ok(agent) => self.agent = Some(agent),
            Err(failure) => {
                self.end(|| Outcome::Failed(failure), out);
                self.advance(out);
            }
        }
    }

    /// Asks the agent to go: it ends when its stdin does and it has nothing to do.
    fn leave(&mut self, out: &mut Vec<Action>) {
        if let Some(agent) = self.agent.as_mut().filter(|agent| agent.phase != Phase::Leaving) {
            agent.phase = Phase::Leaving;
            out.push(Action::CloseStdin(agent.proc));
            self.set(Timer::Leave, out);
        }
    }

    fn interrupt(&mut self, at: TurnRef, out: &mut Vec<Action>) {
        if let Some(next) = self.next.take_if(|next| next.at == at) {
            out.push(Action::TurnDone(next.done(|| Outcome::Interrupted)));
            return;
        }
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.at == at) else { return };
        turn.interrupted = true;
        if turn.prompt.is_some() {
            self.end(|| Outcome::Interrupted, out);
        } else if let Some(agent) = self.agent.as_mut().filter(|agent| agent.phase == Phase::Ready) {
            agent.interrupt(out);
        }
    }

    fn steer(&mut self, steer: &Steer, out: &mut Vec<Action>) -> SteerOutcome {
        let at = TurnRef { session: steer.session, turn: steer.turn };
        let turn = self.turn.as_mut().filter(|turn| turn.at == at && turn.works() && !turn.interrupted);
        let (Some(turn), Some(agent)) = (turn, &self.agent) else { return SteerOutcome::NotNow };
        if agent.phase != Phase::Ready {
            return SteerOutcome::NotNow;
        }
        if plan::checked(&steer.parts).is_err() {
            return SteerOutcome::Dropped;
        }
        let (priority, outcome) = match steer.delivery {
            Delivery::Steer => ("next", SteerOutcome::Injected),
            Delivery::Queue => ("later", SteerOutcome::Queued),
            Delivery::Replace => ("now", SteerOutcome::Injected),
        };
        turn.replaced |= steer.delivery == Delivery::Replace;
        out.push(Action::Write(Write { proc: agent.proc, body: prompt::message(&steer.parts, Some((priority, &steer.fresh_id))) }));
        outcome
    }

    fn timer(&mut self, timer: u32, out: &mut Vec<Action>) {
        match self.timer.take_if(|(set, _)| *set == timer) {
            Some((_, Timer::Linger)) if self.turn.as_ref().is_some_and(Turn::complete) => self.end(|| Outcome::Completed, out),
            Some((_, Timer::Leave)) => {
                if let Some(agent) = &self.agent {
                    out.push(Action::Stop(Stop { proc: agent.proc, signal: Signal::Terminate, grace_ms: INTERRUPT_GRACE_MS }));
                }
            }
            _ => {}
        }
    }

    fn set(&mut self, timer: Timer, out: &mut Vec<Action>) {
        self.timers += 1;
        self.timer = Some((self.timers, timer));
        out.push(Action::SetTimer(SetTimer { timer: self.timers, after_ms: LINGER_MS }));
    }

    fn spawn_failed(&mut self, failed: SpawnFailed, out: &mut Vec<Action>) {
        let kind = if failed.not_found { FailureKind::NotFound } else { FailureKind::Other };
        self.agent = None;
        self.fail_queries(|| failure(kind, &failed.message), out);
        self.end(|| Outcome::Failed(failure(kind, &failed.message)), out);
    }

    fn exited(&mut self, exited: &Exited, out: &mut Vec<Action>) {
        let Some(agent) = self.agent.take() else { return };
        self.timer = None;
        let gone = || failure(FailureKind::Crashed, "Claude Code ended before it answered");
        queries::fail(agent.unanswered(), gone, out);
        if agent.phase == Phase::Starting {
            self.fail_queries(gone, out);
        }
        let waits = self.turn.as_ref().is_some_and(|turn| turn.prompt.is_some());
        if waits && agent.phase == Phase::Leaving {
            return;
        }
        let outcome = match without_result(exited, |said| self.claude.failure(said)) {
            // It had begun to work: whatever it says, it died of it.
            Outcome::Failed(failure) if !waits && failure.kind == FailureKind::Other => {
                Outcome::Lost(Failure { kind: FailureKind::Crashed, ..failure })
            }
            outcome => outcome,
        };
        self.end(|| outcome, out);
    }

    fn tell(&self, line: String, out: &mut Vec<Action>) {
        out.extend(self.agent.as_ref().map(|agent| write(agent.proc, line)));
    }
}

fn failure(kind: FailureKind, message: &str) -> Failure {
    Failure { kind, message: message.to_owned(), retry_after_ms: None }
}
