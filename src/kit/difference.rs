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

/// On which side an action stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// On both.
    Same,
    /// Only among the first.
    First,
    /// Only among the second.
    Second,
}

/// Lists of more actions are not laid side by side.
const SIDE_BY_SIDE: usize = 200;

/// Two lists of actions as one, in order: what both have, and what only one has.
#[must_use]
pub fn edits<'a>(first: &'a [Action], second: &'a [Action]) -> Vec<(Edit, &'a Action)> {
    let only = |edit, actions: &'a [Action]| actions.iter().map(move |action| (edit, action));
    let (rows, columns) = (first.len(), second.len());
    if rows.max(columns) > SIDE_BY_SIDE {
        return only(Edit::First, first).chain(only(Edit::Second, second)).collect();
    }
    // How many both have from here on.
    let mut common = vec![vec![0_usize; columns + 1]; rows + 1];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            common[row][column] = if first[row] == second[column] {
                common[row + 1][column + 1] + 1
            } else {
                common[row + 1][column].max(common[row][column + 1])
            };
        }
    }
    let (mut row, mut column, mut all) = (0, 0, Vec::new());
    while row < rows && column < columns {
        if first[row] == second[column] {
            all.push((Edit::Same, &first[row]));
            (row, column) = (row + 1, column + 1);
        } else if common[row + 1][column] >= common[row][column + 1] {
            all.push((Edit::First, &first[row]));
            row += 1;
        } else {
            all.push((Edit::Second, &second[column]));
            column += 1;
        }
    }
    all.extend(only(Edit::First, &first[row..]));
    all.extend(only(Edit::Second, &second[column..]));
    all
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_have_stands_once_and_in_order() {
        let list = |keys: &[u32]| keys.iter().map(|key| Action::CloseStdin(*key)).collect();
        let told = |first: &[u32], second: &[u32]| -> String {
            let (first, second): (Vec<Action>, Vec<Action>) = (list(first), list(second));
            edits(&first, &second)
                .into_iter()
                .map(|(edit, action)| {
                    let sign = match edit {
                        Edit::Same => '=',
                        Edit::First => '-',
                        Edit::Second => '+',
                    };
                    let Action::CloseStdin(key) = action else { panic!("another action") };
                    format!("{sign}{key}")
                })
                .collect()
        };
        assert_eq!(told(&[1, 2, 3], &[1, 4, 3]), "=1-2+4=3");
        assert_eq!(told(&[], &[1]), "+1");
        assert_eq!(told(&[1, 2], &[2]), "-1=2");
        assert_eq!(told(&[1], &[]), "-1");
        let many: Vec<u32> = (0..300).collect();
        assert!(told(&many, &many).starts_with("-0-1"), "too many to lay side by side");
    }
}
