//! What a trial tells a guest.

use crate::agent::{Command, Decision, Exit, Input, Line, Pipe, StartTurn, TurnRef};
use crate::turn::recording::{Entry, What};
use crate::turn::replay::Tape;

/// One thing to tell.
#[derive(Clone, Debug)]
pub(super) struct Tell {
    pub(super) input: Input,
    /// The line of the recording it is from.
    pub(super) line: Option<usize>,
    /// It names keys that mean nothing to the guest; they are told as they are.
    pub(super) foreign: bool,
}

/// A trial.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// What is tried.
    pub(super) name: String,
    pub(super) tells: Vec<Tell>,
    pub(super) manner: Manner,
}

/// How everything ends that is still open after the last thing was told.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    pub(super) exit: Exit,
    /// What requests are answered with; none: not at all.
    pub(super) body: Option<&'static str>,
    pub(super) decision: Decision,
    /// The agent's own words were changed: what ids it tells is then for the host to refuse.
    pub(super) forged: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Self { exit: Exit::Code(1), body: None, decision: Decision::Dismissed, forged: false }
    }
}

impl Tell {
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

    pub(super) fn line_of_output(&self) -> Option<&Line> {
        match &self.input {
            Input::Line(line) => Some(line),
            _ => None,
        }
    }
}

/// A line of output of a process.
pub(super) fn said(proc: u32, text: &str) -> Input {
    Input::Line(Line { proc, pipe: Pipe::Stdout, text: text.to_owned(), truncated: false })
}

/// What a recording tells, up to where its link went over to another guest.
pub(super) fn tells(tape: &Tape) -> Vec<Tell> {
    let still = tape
        .entries
        .iter()
        .zip(&tape.lines)
        .take_while(|(entry, _)| !matches!(entry.what, What::Moved { .. }));
    let told = still.filter_map(|(entry, line)| match &entry.what {
        What::In(input) => Some(Tell { input: input.clone(), line: Some(*line), foreign: false }),
        _ => None,
    });
    told.collect()
}

/// The entries a trial made of nothing would have in a recording.
pub(super) fn entries(tells: &[Tell]) -> Vec<Entry> {
    tells
        .iter()
        .filter(|tell| !tell.foreign)
        .map(|tell| Entry { t: 0.0, what: What::In(tell.input.clone()) })
        .collect()
}

/// The turn that was begun last before a place.
pub(super) fn turn_at(tells: &[Tell], at: usize) -> Option<TurnRef> {
    let start = tells[..at].iter().rev().find_map(Tell::start)?;
    Some(TurnRef { session: start.session, turn: start.turn })
}
