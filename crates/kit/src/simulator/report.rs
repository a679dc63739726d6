//! The violations of a trial, each with the input the guest got last.

use crate::finding::Rule;
use crate::{brief, shortened};
use aetheel_model::agent::Input;

/// Something the guest must not do.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    /// The line of the recording that the last input is from.
    pub(crate) line: Option<usize>,
    /// The JSON of the last input, shortened.
    pub(crate) input: String,
    /// The behaviour of the guest.
    pub(crate) got: String,
    pub(crate) expected: String,
}

#[derive(Default)]
pub(super) struct Report {
    pub(super) violations: Vec<Violation>,
    /// The line of the last input.
    pub(super) line: Option<usize>,
    input: String,
}

impl Report {
    /// From here on violations belong to this input.
    pub(super) fn after(&mut self, line: Option<usize>, input: &Input) {
        self.line = line;
        self.input = brief(input);
    }

    pub(super) fn add(&mut self, rule: Rule, got: String, expected: &str) {
        self.violations.push(Violation {
            rule,
            line: self.line,
            input: self.input.clone(),
            got: shortened(&got, 600),
            expected: expected.to_owned(),
        });
    }

    /// Adds a violation where a number is above its limit.
    pub(super) fn over(&mut self, what: &str, is: usize, limit: usize, expected: &str) {
        if is > limit {
            self.add(Rule::Limits, format!("{what}: {is}"), expected);
        }
    }
}
