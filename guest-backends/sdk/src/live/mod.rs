//! Agents that live on: a process for many turns, which hears prompts on its stdin.
//!
//! Owns what all of them have in common, so that a backend says only what to start ([`Agent::launch`]), how a prompt is handed over
//! ([`Agent::prompt`]), what a line means ([`Agent::line`]) and, where it is not a signal, how a turn is stopped ([`Agent::interrupt`]). Owned
//! here: the process with its start, its end and its restart; which turns are open, which still wait for their prompt, and that each ends
//! exactly once; questions of the host that wait for an agent to ask; leaving, and what happens when the agent does not. [`Asks`] keeps what
//! people are asked, [`rpc`](crate::rpc) what the agent is.
//!
//! [`Agent::prompt`] is the heart: it is called whenever something happened while a turn waits and the agent is ready, and does the next
//! thing that the turn needs: open the session, put a setting, hand the prompt over. It answers how far that is ([`Step`]).
//!
//! ```
//! use aetheel_backend_sdk::live::{Agent, Live, Step, Talk, spawn};
//! use aetheel_backend_sdk::wit::{Failure, Line, Outcome, Part, Spawn, StartTurn, TurnRef, Value};
//!
//! /// Says a line for every line it hears, and a dot when it is done.
//! #[derive(Default)]
//! struct Parrot;
//!
//! impl Agent for Parrot {
//!     fn describe() -> String {
//!         r#"{"name":"parrot","version":"1","sharing":"session","programs":[{"name":"parrot"}]}"#.to_owned()
//!     }
//!     fn launch(&mut self, _: Option<&StartTurn>, _: &mut Talk) -> Result<Spawn, Failure> {
//!         Ok(spawn("parrot", []))
//!     }
//!     fn prompt(&mut self, start: &StartTurn, talk: &mut Talk) -> Step {
//!         for part in &start.parts {
//!             if let Part::Text(text) = part {
//!                 talk.say(text);
//!             }
//!         }
//!         Step::Prompted
//!     }
//!     fn line(&mut self, line: Line, talk: &mut Talk) {
//!         let Some(turn) = talk.turn() else { return };
//!         match line.text.as_str() {
//!             "." => self.finish(turn, Outcome::Completed, talk),
//!             text => talk.emit(turn).text(0, format!("{text}\n")),
//!         }
//!     }
//! }
//!
//! aetheel_backend_sdk::export_backend!(crate::Live<crate::Parrot>);
//! # fn main() {}
//! ```

mod asks;
mod talk;

pub use asks::Asks;
pub use talk::Talk;

use self::talk::{Link, Phase};
use crate::end::{TurnResult, failure, last_words};
use crate::wit::{
    Action, Answer, Chunk, Command, Exited, Failure, FailureKind, Input, Line, Outcome, Query, Signal, Spawn, SpawnFailed, StartTurn,
    Steer, SteerOutcome, Stop, TimedInput, TurnRef, Value,
};
use crate::{Backend, one_shot};

/// What a backend knows of an agent that lives on. Made anew for every link.
#[allow(unused_variables)] // the names say what the defaults have no use for
pub trait Agent: Default + 'static {
    /// What people call the agent, for messages about its end.
    const NAME: &'static str = "the agent";
    /// Milliseconds the agent may take to leave once its stdin is closed. Then it is stopped.
    const LEAVE_MS: u32 = 2000;
    /// Milliseconds between SIGTERM and SIGKILL.
    const GRACE_MS: u32 = 2000;

    /// Returns the descriptor, see [`Backend::describe`].
    fn describe() -> String;

    /// Looks at a turn the host wants, before anything is done for it.
    ///
    /// # Errors
    /// The turn fails with it.
    fn accept(&mut self, start: &StartTurn, talk: &mut Talk) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns the process to start, for a turn or, before any, for a question of the host; see [`spawn`]. `proc`, `session` and `turn` are
    /// filled in.
    ///
    /// # Errors
    /// Everything that waits for it fails with it.
    fn launch(&mut self, start: Option<&StartTurn>, talk: &mut Talk) -> Result<Spawn, Failure>;

    /// The process runs. Agents that want a greeting get it here, and are [`Talk::ready`] when they answered it.
    fn spawned(&mut self, agent_version: Option<String>, talk: &mut Talk) {
        talk.ready();
    }

    /// Does the next thing a waiting turn needs; the agent is ready.
    fn prompt(&mut self, start: &StartTurn, talk: &mut Talk) -> Step;

    /// Takes a line of output in, also outside of turns.
    fn line(&mut self, line: Line, talk: &mut Talk);

    /// Ends a turn: called here when the agent says that it is over, and by the engine when it cannot go on. What else is to be said at
    /// the end of a turn is said in it; a [`Talk::end`] is its last word.
    fn finish(&mut self, turn: TurnRef, outcome: Outcome, talk: &mut Talk) {
        talk.end(turn, TurnResult { outcome, text: None, usage: None });
    }

    /// Asks the agent to stop a turn it works on; that it does is for [`Agent::line`] to see. By default it gets SIGINT.
    fn interrupt(&mut self, turn: TurnRef, talk: &mut Talk) {
        talk.stop(Signal::Interrupt);
    }

    /// Adds a message to a running turn, or says with [`Talk::steered`] that it cannot be.
    fn steer(&mut self, steer: Steer, talk: &mut Talk) {
        talk.steered(steer.message, SteerOutcome::NotNow);
    }

    /// Takes the decision about a question of the agent in, see [`Asks`].
    fn answer(&mut self, answer: Answer, talk: &mut Talk) {}

    /// Answers a question of the host ([`Talk::answer`]), or puts it off until the agent is ready ([`Talk::later`]).
    fn query(&mut self, query: Query, talk: &mut Talk) {
        talk.refuse(query.query, failure(FailureKind::Unsupported, format!("{} has no such thing", Self::NAME)));
    }

    /// A session is not needed any more. By default the agent leaves, which is right where a link has one session.
    fn close(&mut self, session: u32, talk: &mut Talk) {
        talk.leave();
    }

    /// The link is about to be closed.
    fn shutdown(&mut self, talk: &mut Talk) {
        talk.leave();
    }

    /// Says goodbye, where closing its stdin is not all the agent wants to hear.
    fn leave(&mut self, talk: &mut Talk) {}

    /// The process is gone, or never came: what was asked of it will not be answered.
    fn forget(&mut self, why: &Failure, talk: &mut Talk) {}

    /// Returns how a turn ends whose agent is gone. `prompted`: the agent had its prompt.
    fn lost(&mut self, exited: &Exited, prompted: bool, why: Failure) -> Outcome {
        Outcome::Lost(why)
    }

    /// A timer of its own ran out ([`Talk::set_timer`]).
    fn timer(&mut self, timer: u32, talk: &mut Talk) {}

    /// Takes everything else in: HTTP, streams, processes beside the agent's.
    fn other(&mut self, input: Input, talk: &mut Talk) {}

    /// Returns the state of an idle link, whose agent is process `proc`; by default a link cannot move.
    fn save(&self, proc: u32) -> Option<String> {
        None
    }

    /// Takes over the state that `save` of another generation returned; returns the agent's process.
    ///
    /// # Errors
    /// The state does not fit; by default none does.
    fn load(&mut self, state: &str, saved_by: &str) -> Result<u32, String> {
        Err(format!("this backend takes over no state, not even from version {saved_by}"))
    }
}

/// How far a turn is on its way to the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The agent has its prompt.
    Prompted,
    /// Something has to be answered first; asked again after the next input.
    Wait,
    /// Only a new process can do it: the agent leaves and is started again.
    Restart,
    /// It cannot be done.
    Fail(Failure),
}

/// Returns the plan for a process that lives on.
pub fn spawn(program: &str, arguments: impl IntoIterator<Item = Value>) -> Spawn {
    Spawn { keep_open: true, ..one_shot::spawn(program, arguments, Vec::<Chunk>::new()) }
}

/// A [`Backend`] made of an [`Agent`].
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
                    agent.spawned(spawned.agent_version, &mut Talk::new(link, out));
                }
            }
            Input::SpawnFailed(failed) if link.is(failed.proc) => self.spawn_failed(failed, out),
            Input::Line(line) if link.is(line.proc) => agent.line(line, &mut Talk::new(link, out)),
            Input::Exited(exited) if link.is(exited.proc) => self.exited(&exited, out),
            Input::Timer(timer) if link.leaving == Some(timer) => {
                out.push(Action::Stop(Stop { proc: link.proc, signal: Signal::Terminate, grace_ms: A::GRACE_MS }));
            }
            Input::Timer(timer) => agent.timer(timer, &mut Talk::new(link, out)),
            other => agent.other(other, &mut Talk::new(link, out)),
        }
        self.advance(out);
        Ok(())
    }

    fn save(&self) -> Option<String> {
        if self.link.is_idle() { self.agent.save(self.link.proc) } else { None }
    }

    fn load(&mut self, state: &str, saved_by: &str) -> Result<(), String> {
        self.link = Link { proc: self.agent.load(state, saved_by)?, phase: Phase::Ready, ..Link::default() };
        Ok(())
    }
}

impl<A: Agent> Live<A> {
    fn command(&mut self, command: Command, out: &mut Vec<Action>) {
        let talk = &mut Talk::new(&mut self.link, out);
        match command {
            Command::StartTurn(start) => self.start(start, out),
            Command::Interrupt(turn) => self.interrupt(turn, out),
            Command::Steer(steer) => self.agent.steer(steer, talk),
            Command::Answer(answer) => self.agent.answer(answer, talk),
            Command::Query(query) => self.agent.query(query, talk),
            Command::CloseSession(session) => self.agent.close(session, talk),
            Command::Shutdown => self.agent.shutdown(talk),
        }
    }

    fn start(&mut self, start: StartTurn, out: &mut Vec<Action>) {
        let turn = TurnRef { session: start.session, turn: start.turn };
        if self.link.turns.contains_key(&turn.session) {
            let why = failure(FailureKind::Unsupported, "the session has a turn already");
            Talk::new(&mut self.link, out).refuse_turn(turn, Outcome::Failed(why));
        } else if let Err(why) = self.agent.accept(&start, &mut Talk::new(&mut self.link, out)) {
            Talk::new(&mut self.link, out).refuse_turn(turn, Outcome::Failed(why));
        } else {
            self.link.closing = false;
            self.link.open(turn, Some(start));
        }
    }

    fn interrupt(&mut self, turn: TurnRef, out: &mut Vec<Action>) {
        let Some(open) = self.link.turns.get_mut(&turn.session).filter(|open| open.name == turn) else { return };
        open.interrupted = true;
        if open.prompted {
            self.agent.interrupt(turn, &mut Talk::new(&mut self.link, out));
        } else {
            // Whatever is under way is good for the next turn.
            self.finish(turn, Outcome::Interrupted, out);
        }
    }

    /// Does what waits for the agent, as far as that can be done now.
    fn advance(&mut self, out: &mut Vec<Action>) {
        if let Some(why) = self.link.useless.take() {
            self.link.phase = Phase::None;
            self.fail_all(&why, out);
            out.push(Action::Stop(Stop { proc: self.link.proc, signal: Signal::Terminate, grace_ms: A::GRACE_MS }));
        }
        if std::mem::take(&mut self.link.leave) {
            self.leave(out);
        }
        match self.link.phase {
            Phase::None if self.link.waits() => self.spawn(out),
            Phase::Ready => {
                for query in std::mem::take(&mut self.link.queries) {
                    self.agent.query(query, &mut Talk::new(&mut self.link, out));
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
        let Some(open) = self.link.turns.get_mut(&session).filter(|_| self.link.phase == Phase::Ready) else { return };
        let (name, Some(start)) = (open.name, open.start.take()) else { return };
        let step = self.agent.prompt(&start, &mut Talk::new(&mut self.link, out));
        // It may have been ended meanwhile.
        let Some(open) = self.link.turns.get_mut(&session).filter(|open| open.name == name) else { return };
        match step {
            Step::Prompted => open.prompted = true,
            Step::Wait => open.start = Some(start),
            Step::Restart => {
                open.start = Some(start);
                self.leave(out);
            }
            Step::Fail(why) => self.finish(name, Outcome::Failed(why), out),
        }
    }

    fn spawn(&mut self, out: &mut Vec<Action>) {
        let Link { turns, queries, .. } = &mut self.link;
        let mut first = turns.values_mut().find(|open| open.start.is_some());
        let name = first.as_ref().map(|open| open.name);
        let session = name.map(|name| name.session).or(queries.iter().find_map(|query| query.session));
        let start = first.as_mut().and_then(|open| open.start.take());
        let plan = self.agent.launch(start.as_deref(), &mut Talk::new(&mut self.link, out));
        if let Some(open) = name.and_then(|name| self.link.turns.get_mut(&name.session)) {
            open.start = start;
        }
        match plan {
            Ok(spawn) => {
                self.link.proc += 1;
                self.link.phase = Phase::Asked;
                out.push(Action::Spawn(Spawn { proc: self.link.proc, session, turn: name.map(|name| name.turn), ..spawn }));
            }
            Err(why) => self.fail_all(&why, out),
        }
    }

    /// Asks the agent to go; it is stopped when it does not.
    fn leave(&mut self, out: &mut Vec<Action>) {
        match self.link.phase {
            Phase::Up | Phase::Ready => {
                let mut talk = Talk::new(&mut self.link, out);
                self.agent.leave(&mut talk);
                talk.action(Action::CloseStdin(talk.proc()));
                let timer = talk.set_timer(A::LEAVE_MS);
                self.link.leaving = Some(timer);
            }
            // There is no stdin to close yet.
            Phase::Asked => out.push(Action::Stop(Stop { proc: self.link.proc, signal: Signal::Terminate, grace_ms: A::GRACE_MS })),
            Phase::None | Phase::Leaving => return,
        }
        self.link.phase = Phase::Leaving;
    }

    fn spawn_failed(&mut self, failed: SpawnFailed, out: &mut Vec<Action>) {
        self.link.phase = Phase::None;
        let kind = if failed.not_found { FailureKind::NotFound } else { FailureKind::Other };
        self.fail_all(&failure(kind, failed.message), out);
    }

    fn exited(&mut self, exited: &Exited, out: &mut Vec<Action>) {
        let link = &mut self.link;
        let comes_back = link.phase == Phase::Leaving && !link.closing && link.turns.values().any(|open| open.start.is_some());
        link.phase = Phase::None;
        if let Some(timer) = link.leaving.take() {
            out.push(Action::CancelTimer(timer));
        }
        let why = failure(FailureKind::Crashed, last_words(A::NAME, exited));
        self.agent.forget(&why, &mut Talk::new(&mut self.link, out));
        if !comes_back {
            self.refuse_queries(&why, out);
        }
        for (name, prompted, interrupted) in self.link.open_turns() {
            if prompted || !comes_back {
                let outcome = if interrupted { Outcome::Interrupted } else { self.agent.lost(exited, prompted, why.clone()) };
                self.finish(name, outcome, out);
            }
        }
    }

    /// Ends everything that waits for the agent.
    fn fail_all(&mut self, why: &Failure, out: &mut Vec<Action>) {
        self.agent.forget(why, &mut Talk::new(&mut self.link, out));
        self.refuse_queries(why, out);
        for (name, ..) in self.link.open_turns() {
            self.finish(name, Outcome::Failed(why.clone()), out);
        }
    }

    fn refuse_queries(&mut self, why: &Failure, out: &mut Vec<Action>) {
        for query in std::mem::take(&mut self.link.queries) {
            Talk::new(&mut self.link, out).refuse(query.query, why.clone());
        }
    }

    fn finish(&mut self, turn: TurnRef, outcome: Outcome, out: &mut Vec<Action>) {
        let talk = &mut Talk::new(&mut self.link, out);
        self.agent.finish(turn, outcome.clone(), talk);
        // Whatever the agent made of it.
        talk.end(turn, TurnResult { outcome, text: None, usage: None });
    }
}

#[cfg(test)]
mod tests;
