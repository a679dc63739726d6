//! Long-lived agents: one process serves many turns and reads prompts from its stdin.
//!
//! A backend implements only the parts that depend on its agent: the process to start
//! ([`Agent::launch`]), sending a prompt ([`Agent::prompt`]), the meaning of a line
//! ([`Agent::line`]) and, if it is not a signal, interrupting a turn ([`Agent::interrupt`]). This
//! module does the rest: it starts, ends and restarts the process; it tracks which turns are open
//! and which still wait for their prompt, and ends each exactly once; it holds the host's queries
//! until the agent is ready; and it stops an agent that does not exit when asked. [`Asks`] tracks
//! questions to users, [`rpc`](crate::rpc) requests to the agent. A backend whose agent is an HTTP
//! server receives its responses in [`Agent::other`].
//!
//! [`Agent::prompt`] is the central function. It is called after every input while a turn waits and
//! the agent is ready, and does the next thing that the turn needs: open the session, change a
//! setting, send the prompt. It returns a [`Step`] that reports the progress.
//!
//! An agent may begin a turn by itself ([`LinkContext::begin`]). A turn that the host starts in the
//! same session meanwhile waits until that turn ends.
//!
//! ```
//! use aetheel_backend_sdk::live::{Agent, LinkContext, Live, Step, spawn};
//! use aetheel_backend_sdk::wit::{Failure, Line, Outcome, Part, Spawn, StartTurn, TurnRef, Value};
//!
//! /// Prints a line for every line it reads, and a dot when it is done.
//! #[derive(Default)]
//! struct Parrot;
//!
//! impl Agent for Parrot {
//!     fn describe() -> String {
//!         r#"{"name":"parrot","version":"1","sharing":"session","programs":[{"name":"parrot"}]}"#
//!             .to_owned()
//!     }
//!     fn launch(&mut self, _: Option<&StartTurn>, _: &mut LinkContext) -> Result<Spawn, Failure> {
//!         Ok(spawn("parrot", []))
//!     }
//!     fn prompt(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
//!         for part in &start.parts {
//!             if let Part::Text(text) = part {
//!                 context.say(text);
//!             }
//!         }
//!         Step::Prompted
//!     }
//!     fn line(&mut self, line: Line, context: &mut LinkContext) {
//!         let Some(turn) = context.turn() else { return };
//!         match line.text.as_str() {
//!             "." => self.finish(turn, Outcome::Completed, context),
//!             text => context.emit(turn).text(0, format!("{text}\n")),
//!         }
//!     }
//! }
//!
//! aetheel_backend_sdk::export_backend!(crate::Live<crate::Parrot>);
//! # fn main() {}
//! ```

mod agent;
mod asks;
mod context;
mod counts;

pub use agent::{Agent, BESIDE, Step, spawn};
pub use asks::Asks;
pub use context::LinkContext;

use self::context::{Link, Phase};
use self::counts::Counts;
use crate::Backend;
use crate::end::{TurnResult, failure, last_words};
use crate::wit::{
    Action, Command, Exit, Exited, Failure, FailureKind, Input, Outcome, Signal, Spawn,
    SpawnFailed, StartTurn, Stop, TimedInput, TurnRef,
};

/// Turns an [`Agent`] into a [`Backend`].
#[derive(Debug, Default)]
pub struct Live<A> {
    agent: A,
    link: Link,
}

impl<A: Agent> Backend for Live<A> {
    fn describe() -> String {
        A::describe()
    }

    fn handle(&mut self, input: TimedInput, out: &mut Vec<Action>) -> Result<(), String> {
        self.link.now = input.at_ms;
        let (agent, link) = (&mut self.agent, &mut self.link);
        match input.input {
            Input::Command(command) => self.command(command, out),
            Input::Spawned(spawned) if link.is(spawned.proc) => {
                if link.phase == Phase::Asked {
                    link.phase = Phase::Up;
                    agent.spawned(spawned.agent_version, &mut LinkContext::new(link, out));
                }
            }
            Input::SpawnFailed(failed) if link.is(failed.proc) => self.spawn_failed(failed, out),
            Input::Line(line) if link.is(line.proc) => {
                agent.line(line, &mut LinkContext::new(link, out))
            }
            Input::Exited(exited) if link.is(exited.proc) => self.exited(&exited, out),
            Input::Timer(timer) if link.leaving == Some(timer) => {
                out.push(Action::Stop(Stop {
                    proc: link.proc,
                    signal: Signal::Terminate,
                    grace_ms: A::GRACE_MS,
                }));
            }
            Input::Timer(timer) => agent.timer(timer, &mut LinkContext::new(link, out)),
            Input::ToolResult(result) => {
                agent.tool_result(result, &mut LinkContext::new(link, out))
            }
            other => agent.other(other, &mut LinkContext::new(link, out)),
        }
        self.advance(out);
        Ok(())
    }

    fn save(&self) -> Option<String> {
        if !self.link.is_idle() {
            return None;
        }
        Some(self.link.counts().before(self.agent.save(self.link.proc)?))
    }

    fn load(&mut self, state: &str, saved_by: &str) -> Result<(), String> {
        let (counts, state) = Counts::split(state);
        let proc = self.agent.load(state, saved_by)?;
        self.link = Link {
            proc,
            phase: Phase::Ready,
            own_turns: counts.own_turns,
            timers: counts.timers,
            calls: counts.calls,
            ..Link::default()
        };
        Ok(())
    }
}

impl<A: Agent> Live<A> {
    fn command(&mut self, command: Command, out: &mut Vec<Action>) {
        let context = &mut LinkContext::new(&mut self.link, out);
        match command {
            Command::StartTurn(start) => self.start(start, out),
            Command::Interrupt(turn) => self.interrupt(turn, out),
            Command::Steer(steer) => self.agent.steer(steer, context),
            Command::Answer(answer) => self.agent.answer(answer, context),
            Command::Query(query) => self.agent.query(query, context),
            Command::CloseSession(session) => self.agent.close(session, context),
            Command::Shutdown => self.agent.shutdown(context),
        }
    }

    fn start(&mut self, start: StartTurn, out: &mut Vec<Action>) {
        let turn = TurnRef { session: start.session, turn: start.turn };
        if self.link.ended == Some(turn) || self.link.has(turn) {
            // A repeated command names the same turn, which ends only once.
        } else if self.link.may_wait(turn.session) {
            self.link.next.insert(turn.session, start);
        } else if self.link.turns.contains_key(&turn.session) {
            let why = failure(FailureKind::Unsupported, "the session already has an open turn");
            LinkContext::new(&mut self.link, out).refuse_turn(turn, Outcome::Failed(why));
        } else if let Err(why) =
            self.agent.accept(&start, &mut LinkContext::new(&mut self.link, out))
        {
            LinkContext::new(&mut self.link, out).refuse_turn(turn, Outcome::Failed(why));
        } else {
            self.link.closing = false;
            self.link.open(turn, Some(start));
        }
    }

    fn interrupt(&mut self, turn: TurnRef, out: &mut Vec<Action>) {
        if self.link.is_next(turn) {
            self.link.next.remove(&turn.session);
            return LinkContext::new(&mut self.link, out).refuse_turn(turn, Outcome::Interrupted);
        }
        let Some(open) = self.link.turns.get_mut(&turn.session).filter(|open| open.name == turn)
        else {
            return;
        };
        open.interrupted = true;
        if open.prompted {
            self.agent.interrupt(turn, &mut LinkContext::new(&mut self.link, out));
        } else {
            // Steps already taken, such as opening the session, serve the next turn.
            self.finish(turn, Outcome::Interrupted, out);
        }
    }

    /// Performs everything that waits for the agent and is possible now.
    fn advance(&mut self, out: &mut Vec<Action>) {
        if let Some(why) = self
            .link
            .useless
            .take()
            .filter(|_| !matches!(self.link.phase, Phase::None | Phase::Leaving))
        {
            self.link.phase = Phase::None;
            self.fail_all(&why, out);
            out.push(Action::Stop(Stop {
                proc: self.link.proc,
                signal: Signal::Terminate,
                grace_ms: A::GRACE_MS,
            }));
        }
        if std::mem::take(&mut self.link.leave) {
            self.leave(out);
        }
        for start in self.link.free() {
            self.start(start, out);
        }
        match self.link.phase {
            Phase::None if self.link.waits() => self.spawn(out),
            Phase::Leaving if A::OVERLAPS && self.link.comes_back() => self.replace(out),
            Phase::Ready => {
                for query in std::mem::take(&mut self.link.queries) {
                    self.agent.query(query, &mut LinkContext::new(&mut self.link, out));
                }
                for session in self.link.waiting() {
                    self.prompt(session, out);
                }
                if std::mem::take(&mut self.link.leave) {
                    self.leave(out);
                }
            }
            _ => {}
        }
    }

    fn prompt(&mut self, session: u32, out: &mut Vec<Action>) {
        let Some(open) =
            self.link.turns.get_mut(&session).filter(|_| self.link.phase == Phase::Ready)
        else {
            return;
        };
        let (name, Some(start)) = (open.name, open.start.take()) else { return };
        let step = self.agent.prompt(&start, &mut LinkContext::new(&mut self.link, out));
        // The backend may have ended the turn in the call above.
        let Some(open) = self.link.turns.get_mut(&session).filter(|open| open.name == name) else {
            return;
        };
        match step {
            Step::Prompted => open.prompted = true,
            Step::Wait => open.start = Some(start),
            Step::Restart => {
                open.start = Some(start);
                if A::OVERLAPS { self.replace(out) } else { self.leave(out) }
            }
            Step::Fail(why) => self.finish(name, Outcome::Failed(why), out),
        }
    }

    fn spawn(&mut self, out: &mut Vec<Action>) {
        let Link { turns, queries, .. } = &mut self.link;
        let mut first = turns.values_mut().find(|open| open.start.is_some());
        let name = first.as_ref().map(|open| open.name);
        let session = name
            .map(|name| name.session)
            .or(queries.iter().find_map(|query| query.session))
            .filter(|_| !A::SHARED);
        let start = first.as_mut().and_then(|open| open.start.take());
        let plan = self.agent.launch(start.as_deref(), &mut LinkContext::new(&mut self.link, out));
        if let Some(open) = name.and_then(|name| self.link.turns.get_mut(&name.session)) {
            open.start = start;
        }
        match plan {
            Ok(spawn) => {
                self.link.proc += 1;
                self.link.phase = Phase::Asked;
                let turn = name.map(|name| name.turn).filter(|_| !A::SHARED);
                out.push(Action::Spawn(Spawn { proc: self.link.proc, session, turn, ..spawn }));
            }
            Err(why) => self.fail_all(&why, out),
        }
    }

    /// Asks the agent to exit. It is stopped if it does not exit.
    fn leave(&mut self, out: &mut Vec<Action>) {
        match self.link.phase {
            Phase::Up | Phase::Ready if A::LEAVE_MS > 0 => {
                let mut context = LinkContext::new(&mut self.link, out);
                self.agent.leave(&mut context);
                context.action(Action::CloseStdin(context.proc()));
                let timer = context.set_timer(A::LEAVE_MS);
                self.link.leaving = Some(timer);
            }
            // The process has no open stdin yet, or does not read it.
            Phase::Asked | Phase::Up | Phase::Ready => {
                out.push(Action::Stop(Stop {
                    proc: self.link.proc,
                    signal: Signal::Terminate,
                    grace_ms: A::GRACE_MS,
                }));
            }
            Phase::None | Phase::Leaving => return,
        }
        self.link.phase = Phase::Leaving;
    }

    /// Starts the next process without waiting for the last one to exit.
    fn replace(&mut self, out: &mut Vec<Action>) {
        self.leave(out);
        let proc = self.link.proc;
        self.exited(&Exited { proc, how: Exit::Unknown, stderr_tail: String::new() }, out);
        out.push(Action::Stop(Stop { proc, signal: Signal::Terminate, grace_ms: A::GRACE_MS }));
        self.spawn(out);
    }

    fn spawn_failed(&mut self, failed: SpawnFailed, out: &mut Vec<Action>) {
        self.link.phase = Phase::None;
        let kind = if failed.not_found { FailureKind::NotFound } else { FailureKind::Other };
        self.fail_all(&failure(kind, failed.message), out);
    }

    fn exited(&mut self, exited: &Exited, out: &mut Vec<Action>) {
        let link = &mut self.link;
        let comes_back = link.comes_back();
        link.phase = Phase::None;
        if let Some(timer) = link.leaving.take() {
            out.push(Action::CancelTimer(timer));
        }
        let why = failure(FailureKind::Crashed, last_words(A::NAME, exited));
        self.agent.forget(&why, &mut LinkContext::new(&mut self.link, out));
        if !comes_back {
            let outcome = self.agent.lost(exited, false, why.clone());
            self.refuse_queries(
                if let Outcome::Failed(outcome) = &outcome { outcome } else { &why },
                out,
            );
        }
        for (name, prompted, interrupted) in self.link.open_turns() {
            if prompted || !comes_back {
                let outcome = if interrupted {
                    Outcome::Interrupted
                } else {
                    self.agent.lost(exited, prompted, why.clone())
                };
                self.finish(name, outcome, out);
            }
        }
    }

    /// Fails everything that waits for the agent.
    fn fail_all(&mut self, why: &Failure, out: &mut Vec<Action>) {
        self.agent.forget(why, &mut LinkContext::new(&mut self.link, out));
        self.refuse_queries(why, out);
        for (name, prompted, interrupted) in self.link.open_turns() {
            let outcome = match why.clone() {
                _ if interrupted => Outcome::Interrupted,
                why if prompted => Outcome::Lost(why),
                why => Outcome::Failed(why),
            };
            self.finish(name, outcome, out);
        }
    }

    fn refuse_queries(&mut self, why: &Failure, out: &mut Vec<Action>) {
        for query in std::mem::take(&mut self.link.queries) {
            LinkContext::new(&mut self.link, out).refuse(query.query, why.clone());
        }
    }

    fn finish(&mut self, turn: TurnRef, outcome: Outcome, out: &mut Vec<Action>) {
        let context = &mut LinkContext::new(&mut self.link, out);
        self.agent.finish(turn, outcome.clone(), context);
        // Ends the turn if the backend did not.
        context.end(turn, TurnResult { outcome, text: None, usage: None });
    }
}

#[cfg(test)]
mod tests;
