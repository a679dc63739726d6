//! Compares two replays of a recording line by line.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ParsedRecording;
use crate::replay::ReplayResult;
use aetheel_model::agent::Action;

/// A line of a recording for which two components return different actions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LineDifference {
    /// The line of the recording.
    pub line: usize,
    /// Milliseconds since the link was opened.
    pub t: f64,
    /// The input on that line.
    pub input: String,
    /// The actions of the first component.
    pub first: Vec<Action>,
    /// The actions of the second component.
    pub second: Vec<Action>,
    /// The failures of both components at this line.
    pub failures: [Option<String>; 2],
}

/// Compares two replays. Both must have been made with one input per call.
#[must_use]
pub fn by_line(
    tape: &ParsedRecording,
    first: &ReplayResult,
    second: &ReplayResult,
) -> Vec<LineDifference> {
    let actions = |replayed: &ReplayResult| -> BTreeMap<usize, Vec<Action>> {
        replayed.steps.iter().map(|step| (step.entry, step.actions.clone())).collect()
    };
    let failure = |replayed: &ReplayResult, at: usize| {
        replayed
            .failure
            .as_ref()
            .filter(|(entry, _)| *entry == at)
            .map(|(_, failure)| failure.to_string())
    };
    let (mut ones, mut others) = (actions(first), actions(second));
    let mut differences = Vec::new();
    for (at, entry) in tape.entries.iter().enumerate() {
        let (one, other) =
            (ones.remove(&at).unwrap_or_default(), others.remove(&at).unwrap_or_default());
        let failures = [failure(first, at), failure(second, at)];
        if one != other || failures[0] != failures[1] {
            differences.push(LineDifference {
                line: tape.lines[at],
                t: entry.t,
                input: entry.input().map(crate::brief).unwrap_or_default(),
                first: one,
                second: other,
                failures,
            });
        }
    }
    differences
}
