//! The calls that the audience of a turn carries out, because their effect goes beyond the turn:
//! their inputs, and the form of their results.

use serde::Deserialize;

use super::claim::ClaimCall;
use aetheel_model::agent::{AskDecision, AskKey};
use aetheel_model::host_tool::HostToolKind;

/// Maximum length of a prompt or reason, in characters.
const MAX_TEXT_CHARS: usize = 4_000;
/// Maximum length of a time, a name or an expression, in characters.
const MAX_WORD_CHARS: usize = 100;
/// Maximum number of messages that are read.
pub(super) const MAX_MESSAGES: u32 = 50;
/// Stands for the name of the result in a decision.
const RESULT: &str = "result";

/// A call that the audience carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegatedCall {
    /// The key of the call among the questions of the turn. It stays the same after a restart.
    pub key: AskKey,
    /// The key of the call, unique in its turn.
    pub call: u32,
    /// The tool.
    pub tool: HostToolKind,
    /// The input.
    pub request: HostRequest,
}

/// The parsed and checked input of a [`DelegatedCall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRequest {
    /// The agent wants a turn at a later time.
    Remind(LaterTurn),
    /// The agent wants turns at the times of a cron expression.
    Schedule(RepeatedTurn),
    /// The agent ends its turn and wants to continue at a later time.
    SleepUntil(LaterTurn),
    /// The agent wants to know whom it can hand work over to.
    ListAgents,
    /// The agent hands work over.
    HandOff(HandOffRequest),
    /// The agent wants to read a channel.
    ReadChannel(ReadChannelRequest),
    /// The agent reserves or releases files.
    Claim(ClaimCall),
}

/// One turn at a later time. Exactly one of the two times is set.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LaterTurn {
    /// The time, such as `2026-03-01T09:00:00+01:00`.
    pub at: Option<String>,
    /// The time from now, such as `2h 30m`.
    #[serde(rename = "in")]
    pub after: Option<String>,
    /// The prompt of the turn, or the reason for sleeping.
    #[serde(alias = "reason")]
    pub text: String,
}

/// Turns at the times of a cron expression.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RepeatedTurn {
    /// The expression, such as `0 9 * * 1-5`.
    pub cron: String,
    /// The name of its time zone, or `None` for UTC.
    pub time_zone: Option<String>,
    /// The prompt of each turn.
    pub text: String,
    /// The number of days after which the schedule ends, or `None` for the default.
    pub days: Option<u32>,
}

/// Work for another agent, another channel, or both.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HandOffRequest {
    /// The channel, as an id or `<#id>`.
    pub channel: Option<String>,
    /// The name of the agent's backend.
    pub agent: Option<String>,
    /// The prompt.
    pub text: String,
}

/// The messages to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ReadChannelRequest {
    /// The channel, as an id or `<#id>`, or `None` for the channel of the turn.
    pub channel: Option<String>,
    /// The number of messages, or `None` for the default.
    pub messages: Option<u32>,
}

impl HostRequest {
    /// Checks the limits.
    ///
    /// # Errors
    /// Returns the limit that is violated.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let (text, words) = match self {
            Self::Claim(claim) => return claim.check(),
            Self::Remind(LaterTurn { at, after, text })
            | Self::SleepUntil(LaterTurn { at, after, text }) => {
                if at.is_some() == after.is_some() {
                    return Err("give either `at` or `in`");
                }
                (Some(text), [at.as_ref(), after.as_ref()])
            }
            Self::Schedule(RepeatedTurn { cron, time_zone, text, .. }) => {
                (Some(text), [Some(cron), time_zone.as_ref()])
            }
            Self::HandOff(HandOffRequest { channel, agent, text }) => {
                if channel.is_none() && agent.is_none() {
                    return Err("give `channel`, `agent` or both");
                }
                (Some(text), [channel.as_ref(), agent.as_ref()])
            }
            Self::ListAgents => (None, [None, None]),
            Self::ReadChannel(ReadChannelRequest { channel, messages }) => {
                if messages.is_some_and(|count| count == 0 || count > MAX_MESSAGES) {
                    return Err("`messages` is a number from 1 to 50");
                }
                (None, [channel.as_ref(), None])
            }
        };
        if text.is_some_and(|text| text.trim().is_empty()) {
            Err("`text` is empty")
        } else if text.is_some_and(|text| text.chars().count() > MAX_TEXT_CHARS) {
            Err("`text` has more than 4000 characters")
        } else if words.iter().flatten().any(|word| word.chars().count() > MAX_WORD_CHARS) {
            Err("a value has more than 100 characters")
        } else {
            Ok(())
        }
    }
}

/// Returns the decision that carries the result of a [`DelegatedCall`] to its link.
#[must_use]
pub fn call_done(text: String) -> AskDecision {
    AskDecision::Answers(vec![(RESULT.to_owned(), vec![text])])
}

/// Returns the decision for a [`DelegatedCall`] that failed.
#[must_use]
pub fn call_failed(reason: String) -> AskDecision {
    AskDecision::Deny(Some(reason))
}

/// Returns the result for the model, and whether the call failed.
pub(crate) fn delegated_result(decision: &AskDecision) -> (String, bool) {
    match decision {
        AskDecision::Answers(answers) => {
            let values: Vec<&str> =
                answers.iter().flat_map(|(_, values)| values).map(String::as_str).collect();
            (values.join("\n"), false)
        }
        AskDecision::Deny(Some(reason)) => (reason.clone(), true),
        _ => (
            "the call was not carried out, because nobody allowed it in time; continue without it, or say in your answer what you need"
                .to_owned(),
            true,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_reaches_the_link_unchanged() {
        let text = || "done\nwell".to_owned();
        assert_eq!(delegated_result(&call_done(text())), (text(), false));
        assert_eq!(delegated_result(&call_failed(text())), (text(), true));
        assert!(delegated_result(&AskDecision::Dismissed).1);
    }
}
