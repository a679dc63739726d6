//! Compares the actions of a replay with the expected ones of a case. Reports the first difference
//! with the line and the field of the input that caused it, and a diff of both lists.

use serde::Serialize;
use similar::TextDiff;

use super::actions::{Projection, first_difference};
use super::cause;
use crate::case::Case;
use crate::replay::ReplayResult;
use aetheel_model::agent::Action;
use aetheel_model::plain::shortened;

const MAX_SHOWN: usize = 300;

/// The difference between the actual and the expected actions of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct GoldenDifference {
    /// The number of the first different action, from 1.
    pub action: usize,
    /// The line of the recording that caused the action, or should have.
    pub line: Option<usize>,
    /// The input on that line.
    pub input: String,
    /// The field of the input that contains the value, if it was found.
    pub field: Option<String>,
    /// The field of the action that differs.
    pub path: Option<String>,
    /// The expected value; `None` if the field or action is not expected.
    pub expected: Option<String>,
    /// The actual value; `None` if it is missing.
    pub got: Option<String>,
    /// A unified diff of both lists.
    pub diff: String,
}

/// Compares the actions of a replay (with one input per call) with the expected ones.
#[must_use]
pub fn golden_difference(
    case: &Case,
    replayed: &ReplayResult,
    expected: &[Action],
) -> Option<GoldenDifference> {
    let got: Vec<Action> = replayed.actions().cloned().collect();
    let differ = first_difference(expected, &got, Projection::Meaning)?;
    let wanted: Vec<String> = [expected.get(differ.number - 1), got.get(differ.number - 1)]
        .into_iter()
        .flatten()
        .flat_map(cause::texts)
        .collect();
    let (entry, field) = match (got.get(differ.number - 1), expected.get(differ.number - 1)) {
        // An action is missing. The line that should have caused it is between those of its
        // neighbours.
        (_, Some(_)) if differ.path.is_none() => {
            let after = if differ.number == 1 {
                0
            } else {
                replayed.entry_of(differ.number - 1).unwrap_or(0)
            };
            let until = got
                .get(differ.number - 1)
                .and_then(|_| replayed.entry_of(differ.number))
                .unwrap_or(case.tape.entries.len() - 1);
            cause::among(&case.tape.entries, after..=until, &wanted)
                .map_or((Some(until), None), |(at, field)| (Some(at), Some(field)))
        }
        _ => {
            let at = replayed.entry_of(differ.number);
            let values: Vec<String> =
                [&differ.expected, &differ.got].into_iter().flatten().cloned().collect();
            let field = at
                .and_then(|at| cause::among(&case.tape.entries, at..=at, &values))
                .map(|(_, field)| field);
            (at, field)
        }
    };
    let input = entry.and_then(|at| case.tape.entries.get(at)?.input());
    Some(GoldenDifference {
        action: differ.number,
        line: entry.and_then(|at| case.tape.lines.get(at)).copied(),
        input: input.map(crate::brief).unwrap_or_default(),
        field,
        path: differ.path,
        expected: differ.expected.map(|text| shortened(&text, MAX_SHOWN)),
        got: differ.got.map(|text| shortened(&text, MAX_SHOWN)),
        diff: unified(&to_jsonl(expected), &to_jsonl(&got)),
    })
}

/// Formats actions as in `NAME.actions.jsonl`.
#[must_use]
pub fn to_jsonl(actions: &[Action]) -> String {
    actions
        .iter()
        .filter_map(|action| serde_json::to_string(action).ok())
        .map(|line| line + "\n")
        .collect()
}

fn unified(expected: &str, got: &str) -> String {
    let diff = TextDiff::from_lines(expected, got);
    diff.unified_diff().context_radius(2).header("expected", "got").to_string()
}
