//! Finds the faults that a component shows for a recording.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::finding::Rule;
use crate::simulator::check_replay;
use crate::unread::unread;
use aetheel_model::agent::{
    Action, AgentEventKind, Descriptor, FailureKind, Input, TurnKey, TurnOutcome,
};
use aetheel_recording::replay::{ReplayResult, ReplayStep, endings};
use aetheel_recording::{Ending, GuestFailure, RecordingEntry};

/// A kind of fault. Serious kinds come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The component crashed.
    Trap,
    /// The component exceeded a limit of the host.
    Limit,
    /// The component returned an error.
    Refused,
    /// The component returned an action that a host refuses.
    Action,
    /// A turn has no end although everything that its agent started has ended.
    Unended,
    /// The agent's answer reached nobody.
    Unread,
    /// The component reports that the agent violated its protocol.
    Protocol,
    /// A text of the agent is not in its answer. Only searched for if the text is given.
    Missing,
    /// The component reports output that it does not know.
    Drift,
}

impl FaultKind {
    /// Every kind, the most serious first.
    pub const ALL: [Self; 9] = [
        Self::Trap,
        Self::Limit,
        Self::Refused,
        Self::Action,
        Self::Unended,
        Self::Unread,
        Self::Protocol,
        Self::Missing,
        Self::Drift,
    ];

    /// Returns the word for the kind on the command line and in files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Limit => "limit",
            Self::Refused => "refused",
            Self::Action => "action",
            Self::Unended => "unended",
            Self::Unread => "unread",
            Self::Protocol => "protocol",
            Self::Missing => "missing",
            Self::Drift => "drift",
        }
    }
}

/// A word that does not name a kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kinds are {}", FaultKind::ALL.map(FaultKind::word).join(", "))]
pub struct UnknownFaultKind;

impl FromStr for FaultKind {
    type Err = UnknownFaultKind;

    fn from_str(word: &str) -> Result<Self, UnknownFaultKind> {
        Self::ALL.into_iter().find(|kind| kind.word() == word).ok_or(UnknownFaultKind)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A fault that a replay shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// The class of an error message, or a field of the agent's output. Two faults are the same if
    /// kind and place are equal.
    pub place: String,
    /// The index of the recording's entry at which it shows.
    pub entry: usize,
    /// The turn, if it belongs to one.
    pub turn: Option<TurnKey>,
}

impl Fault {
    fn new(kind: FaultKind, place: impl Into<String>, entry: usize) -> Self {
        Self { kind, place: place.into(), entry, turn: None }
    }

    /// Returns whether another fault has the same kind and place.
    #[must_use]
    pub fn is_same(&self, kind: FaultKind, place: &str) -> bool {
        self.kind == kind && self.place == place
    }
}

/// The component and the text for which faults are searched.
#[derive(Clone, Copy)]
pub(super) struct FaultSearch<'a> {
    pub(super) descriptor: &'a Descriptor,
    pub(super) expected: Option<&'a str>,
}

impl FaultSearch<'_> {
    /// Returns all faults of a replay that was made with one input per call, the most serious
    /// first.
    pub(super) fn all(self, entries: &[RecordingEntry], replayed: &ReplayResult) -> Vec<Fault> {
        FaultKind::ALL.iter().flat_map(|kind| self.of_kind(*kind, entries, replayed)).collect()
    }

    pub(super) fn of_kind(
        self,
        kind: FaultKind,
        entries: &[RecordingEntry],
        replayed: &ReplayResult,
    ) -> Vec<Fault> {
        match kind {
            FaultKind::Trap | FaultKind::Limit | FaultKind::Refused => {
                failure(replayed).filter(|fault| fault.kind == kind).into_iter().collect()
            }
            FaultKind::Action => self.refused_actions(entries, replayed),
            FaultKind::Unended => {
                let is_unended = check_replay(self.descriptor, entries, replayed).is_unended;
                let last = replayed.steps.last().map_or(0, |step| step.entry);
                let fault = Fault::new(kind, "no turn-done after the end of its agent", last);
                is_unended.then_some(fault).into_iter().collect()
            }
            FaultKind::Unread => unread_answers(entries, replayed),
            FaultKind::Protocol => protocol_failures(entries, replayed),
            FaultKind::Missing => self.missing(entries, replayed),
            FaultKind::Drift => drift(&replayed.steps),
        }
    }

    fn refused_actions(self, entries: &[RecordingEntry], replayed: &ReplayResult) -> Vec<Fault> {
        let checked = check_replay(self.descriptor, entries, replayed);
        let mut faults: Vec<Fault> = Vec::new();
        for violation in checked.violations.iter().filter(|found| found.rule != Rule::NeverFails) {
            let rule = serde_json::to_value(violation.rule).unwrap_or_default();
            let rule = rule.as_str().unwrap_or_default();
            let place = format!("{rule}: {}", message_class(&violation.got));
            if !faults.iter().any(|known| known.place == place) {
                faults.push(Fault::new(FaultKind::Action, place, violation.line.unwrap_or(0)));
            }
        }
        faults
    }

    /// Finds the expected text in the agent's output, for turns whose answer lacks it.
    fn missing(self, entries: &[RecordingEntry], replayed: &ReplayResult) -> Vec<Fault> {
        let Some(expected) = self.expected else { return Vec::new() };
        let is_answered = replayed.turns.values().any(|turn| turn.text().contains(expected));
        // Without an end of the turn, the answer would be missing from every short recording.
        let has_ended = replayed.turns.values().any(|turn| turn.done.is_some());
        if is_answered || (!has_ended && replayed.failure.is_none()) {
            return Vec::new();
        }
        let places = entries.iter().enumerate().filter_map(|(at, entry)| {
            let text = entry.output()?;
            let place = match serde_json::from_str::<Value>(text) {
                Ok(value) => position_of(&value, expected, String::new())?,
                Err(_) => text.contains(expected).then(|| "plain text".to_owned())?,
            };
            Some(Fault::new(FaultKind::Missing, place, at))
        });
        places.collect()
    }
}

/// Returns the position of a text in an agent's output, with `[]` for the items of lists.
fn position_of(value: &Value, text: &str, at: String) -> Option<String> {
    match value {
        Value::String(held) => held.contains(text).then_some(at),
        Value::Array(list) => {
            list.iter().find_map(|item| position_of(item, text, format!("{at}[]")))
        }
        Value::Object(map) => map.iter().find_map(|(key, item)| {
            let dot = if at.is_empty() { "" } else { "." };
            position_of(item, text, format!("{at}{dot}{key}"))
        }),
        _ => None,
    }
}

fn failure(replayed: &ReplayResult) -> Option<Fault> {
    let (entry, failure) = replayed.failure.as_ref()?;
    let (kind, place) = match failure {
        GuestFailure::Trapped(message) => (FaultKind::Trap, trap_class(message)),
        GuestFailure::CutOff(message) => (FaultKind::Limit, message_class(message)),
        GuestFailure::Refused(message) => (FaultKind::Refused, message_class(message)),
        GuestFailure::Paused(_) => return None,
    };
    Some(Fault::new(kind, place, *entry))
}

/// Returns the cause of a crash and the innermost function, without source lines and printed text.
fn trap_class(message: &str) -> String {
    let message = message.split("; it printed: ").next().unwrap_or_default();
    let innermost = message.split(", called by ").next().unwrap_or_default();
    innermost.split(" (").next().unwrap_or_default().to_owned()
}

/// Returns the beginning of a message up to the first value in it.
fn message_class(message: &str) -> String {
    let value = |c: char| matches!(c, '"' | '`' | '\'' | ':' | '{' | '[') || c.is_ascii_digit();
    let class = message.split(value).next().unwrap_or_default().trim();
    class.chars().take(80).collect()
}

fn unread_answers(entries: &[RecordingEntry], replayed: &ReplayResult) -> Vec<Fault> {
    let faults = unread(entries, replayed).into_iter().map(|lost| {
        let here = replayed.steps.iter().filter(|step| step.entry == lost.entry);
        let place = match (lost.position, drift(here).pop()) {
            (Some(position), Some(unknown)) => format!("{position}, {}", unknown.place),
            (Some(position), None) => position,
            (None, Some(unknown)) => unknown.place,
            (None, None) => "tokens of output and no text".to_owned(),
        };
        Fault { turn: Some(lost.turn), ..Fault::new(FaultKind::Unread, place, lost.entry) }
    });
    faults.collect()
}

fn protocol_failures(entries: &[RecordingEntry], replayed: &ReplayResult) -> Vec<Fault> {
    let endings = endings(entries, replayed);
    let faults = endings.iter().filter_map(|(turn, ending)| match ending {
        Ending::Agent(failure) if failure.kind == FailureKind::Protocol => {
            let outcome = replayed.turns.get(turn)?.done.as_ref().map(|done| &done.outcome);
            let (TurnOutcome::Failed(failure) | TurnOutcome::Lost(failure)) = outcome? else {
                return None;
            };
            let place = message_class(&failure.message);
            let entry = end_of(replayed, *turn)?;
            Some(Fault { turn: Some(*turn), ..Fault::new(FaultKind::Protocol, place, entry) })
        }
        _ => None,
    });
    faults.collect()
}

fn end_of(replayed: &ReplayResult, turn: TurnKey) -> Option<usize> {
    let ends = |action: &Action| matches!(action, Action::TurnDone(done) if done.turn == turn);
    Some(replayed.steps.iter().find(|step| step.actions.iter().any(ends))?.entry)
}

fn drift<'a>(steps: impl IntoIterator<Item = &'a ReplayStep>) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    for step in steps {
        for action in &step.actions {
            let Action::Event(event) = action else { continue };
            let AgentEventKind::Unrecognised(unknown) = &event.kind else { continue };
            let at = unknown.path.as_ref().map(|path| format!(" at {path}")).unwrap_or_default();
            let place = format!("{}: {}{at}", unknown.difference.word(), unknown.what);
            if !faults.iter().any(|known| known.place == place) {
                let turn = Some(event.turn);
                faults.push(Fault { turn, ..Fault::new(FaultKind::Drift, place, step.entry) });
            }
        }
    }
    faults
}

/// Returns the index of the start of the turn to which an entry belongs.
pub(super) fn start_before(entries: &[RecordingEntry], entry: usize) -> Option<usize> {
    entries.iter().take(entry + 1).rposition(|entry| entry.turn_start().is_some())
}

/// Returns the first process that started at or after an entry.
pub(super) fn process_start(entries: &[RecordingEntry], from: usize) -> Option<usize> {
    let starts = |entry: &RecordingEntry| matches!(entry.input(), Some(Input::Spawned(_)));
    entries.iter().skip(from).position(starts).map(|after| from + after)
}
