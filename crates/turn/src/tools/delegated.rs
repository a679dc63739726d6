//! The calls that the audience of a turn carries out, because their effect goes beyond the turn, and
//! the form of their results.

use super::{
    ClaimCall, HandOffRequest, LaterTurn, ListAgents, ReadChannelRequest, RepeatedTurn, SleepUntil,
};
use aetheel_model::agent::{AskDecision, AskKey};
use aetheel_model::host_tool::HostToolKind;

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
    SleepUntil(SleepUntil),
    /// The agent wants to know whom it can hand work over to.
    ListAgents(ListAgents),
    /// The agent hands work over.
    HandOff(HandOffRequest),
    /// The agent wants to read a channel.
    ReadChannel(ReadChannelRequest),
    /// The agent reserves or releases files.
    Claim(ClaimCall),
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
