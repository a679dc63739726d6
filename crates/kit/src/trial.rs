//! A trial: a list of inputs for a guest, and how everything that is still open ends after them.

use aetheel_model::agent::{
    AgentLine, AskDecision, Exit, HostCommand, Input, Pipe, StartTurn, TimedInput, TurnRef,
};
use aetheel_recording::{EntryKind, ParsedRecording, RecordingEntry};

#[derive(Clone, Debug)]
pub(super) struct TrialStep {
    pub(super) input: Input,
    /// The line of the recording that it comes from.
    pub(super) line: Option<usize>,
    /// Whether its keys are sent unchanged. Otherwise they are translated to those of the guest.
    pub(super) foreign: bool,
}

/// A list of inputs with which one guest is tested.
#[derive(Clone, Debug)]
pub(super) struct GuestTrial {
    /// A description for people.
    pub(super) name: String,
    pub(super) steps: Vec<TrialStep>,
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
    pub(super) decision: AskDecision,
}

impl Default for Endings {
    fn default() -> Self {
        Self { exit: Exit::Code(1), body: None, decision: AskDecision::Dismissed }
    }
}

impl GuestTrial {
    pub(super) fn new(name: impl Into<String>, steps: Vec<TrialStep>) -> Self {
        Self { name: name.into(), steps, endings: Endings::default(), forged: false }
    }

    /// Creates a trial whose agents exit in this way.
    pub(super) fn exiting(name: impl Into<String>, steps: Vec<TrialStep>, exit: Exit) -> Self {
        Self { endings: Endings { exit, ..Endings::default() }, ..Self::new(name, steps) }
    }

    /// Creates a trial with changed output of the agent.
    pub(super) fn forged(name: impl Into<String>, steps: Vec<TrialStep>) -> Self {
        Self { forged: true, ..Self::new(name, steps) }
    }
}

impl TrialStep {
    pub(super) fn own(input: Input) -> Self {
        Self { input, line: None, foreign: false }
    }

    pub(super) fn foreign(input: Input) -> Self {
        Self { input, line: None, foreign: true }
    }

    pub(super) fn start(&self) -> Option<&StartTurn> {
        match &self.input {
            Input::Command(HostCommand::StartTurn(start)) => Some(start),
            _ => None,
        }
    }

    pub(super) fn output(&self) -> Option<&AgentLine> {
        match &self.input {
            Input::Line(line) => Some(line),
            _ => None,
        }
    }
}

pub(super) fn stdout_line(proc: u32, text: &str) -> Input {
    Input::Line(AgentLine { proc, pipe: Pipe::Stdout, text: text.to_owned(), truncated: false })
}

/// Returns the inputs of a recording, up to the point where its link moved to another guest.
pub(super) fn steps(tape: &ParsedRecording) -> Vec<TrialStep> {
    let step =
        |(line, TimedInput { input, .. })| TrialStep { line: Some(line), ..TrialStep::own(input) };
    tape.inputs_of_first_guest().map(step).collect()
}

/// Returns the entries that a recording of these steps would have.
pub(super) fn entries(steps: &[TrialStep]) -> Vec<RecordingEntry> {
    steps
        .iter()
        .filter(|step| !step.foreign)
        .map(|step| RecordingEntry { t: 0.0, kind: EntryKind::In(step.input.clone()) })
        .collect()
}

/// Returns the last turn that began before a step.
pub(super) fn turn_at(steps: &[TrialStep], at: usize) -> Option<TurnRef> {
    let start = steps[..at].iter().rev().find_map(TrialStep::start)?;
    Some(TurnRef { session: start.session, turn: start.turn })
}
