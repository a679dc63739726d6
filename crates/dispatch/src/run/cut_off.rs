//! Turns that a budget stopped.
//!
//! If people saw nothing of the turn, its event waits in the paused lane and runs again. Otherwise
//! the partial answer is delivered, and a new event continues the conversation once the cap was
//! raised or its period has ended ([`continuation`](super::continuation)).
//!
//! The journal gets the reason before the agent is interrupted. So a turn whose agent outlives the
//! gateway between the two counts as stopped by the budget in the next process, too.

use super::TurnRunner;
use super::continuation::may_continue;
use crate::budgets::{CONTINUATION, messages};
use crate::outlet::TurnAnswer;
use crate::persistence::{EventProgress, NextStart};
use aetheel_model::budget::BudgetSubject;
use aetheel_model::event::{Event, EventKind};
use aetheel_turn::StopReason;

/// Returns whether a budget stopped the turn with this answer. `stop` is the reason for which this
/// process stopped it.
pub(super) fn is_cut_off(
    stop: Option<StopReason>,
    answer: &TurnAnswer,
    kept: &EventProgress,
) -> bool {
    match stop {
        None => kept.was_cut_off() && answer.cut.is_some(),
        Some(reason) => reason == StopReason::Budget,
    }
}

/// Lets the lane of a turn that a budget stopped wait. Returns whether the event itself waits, so
/// that there is no answer yet.
pub(super) async fn wait_for_budget(
    runner: &TurnRunner,
    event: &Event,
    turn: &str,
    subject: &BudgetSubject,
    answer: &mut TurnAnswer,
    kept: &EventProgress,
) -> bool {
    if answer.failure.is_none() {
        return false;
    }
    let cut = answer.cut.take().unwrap_or_default();
    if event.kind == EventKind::Message
        && !cut.is_visible
        && kept.leave_to_next_start() != Some(NextStart::AskPeople)
    {
        return true;
    }
    let continues =
        event.kind == EventKind::Message && cut.is_resumable && may_continue(&runner.shared);
    answer.continuation = continues.then(|| format!("{CONTINUATION}{turn}"));
    // An owner may have raised the cap already.
    answer.failure = Some(match runner.shared.budgets.reached(subject).await {
        Some((used, _)) if continues => messages::continues(&used),
        Some((used, _)) => messages::ends(&used),
        None if continues => "A budget was used up. I continue by myself now. (budget)".to_owned(),
        None => "A budget was used up, so the turn was stopped. (budget)".to_owned(),
    });
    false
}
