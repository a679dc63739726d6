//! Compares how two components read the same recording, line by line.

use std::collections::BTreeMap;

use serde::Serialize;
use similar::{Algorithm, ChangeTag};

use super::brief;
use super::summary::{self, SummaryEntry};
use aetheel_model::agent::Action;
use aetheel_recording::ParsedRecording;
use aetheel_recording::replay::ReplayResult;

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
pub fn between(
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
                input: entry.input().map(brief).unwrap_or_default(),
                first: one,
                second: other,
                failures,
            });
        }
    }
    differences
}

/// Compares the meaning of two replays: their summaries, without times. Parts of a text count as one
/// text, and actions that people never see do not count. Entries of the first replay only are
/// [`ChangeTag::Delete`], and entries of the second only are [`ChangeTag::Insert`].
#[must_use]
pub fn by_meaning(
    tape: &ParsedRecording,
    first: &ReplayResult,
    second: &ReplayResult,
) -> Vec<(ChangeTag, SummaryEntry)> {
    let [first, second] = [first, second].map(|replayed| summary::summarize(tape, replayed));
    let key = |entry: &SummaryEntry| (entry.turn, entry.what.clone(), entry.text.clone());
    similar::capture_diff_slices_by_key(Algorithm::Myers, &first, &second, key)
        .iter()
        .flat_map(|op| op.iter_slices(&first[..], &second[..]))
        .filter(|(tag, _)| *tag != ChangeTag::Equal)
        .flat_map(|(tag, entries)| entries.iter().map(move |entry| (tag, entry.clone())))
        .collect()
}
