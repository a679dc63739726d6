//! A trial: a list of inputs for a guest, and how everything that is still open ends after them.

use aetheel_model::agent::{Command, Decision, Exit, Input, Line, Pipe, StartTurn, TurnRef};
use aetheel_turn::recording::{Entry, What};
use aetheel_turn::replay::Tape;

/// One input of a trial.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) input: Input,
    /// The line of the recording that it comes from.
    pub(super) line: Option<usize>,
    /// Whether its keys are sent unchanged. Otherwise they are translated to those of the guest.
    pub(super) foreign: bool,
}

/// A list of inputs with which one guest is tested.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// A description for people.
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
    pub(super) endings: Endings,
    /// Whether output of the agent was changed. Ids in it are then not checked, because the host
    /// refuses invalid ones.
    pub(super) forged: bool,
}

/// How processes, requests and questions end that are open after the last input.
#[derive(Clone, Debug)]
pub(super) struct Endings {
    pub(super) exit: Exit,
    /// The body of every HTTP response, or `None` if requests fail.
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

    /// Creates a trial whose agents exit in this way.
    pub(super) fn exiting(name: impl Into<String>, steps: Vec<Step>, exit: Exit) -> Self {
        Self { endings: Endings { exit, ..Endings::default() }, ..Self::new(name, steps) }
    }

    /// Creates a trial with changed output of the agent.
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

/// Returns a line of a process's stdout as an input.
pub(super) fn stdout_line(proc: u32, text: &str) -> Input {
    Input::Line(Line { proc, pipe: Pipe::Stdout, text: text.to_owned(), truncated: false })
}

/// Returns the inputs of a recording, up to the point where its link moved to another guest.
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

/// Returns the entries that a recording of these steps would have.
pub(super) fn entries(steps: &[Step]) -> Vec<Entry> {
    steps
        .iter()
        .filter(|step| !step.foreign)
        .map(|step| Entry { t: 0.0, what: What::In(step.input.clone()) })
        .collect()
}

/// Returns the last turn that began before a step.
pub(super) fn turn_at(steps: &[Step], at: usize) -> Option<TurnRef> {
    let start = steps[..at].iter().rev().find_map(Step::start)?;
    Some(TurnRef { session: start.session, turn: start.turn })
}
