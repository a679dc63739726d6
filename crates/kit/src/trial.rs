//! A trial: the inputs a guest gets, and how everything still open ends afterwards.

use aetheel_model::agent::{Command, Decision, Exit, Input, Line, Pipe, StartTurn, TurnRef};
use aetheel_turn::recording::{Entry, What};
use aetheel_turn::replay::Tape;

/// One input of a trial.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) input: Input,
    /// The line of the recording it is from.
    pub(super) line: Option<usize>,
    /// Its keys are sent as they are, not translated to those of the guest.
    pub(super) foreign: bool,
}

/// A series of inputs that one guest is tried with.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// The host's part in it, for people.
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
    pub(super) endings: Endings,
    /// The agent's own words were changed: the host has to refuse the ids in them.
    pub(super) forged: bool,
}

/// How everything ends that is still open after the last input.
#[derive(Clone, Debug)]
pub(super) struct Endings {
    pub(super) exit: Exit,
    /// The body of every response; none: requests fail.
    pub(super) body: Option<&'static str>,
    pub(super) decision: Decision,
}

impl Default for Endings {
    fn default() -> Self {
        Self { exit: Exit::Code(1), body: None, decision: Decision::Dismissed }
    }
}

impl Trial {
    pub(super) fn new(name: impl Into<String>, steps: Vec<Step>) -> Self {
        Self { name: name.into(), steps, endings: Endings::default(), forged: false }
    }

    /// As `new`; the agents exit in this way.
    pub(super) fn exiting(name: impl Into<String>, steps: Vec<Step>, exit: Exit) -> Self {
        Self { endings: Endings { exit, ..Endings::default() }, ..Self::new(name, steps) }
    }

    /// As `new`, with changed words of the agent in it.
    pub(super) fn forged(name: impl Into<String>, steps: Vec<Step>) -> Self {
        Self { forged: true, ..Self::new(name, steps) }
    }
}

impl Step {
    pub(super) fn own(input: Input) -> Self {
        Self { input, line: None, foreign: false }
    }

    pub(super) fn foreign(input: Input) -> Self {
        Self { input, line: None, foreign: true }
    }

    pub(super) fn start(&self) -> Option<&StartTurn> {
        match &self.input {
            Input::Command(Command::StartTurn(start)) => Some(start),
            _ => None,
        }
    }

    pub(super) fn output(&self) -> Option<&Line> {
        match &self.input {
            Input::Line(line) => Some(line),
            _ => None,
        }
    }
}

/// A line that a process prints.
pub(super) fn stdout_line(proc: u32, text: &str) -> Input {
    Input::Line(Line { proc, pipe: Pipe::Stdout, text: text.to_owned(), truncated: false })
}

/// The inputs of a recording, up to where its link went over to another guest.
pub(super) fn steps(tape: &Tape) -> Vec<Step> {
    let before_move = tape
        .entries
        .iter()
        .zip(&tape.lines)
        .take_while(|(entry, _)| !matches!(entry.what, What::Moved { .. }));
    let steps = before_move.filter_map(|(entry, line)| match &entry.what {
        What::In(input) => Some(Step { input: input.clone(), line: Some(*line), foreign: false }),
        _ => None,
    });
    steps.collect()
}

/// The entries a recording of these steps would have.
pub(super) fn entries(steps: &[Step]) -> Vec<Entry> {
    steps
        .iter()
        .filter(|step| !step.foreign)
        .map(|step| Entry { t: 0.0, what: What::In(step.input.clone()) })
        .collect()
}

/// The turn that was begun last before a step.
pub(super) fn turn_at(steps: &[Step], at: usize) -> Option<TurnRef> {
    let start = steps[..at].iter().rev().find_map(Step::start)?;
    Some(TurnRef { session: start.session, turn: start.turn })
}
