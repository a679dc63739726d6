//! What two components make of the same bytes, line by line.

use std::collections::BTreeMap;

use serde::Serialize;

use super::brief;
use crate::agent::Action;
use crate::turn::recording::What;
use crate::turn::replay::{Replayed, Tape};

/// A line of a recording that two components understand differently.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Apart {
    /// The line of the recording.
    pub line: usize,
    /// Milliseconds since the link was opened.
    pub t: f64,
    /// What it tells.
    pub told: String,
    /// What the first made of it.
    pub first: Vec<Action>,
    /// What the second made of it.
    pub second: Vec<Action>,
    /// How they failed there, if they did.
    pub failures: [Option<String>; 2],
}

/// Compares two readings, each made one input a call.
#[must_use]
pub fn between(tape: &Tape, first: &Replayed, second: &Replayed) -> Vec<Apart> {
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
    let mut apart = Vec::new();
    for (at, entry) in tape.entries.iter().enumerate() {
        let (one, other) =
            (ones.remove(&at).unwrap_or_default(), others.remove(&at).unwrap_or_default());
        let failures = [failure(first, at), failure(second, at)];
        if one != other || failures[0] != failures[1] {
            let told = match &entry.what {
                What::In(input) => brief(input),
                _ => String::new(),
            };
            apart.push(Apart {
                line: tape.lines[at],
                t: entry.t,
                told,
                first: one,
                second: other,
                failures,
            });
        }
    }
    apart
}
