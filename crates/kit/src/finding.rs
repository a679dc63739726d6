//! The faults found in a component, told so that its author can act on them.

use serde::Serialize;

/// A rule that components must keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// No input makes a guest fail.
    NeverFails,
    /// Every turn ends exactly once after its agent has exited.
    EndsOnce,
    /// Only what the descriptor declares is started, and prompts stay out of the command line.
    Plan,
    /// Its actions stay within the contract's limits and forms.
    Limits,
    /// Its actions name only things that exist: its own keys, turns that run.
    Keys,
    /// The same inputs give the same actions.
    Determinism,
    /// However inputs are batched, the actions are the same.
    Batching,
    /// A guest that took over another's state goes on as that one would have.
    Handover,
    /// What the agent says is shown or reported.
    Reads,
    /// A field that the agent no longer sends is reported.
    Notices,
}

impl Rule {
    /// The author's next step for this rule.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::NeverFails => {
                "answer what cannot be read with `unrecognised` or with nothing; never index, unwrap or throw on the agent's output"
            }
            Self::EndsOnce => {
                "at `exited` end every open turn of that process (`lost`, unless the agent said how it ended), and remember which have ended"
            }
            Self::Plan => {
                "declare program, flags, words and variables in the descriptor; hand the prompt over on stdin or in a protocol message"
            }
            Self::Limits => "cut it down before it is returned; wit/types.wit has the limits",
            Self::Keys => {
                "use a key only for what was asked for, a fresh one every time, and speak of turns between their `start-turn` and `turn-done`"
            }
            Self::Determinism => {
                "keep state in the guest only: no addresses, hash orders, clocks or counters that outlive a link"
            }
            Self::Batching => {
                "decide by the inputs alone, one after the other; the end of a call means nothing"
            }
            Self::Handover => {
                "save everything that decides what comes next, or return none from `save`"
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

/// Something a component did that it must not, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    /// The rule that was broken.
    pub rule: Rule,
    /// The trial that showed it, for people.
    pub trial: String,
    /// The recording it was made of; none: made of the descriptor.
    pub recording: Option<String>,
    /// The line of the recording that the last input is from.
    pub line: Option<usize>,
    /// The last input the guest got.
    pub input: String,
    /// The behaviour of the guest.
    pub got: String,
    /// The behaviour the rule asks for.
    pub expected: String,
    /// The author's next step, as [`Rule::advice`] has it.
    pub advice: &'static str,
    /// How many trials found the same.
    pub times: usize,
}

/// Adds a finding, or counts it when the same was found before.
pub(super) fn add(findings: &mut Vec<Finding>, finding: Finding) {
    match findings.iter_mut().find(|known| {
        known.rule == finding.rule && known.got == finding.got && known.expected == finding.expected
    }) {
        Some(known) => known.times += 1,
        None => findings.push(finding),
    }
}
