//! Faults of components, described so that their authors can fix them.

use serde::Serialize;

/// A rule that components must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// No input makes a guest fail.
    NeverFails,
    /// Every turn ends exactly once, at the latest when its agent has exited.
    EndsOnce,
    /// Only declared programs, flags and variables are used, and prompts stay out of the command
    /// line.
    Plan,
    /// Actions stay within the limits and formats of the contract.
    Limits,
    /// Actions use only keys that exist: those of the guest and of running turns.
    Keys,
    /// The same inputs produce the same actions.
    Determinism,
    /// The batching of inputs does not change the actions.
    Batching,
    /// A guest that took over another guest's state behaves as that guest would have.
    Handover,
    /// Output of the agent is shown or reported.
    Reads,
    /// A field that disappears from the agent's output is reported.
    Notices,
}

impl Rule {
    /// Returns the author's next step after a violation of this rule.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::NeverFails => {
                "report output that cannot be read as `unrecognised`, or ignore it; never index, unwrap or throw on the agent's output"
            }
            Self::EndsOnce => {
                "at `exited` end every open turn of that process (`lost`, unless the agent reported another outcome), and remember which turns have ended"
            }
            Self::Plan => {
                "declare program, flags, words and variables in the descriptor; pass the prompt on stdin or in a protocol message"
            }
            Self::Limits => "shorten it before it is returned; wit/types.wit has the limits",
            Self::Keys => {
                "use a new key for each request, only keys that were requested, and report on a turn only between its `start-turn` and `turn-done`"
            }
            Self::Determinism => {
                "keep state in the guest only: no addresses, hash orders, clocks or counters that outlive a link"
            }
            Self::Batching => {
                "decide by the inputs alone, in their order; the end of a call means nothing"
            }
            Self::Handover => {
                "save everything that affects later actions, or return none from `save`"
            }
            Self::Reads => {
                "compare the names of the fields that the parser reads with the recording"
            }
            Self::Notices => {
                "report a known line without its field as `unrecognised`, as the SDK's `required_text` does"
            }
        }
    }
}

/// A violation of a rule by a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CheckFinding {
    /// The rule that was broken.
    pub rule: Rule,
    /// The trial that found it, for people.
    pub trial: String,
    /// The recording that the trial is based on, or `None` if it is based on the descriptor.
    pub recording: Option<String>,
    /// The line of the recording with the last input.
    pub line: Option<usize>,
    /// The last input that the guest received.
    pub input: String,
    /// The guest's behaviour.
    pub got: String,
    /// The behaviour that the rule requires.
    pub expected: String,
    /// The author's next step, from [`Rule::advice`].
    pub advice: &'static str,
    /// The number of trials with the same result.
    pub times: usize,
}

/// Adds a finding, or counts it if the same one was found before.
pub(super) fn add(findings: &mut Vec<CheckFinding>, finding: CheckFinding) {
    match findings.iter_mut().find(|known| {
        known.rule == finding.rule && known.got == finding.got && known.expected == finding.expected
    }) {
        Some(known) => known.times += 1,
        None => findings.push(finding),
    }
}
