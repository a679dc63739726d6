//! Lanes wait at the cap of a budget, and turns that a cap stopped continue afterwards.
//!
//! If people saw nothing of a stopped turn, its event waits in the paused lane and runs again.
//! Otherwise the partial answer is delivered, and a new event continues the conversation once the
//! cap was raised or its period has ended ([`Continuation`]).
//!
//! The journal gets the reason before the agent is interrupted. So a turn whose agent outlives the
//! gateway between the two counts as stopped by the budget in the next process, too. The sums and the
//! notices are in [`budgets`].

use std::sync::Arc;

use async_trait::async_trait;

use crate::budgets::{self, CountedTurn, messages, offers};
use crate::outlet::TurnAnswer;
use crate::part::{
    Gate, Gateway, ListedWait, NextTurn, Outcome, PartOfTurn, TurnContext, TurnPart, Wait,
    WaitDecider,
};
use crate::persistence::NextStart;
use crate::run::continuation::{Continuation, may_continue};
use aetheel_model::agent::AgentEventKind;
use aetheel_model::event::{Event, EventKind};
use aetheel_model::fold::Transcript;
use aetheel_model::queue::LaneHold;
use aetheel_store::workspace::TurnLine;
use aetheel_turn::{NewsKind, StopReason, TurnNews};

/// Lanes wait at the cap of a budget, and turns stop there.
pub struct BudgetCaps;

struct CapsOfTurn {
    turn: Arc<TurnContext>,
    /// Counts the turn as running.
    counted: Option<CountedTurn>,
}

#[async_trait]
impl TurnPart for BudgetCaps {
    fn name(&self) -> &'static str {
        budgets::PART
    }

    async fn wait(&self, Gateway { shared }: Gateway<'_>, next: NextTurn<'_>) -> Option<Wait> {
        let subject = match next.event {
            Some(event) => budgets::subject_of(shared, event).await,
            None => budgets::lane_subject(shared, next.lane).await,
        };
        let (used, is_personal) = shared.budgets.reached(&subject).await?;
        let asker = next.event.and_then(|event| event.asker).filter(|_| is_personal);
        let continues = next.event.is_some_and(Continuation::is_after_budget);
        Some(Wait {
            part: self.name(),
            hold: asker.map_or(LaneHold::Everybody, LaneHold::Person),
            key: offers::mark(&used),
            summary: messages::reason(&used),
            log_line: "event waits: a budget is used up",
            notice: Some(messages::waits(&used, continues)),
            status: Some(messages::status(&used)),
            offers: offers::buttons(&used, next.event.map(|event| event.sequence)),
            listed: Some(ListedWait {
                reason: messages::reached(&used),
                decider: WaitDecider::Owners,
            }),
            until: Some(used.span.end),
        })
    }

    fn join(&self, turn: &Arc<TurnContext>) -> Option<Box<dyn PartOfTurn>> {
        Some(Box::new(CapsOfTurn { turn: Arc::clone(turn), counted: None }))
    }

    fn turn_ended(&self, Gateway { shared }: Gateway<'_>, line: &TurnLine, _by_earlier: bool) {
        shared.budgets.finish(line);
    }
}

#[async_trait]
impl PartOfTurn for CapsOfTurn {
    async fn admit(&mut self) -> Gate {
        let TurnContext { id, subject, shared, .. } = &*self.turn;
        self.counted = match self.turn.is_resumed {
            true => Some(shared.budgets.resume(id, subject).await),
            false => shared.budgets.admit(id, subject).await,
        };
        if self.counted.is_some() { Gate::Open } else { Gate::Wait }
    }

    fn on(&mut self, news: &TurnNews, _transcript: &Transcript) {
        if let NewsKind::Event(AgentEventKind::Usage(usage)) = &news.kind {
            self.turn.shared.budgets.on_usage(&self.turn.id, usage);
        }
    }

    async fn conclude(&mut self, answer: &mut TurnAnswer) -> Option<Outcome> {
        // An agent may reach a limit while it is stopped because of a budget. It has then ended by
        // itself, and its turn continues after the limit.
        if answer.failure.is_none() || answer.limit.is_some() || !self.is_cut_off(answer) {
            return None;
        }
        let TurnContext { event, id, progress, shared, subject, .. } = &*self.turn;
        let cut = answer.cut.take().unwrap_or_default();
        let is_message = event.kind == EventKind::Message;
        if is_message
            && !cut.is_visible
            && progress.leave_to_next_start() != Some(NextStart::AskPeople)
        {
            return Some(Outcome::Wait(Some(std::mem::take(answer))));
        }
        let continues = is_message && cut.is_resumable && may_continue(shared);
        answer.continuation = continues.then(|| Continuation::AfterBudget(id.clone()).key());
        // An owner may have raised the cap already.
        answer.failure = Some(match shared.budgets.reached(subject).await {
            Some((used, _)) if continues => messages::continues(&used),
            Some((used, _)) => messages::ends(&used),
            None if continues => {
                "A budget was used up. I continue by myself now. (budget)".to_owned()
            }
            None => "A budget was used up, so the turn was stopped. (budget)".to_owned(),
        });
        None
    }
}

impl CapsOfTurn {
    /// Returns whether a budget stopped the turn with this answer.
    fn is_cut_off(&self, answer: &TurnAnswer) -> bool {
        match self.turn.stopped() {
            None => self.turn.progress.was_cut_off() && answer.cut.is_some(),
            Some(reason) => reason == StopReason::Budget,
        }
    }
}

impl Continuation {
    fn is_after_budget(event: &Event) -> bool {
        matches!(Self::of(event), Some(Self::AfterBudget(_)))
    }
}
