//! The inputs of a turn, and the effects that they have.

use std::sync::Arc;
use std::time::Duration;

use super::Steering;
use crate::link::{LinkReport, LinkRequest};
use crate::tools::DelegatedCall;
use crate::{PolicyVerdict, StopReason, TurnNews};
use aetheel_model::agent::{Ask, AskDecision, AskKey};

/// Something that happened to a turn.
#[expect(clippy::large_enum_variant, reason = "an input is passed on at once and never stored")]
pub(super) enum TurnInput {
    /// The link reports something, or is gone (`None`).
    Report(Option<LinkReport>),
    /// Policies decided about a question, or leave it to people (`None`).
    Ruling(AskedQuestion, Option<PolicyVerdict>),
    /// People decided about a question, or a call has its result.
    Decision(AskKey, AskDecision),
    /// People wrote to the agent.
    Steering(Steering),
    /// The turn must stop.
    Stop(StopReason),
    /// The time of `TurnMachine::deadline` has come.
    Deadline,
}

/// Something that the driver does for a turn.
pub(super) enum TurnEffect {
    /// Passes news to the audience.
    Show(TurnNews),
    /// Lets policies decide about a question. The next input about it is [`TurnInput::Ruling`].
    Judge(AskedQuestion),
    /// Asks people.
    Ask(AskedQuestion),
    /// Lets the audience carry out a call.
    Delegate(DelegatedCall),
    /// Sends a request to the link.
    Request(LinkRequest),
    /// Stores the agent's id of the session.
    SetNativeId(String),
    /// Counts the time until the first text of the answer.
    CountFirstText(Duration),
}

/// A question of the agent. Cheap to clone.
#[derive(Clone)]
pub(super) struct AskedQuestion {
    pub(super) ask: Arc<Ask>,
    /// How often the agent has used the key of the question.
    pub(super) time: u32,
}
