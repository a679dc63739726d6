//! Disturbs recordings (cuts, doubles, drops, moves and garbles lines) and checks the guarantees
//! that a backend must still give.
//!
//! This module has no source of randomness. The test provides the [`Change`]s, for example with
//! `proptest`'s `collection::vec(any::<Change>(), 0..12)`.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "used in tests, where a panic reports the failure"
)]

use std::collections::BTreeSet;

use crate::Backend;
use crate::wit::{Action, Command, Exit, Exited, Input, SpawnFailed, TimedInput};

/// One disturbance: the line, the kind of change, another position, and a character.
pub type Change = (u16, u8, u16, char);

/// Returns the inputs with some lines disturbed. Other inputs stay in place.
#[must_use]
pub fn disturbed(inputs: &[Input], changes: &[Change]) -> Vec<Input> {
    let mut inputs = inputs.to_vec();
    for &(at, how, place, letter) in changes {
        let lines: Vec<usize> =
            (0..inputs.len()).filter(|at| matches!(inputs[*at], Input::Line(_))).collect();
        if lines.is_empty() {
            break;
        }
        let at = lines[usize::from(at) % lines.len()];
        let to = lines[usize::from(place) % lines.len()];
        let Input::Line(line) = &mut inputs[at] else { continue };
        let place = line.text.floor_char_boundary(usize::from(place) % (line.text.len() + 1));
        match how % 7 {
            0 => line.text.truncate(place),
            1 => line.text.insert(place, letter),
            2 => line.text.replace_range(..place, ""),
            3 => line.truncated = true,
            4 => {
                let twice = inputs[at].clone();
                inputs.insert(to, twice);
            }
            5 => drop(inputs.remove(at)),
            _ => inputs.swap(at, to),
        }
    }
    inputs
}

/// Plays inputs to a new backend, ends every process that still runs, checks the guarantees below,
/// and returns the actions. Skips inputs that the host would not send: commands for turns that are
/// over, answers to questions that were not asked, and lines of processes that were not started.
///
/// The guarantees: the backend returns no error; its actions do not depend on earlier actions in
/// the same list (as they would if batching mattered); every turn ends exactly once and has no
/// event or question before its start or after its end; keys of processes and questions are new;
/// nothing is written to a process that has ended; every query is answered at most once.
pub fn survive<B: Backend>(inputs: Vec<Input>) -> Vec<Action> {
    let mut run =
        Run { backend: B::default(), at_ms: 0.0, actions: Vec::new(), host: HostView::default() };
    let mut alone = B::default();
    let mut apart = Vec::new();
    for input in inputs {
        if !run.host.possible(&input) {
            continue;
        }
        let timed = TimedInput { at_ms: run.at_ms, input };
        let mut out = Vec::new();
        alone.handle(timed.clone(), &mut out).expect("a backend accepts any output of its agent");
        apart.extend(out);
        run.feed(timed.input);
    }
    assert_eq!(apart, run.actions, "the actions depend on how inputs are batched");
    // End the running processes, and fail those that the backend starts after that.
    loop {
        if let Some(&proc) = run.host.running.first() {
            run.feed(Input::Exited(Exited {
                proc,
                how: Exit::Signal(9),
                stderr_tail: String::new(),
            }));
        } else if let Some(&proc) = run.host.asked.first() {
            run.feed(Input::SpawnFailed(SpawnFailed {
                proc,
                message: "no more".to_owned(),
                not_found: false,
            }));
        } else {
            break;
        }
    }
    assert!(run.host.open.is_empty(), "turns without an end: {:?}", run.host.open);
    run.actions
}

struct Run<B> {
    backend: B,
    at_ms: f64,
    actions: Vec<Action>,
    host: HostView,
}

/// The host's view of a link.
#[derive(Default)]
struct HostView {
    open: BTreeSet<(u32, u32)>,
    turns: BTreeSet<(u32, u32)>,
    /// Processes that were requested and have neither started nor failed.
    asked: BTreeSet<u32>,
    running: BTreeSet<u32>,
    procs: BTreeSet<u32>,
    asks: BTreeSet<u32>,
    answered: BTreeSet<u32>,
}

impl<B: Backend> Run<B> {
    fn feed(&mut self, input: Input) {
        let host = &mut self.host;
        match &input {
            Input::Command(Command::StartTurn(start)) => {
                host.turns.insert((start.session, start.turn));
                host.open.insert((start.session, start.turn));
            }
            Input::Spawned(spawned) if host.asked.remove(&spawned.proc) => {
                host.running.insert(spawned.proc);
            }
            Input::SpawnFailed(failed) => drop(host.asked.remove(&failed.proc)),
            Input::Exited(exited) => drop(host.running.remove(&exited.proc)),
            _ => {}
        }
        let from = self.actions.len();
        self.backend
            .handle(TimedInput { at_ms: self.at_ms, input }, &mut self.actions)
            .expect("a backend accepts any output of its agent");
        self.at_ms += 1.0;
        for action in &self.actions[from..] {
            self.host.see(action);
        }
    }
}

impl HostView {
    /// Returns whether the host would send the input: one turn per session, no key twice, answers
    /// only to open questions, nothing about processes that do not run.
    fn possible(&self, input: &Input) -> bool {
        match input {
            Input::Command(Command::StartTurn(start)) => {
                !self.turns.contains(&(start.session, start.turn))
                    && !self.open.iter().any(|(session, _)| *session == start.session)
            }
            Input::Command(Command::Answer(answer)) => self.asks.contains(&answer.ask),
            Input::Command(Command::Steer(steer)) => {
                self.open.contains(&(steer.session, steer.turn))
            }
            Input::Command(Command::Interrupt(turn)) => {
                self.open.contains(&(turn.session, turn.turn))
            }
            Input::Spawned(spawned) => self.asked.contains(&spawned.proc),
            Input::SpawnFailed(failed) => self.asked.contains(&failed.proc),
            Input::Line(line) => self.running.contains(&line.proc),
            Input::Exited(exited) => self.running.contains(&exited.proc),
            _ => true,
        }
    }

    fn see(&mut self, action: &Action) {
        let open = |host: &Self, session, turn| {
            assert!(host.open.contains(&(session, turn)), "an event outside its turn: {action:?}")
        };
        match action {
            Action::Event(event) => open(self, event.session, event.turn),
            Action::Ask(ask) => {
                open(self, ask.session, ask.turn);
                assert!(self.asks.insert(ask.ask), "the key of a question is reused: {action:?}");
            }
            Action::TurnBegun(turn) => {
                assert!(
                    turn.turn >= 0x8000_0000 && self.turns.insert((turn.session, turn.turn)),
                    "not a new turn of an agent: {action:?}"
                );
                self.open.insert((turn.session, turn.turn));
            }
            Action::TurnDone(done) => {
                open(self, done.session, done.turn);
                self.open.remove(&(done.session, done.turn));
            }
            Action::Spawn(spawn) => {
                assert!(
                    self.procs.insert(spawn.proc),
                    "the key of a process is reused: {action:?}"
                );
                self.asked.insert(spawn.proc);
            }
            Action::Write(write) => {
                assert!(
                    self.running.contains(&write.proc) || self.asked.contains(&write.proc),
                    "a write without a process: {action:?}"
                );
            }
            Action::QueryAnswer(answer) => {
                assert!(self.answered.insert(answer.query), "a query is answered twice: {action:?}")
            }
            _ => {}
        }
    }
}
