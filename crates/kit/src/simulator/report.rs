//! The violations of a trial, each with the last input that the guest received.

use crate::finding::Rule;
use aetheel_model::agent::Input;
use aetheel_model::plain::shortened;
use aetheel_recording::brief;

#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    /// The line of the recording with the last input.
    pub(crate) line: Option<usize>,
    /// The last input as JSON, shortened.
    pub(crate) input: String,
    /// The guest's behaviour.
    pub(crate) got: String,
    pub(crate) expected: String,
}

#[derive(Default)]
pub(super) struct ViolationReport {
    pub(super) violations: Vec<Violation>,
    /// The line of the last input.
    pub(super) line: Option<usize>,
    /// The last input. Only a violation needs its text, which can be megabytes long.
    input: Option<Input>,
}

impl ViolationReport {
    /// Attributes the following violations to this input.
    pub(super) fn after(&mut self, line: Option<usize>, input: &Input) {
        self.line = line;
        self.input = Some(input.clone());
    }

    pub(super) fn add(&mut self, rule: Rule, got: String, expected: &str) {
        self.violations.push(Violation {
            rule,
            line: self.line,
            input: self.input.as_ref().map(brief).unwrap_or_default(),
            got: shortened(&got, 600),
            expected: expected.to_owned(),
        });
    }

    /// Adds a violation if a number exceeds its limit.
    pub(super) fn over(&mut self, what: &str, is: usize, limit: usize, expected: &str) {
        if is > limit {
            self.add(Rule::Limits, format!("{what}: {is}"), expected);
        }
    }
}
