//! The violations of a trial, each with the input the guest got last.

use crate::agent::Input;
use crate::kit::finding::Rule;
use crate::kit::{brief, shortened};

/// Something the guest must not do.
#[derive(Clone, Debug)]
pub(in crate::kit) struct Violation {
    pub(in crate::kit) rule: Rule,
    /// The line of the recording that the last input is from.
    pub(in crate::kit) line: Option<usize>,
    /// The JSON of the last input, shortened.
    pub(in crate::kit) input: String,
    /// The behaviour of the guest.
    pub(in crate::kit) got: String,
    pub(in crate::kit) expected: String,
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
