//! The stage after the agent has ended: how the turn goes on.

use super::EventTurn;
use crate::outlet::TurnAnswer;
use crate::part::{Outcome, TurnContext};
use crate::recovery::restart_action::RestartAction;
use aetheel_turn::StopReason;

impl EventTurn {
    /// Decides how a turn goes on: its answer is delivered, or its event runs again now, later or
    /// after people were asked.
    pub(super) async fn conclude(&mut self, answer: TurnAnswer) -> Outcome {
        let turn = self.turn.clone();
        let (now, reason) = (turn.now(), turn.stopped());
        let answer = answer.cleaned(&turn.shared.deps.redactor);
        let mut answer =
            answer.with_line(&turn.event, now, &turn.id, &turn.subject, reason.is_some());
        let has_failed = answer.failure.is_some();
        if has_failed
            && reason == Some(StopReason::Shutdown)
            && let Some(next) = turn.progress.leave_to_next_start()
        {
            return Outcome::LeaveToNextStart(answer, next);
        }
        if has_failed && answer.agent_lost && reason.is_none() {
            match action_after_loss(&turn) {
                Some(RestartAction::Run) => {
                    tracing::warn!("the agent was lost; the turn runs again");
                    return Outcome::Rerun(answer);
                }
                Some(RestartAction::AskPeople) => return Outcome::AskPeople(answer),
                Some(RestartAction::Finish | RestartAction::Resume) | None => {}
            }
        }
        for part in &mut self.parts {
            if let Some(outcome) = part.conclude(&mut answer).await {
                return outcome;
            }
        }
        Outcome::Deliver(answer)
    }
}

/// Returns how an event continues whose agent was lost because the holder (the process that runs
/// agents) has ended. The rules are those after a crash of the gateway. Returns `None` if the event
/// is not in the journal; it has then failed.
fn action_after_loss(turn: &TurnContext) -> Option<RestartAction> {
    let (_, entry) = turn.shared.durability.journal_entry(&turn.event)?;
    Some(RestartAction::of(Some(&entry)))
}
