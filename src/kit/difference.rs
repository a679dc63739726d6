//! The differences between two components that read the same recording, line by line.

use std::collections::BTreeMap;

use serde::Serialize;

use super::brief;
use crate::agent::Action;
use crate::turn::recording::What;
use crate::turn::replay::{Replayed, Tape};

/// A line of a recording that two components understand differently.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LineDifference {
    /// The line of the recording.
    pub line: usize,
    /// Milliseconds since the link was opened.
    pub t: f64,
    /// The input on it.
    pub input: String,
    /// The actions of the first component.
    pub first: Vec<Action>,
    /// The actions of the second component.
    pub second: Vec<Action>,
    /// How they failed there, if they did.
    pub failures: [Option<String>; 2],
}

/// Compares two readings, each made one input a call.
#[must_use]
pub fn between(tape: &Tape, first: &Replayed, second: &Replayed) -> Vec<LineDifference> {
    let actions = |replayed: &Replayed| -> BTreeMap<usize, Vec<Action>> {
        replayed.steps.iter().map(|step| (step.entry, step.actions.clone())).collect()
    };
    let failure = |replayed: &Replayed, at: usize| {
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
            let text = match &entry.what {
                What::In(input) => brief(input),
                _ => String::new(),
            };
            differences.push(LineDifference {
                line: tape.lines[at],
                t: entry.t,
                input: text,
                first: one,
                second: other,
                failures,
            });
        }
    }
    differences
}
