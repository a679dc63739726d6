//! Features that take part in turns.
//!
//! A [`TurnPart`] is one feature, such as budgets or hooks. The program lists all parts once, in
//! [`Dispatcher::new`](crate::Dispatcher::new), in the order in which they are asked. A
//! part that joins a turn returns a [`PartOfTurn`], which has the state of that part in that turn.
//! The stages of a turn ([`run`](super::run)) call each method for all parts. So a part can be
//! removed alone: the turns continue without its feature.
//!
//! Each method has a default that does nothing. `CONTRIBUTING.md` has an example.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;

use super::Shared;
use super::agent_run::{BegunRun, EndedRun, RunName};
use super::delegated::CallContext;
use super::outlet::{Offer, TurnAnswer};
use super::persistence::{EventProgress, NextStart};
use super::plan::TurnPlan;
use super::turn_feed::TurnFeed;
use aetheel_model::agent::Ask;
use aetheel_model::budget::BudgetSubject;
use aetheel_model::event::{Event, Lane};
use aetheel_model::fold::Transcript;
use aetheel_model::queue::LaneHold;
use aetheel_store::workspace::TurnLine;
use aetheel_turn::{Answerer, ContinuedTurn, DelegatedCall, Judgement, StopReason, TurnNews};

/// A feature that takes part in turns.
#[async_trait]
pub trait TurnPart: Send + Sync {
    /// Returns the name of the part, which is unique in the list.
    fn name(&self) -> &'static str;

    /// Returns why the next turn of a lane cannot begin now, or `None` if it can. The lane waits
    /// until this returns `None`, and is asked again when something changes.
    async fn wait(&self, gateway: Gateway<'_>, next: NextTurn<'_>) -> Option<Wait> {
        let _ = (gateway, next);
        None
    }

    /// Joins a turn that may begin, or that a previous process began. Returns `None` if the part
    /// does nothing in this turn.
    fn join(&self, turn: &Arc<TurnContext>) -> Option<Box<dyn PartOfTurn>> {
        let _ = turn;
        None
    }

    /// Returns the observers of a turn, or `None` if this part has no observers.
    fn feed(&self, gateway: Gateway<'_>, turn: RunName<'_>) -> Option<TurnFeed> {
        let _ = (gateway, turn);
        None
    }

    /// Called when an agent begins a turn, also the turn of a hook.
    fn agent_begins(&self, gateway: Gateway<'_>, run: &BegunRun<'_>) {
        let _ = (gateway, run);
    }

    /// Called when an agent has ended a turn, also the turn of a hook.
    fn agent_ended(&self, gateway: Gateway<'_>, run: &EndedRun<'_>) {
        let _ = (gateway, run);
    }

    /// Called with the line of a turn that has ended. `by_earlier` states whether a previous process
    /// ended it, which may have called this too.
    fn turn_ended(&self, gateway: Gateway<'_>, line: &TurnLine, by_earlier: bool) {
        let _ = (gateway, line, by_earlier);
    }
}

/// One part in one turn. The methods are called in the order in which they are declared.
#[async_trait]
pub trait PartOfTurn: Send + Sync {
    /// Returns whether the turn may begin now. Called for a resumed turn too, which begins in any
    /// case.
    async fn admit(&mut self) -> Gate {
        Gate::Open
    }

    /// Called before the turn is prepared, once its start is saved.
    async fn before(&mut self) {}

    /// Changes a new turn before its agent begins.
    ///
    /// # Errors
    /// [`TurnRefusal`] if nothing may run. The turn ends with this failure.
    async fn prepare(&mut self, plan: &mut TurnPlan) -> Result<(), TurnRefusal> {
        let _ = plan;
        Ok(())
    }

    /// Returns why a turn of a previous process may not continue, in a few words for people.
    fn resume_refusal(&self, turn: &ContinuedTurn) -> Option<&'static str> {
        let _ = turn;
        None
    }

    /// Called when the agent begins the turn or continues it.
    async fn begin(&mut self, plan: &TurnPlan, feed: &TurnFeed) {
        let _ = (plan, feed);
    }

    /// Called for everything that happens in the turn, before people see it. After a restart of the
    /// gateway, it is called again for everything that happened before.
    fn on(&mut self, news: &TurnNews, transcript: &Transcript) {
        let _ = (news, transcript);
    }

    /// Returns whether the operator's settings exclude a request of the agent.
    fn excludes(&self, ask: &Ask) -> bool {
        let _ = ask;
        false
    }

    /// Returns the refusal of a request that the operator's settings exclude. Called once for each
    /// such request, and again after a restart.
    fn refuse(&mut self, ask: &Ask) -> Option<Refusal> {
        let _ = ask;
        None
    }

    /// Begins to decide about a request in place of people. `earlier` is the decision of the parts
    /// before this one. Returns it, or a decision that replaces it.
    fn judge(&mut self, ask: &Ask, earlier: Option<Judgement>) -> Option<Judgement> {
        let _ = ask;
        earlier
    }

    /// Returns whether people are asked before a call of a host tool is carried out.
    fn asks_people(&self, call: &DelegatedCall) -> bool {
        let _ = call;
        false
    }

    /// Carries out a call of a host tool, or returns `answer` for the next part.
    fn delegate(
        &mut self,
        call: &DelegatedCall,
        answer: Answerer,
        context: &CallContext<'_>,
    ) -> Option<Answerer> {
        let _ = (call, context);
        Some(answer)
    }

    /// Adds lines below the answer. Called when the agent has ended.
    fn notices(&mut self, notices: &mut Vec<String>) {
        let _ = notices;
    }

    /// Decides how a turn continues that has an answer or failed. Returns `None` if this part does
    /// not decide that. The first part that decides is the last that is asked.
    async fn conclude(&mut self, answer: &mut TurnAnswer) -> Option<Outcome> {
        let _ = answer;
        None
    }

    /// Returns whether the lane can still be stopped while the answer is delivered, because
    /// [`PartOfTurn::delivered`] runs afterwards.
    fn acts_after_delivery(&self) -> bool {
        false
    }

    /// Called when people have the answer. The lane is occupied until this returns.
    async fn delivered(&mut self, failed: bool) {
        let _ = failed;
    }
}

/// Access of a part to the gateway.
#[derive(Clone, Copy)]
pub struct Gateway<'a> {
    pub(crate) shared: &'a Arc<Shared>,
}

impl Gateway<'_> {
    /// Returns why the next turn of a lane cannot begin now, according to the first part that says so.
    pub(crate) async fn wait(self, next: NextTurn<'_>) -> Option<Wait> {
        for part in &self.shared.parts {
            if let Some(wait) = part.wait(self, next).await {
                return Some(wait);
            }
        }
        None
    }

    /// Returns the observers of a turn.
    pub(crate) fn feed(self, turn: RunName<'_>) -> TurnFeed {
        let feed = self.shared.parts.iter().find_map(|part| part.feed(self, turn));
        feed.unwrap_or_else(|| TurnFeed::silent(&self.shared.deps, turn))
    }

    /// Calls [`TurnPart::agent_begins`] of all parts.
    pub(crate) fn agent_begins(self, run: &BegunRun<'_>) {
        self.shared.parts.iter().for_each(|part| part.agent_begins(self, run));
    }

    /// Calls [`TurnPart::agent_ended`] of all parts.
    pub(crate) fn agent_ended(self, run: &EndedRun<'_>) {
        self.shared.parts.iter().for_each(|part| part.agent_ended(self, run));
    }

    /// Calls [`TurnPart::turn_ended`] of all parts.
    pub(crate) fn turn_ended(self, line: &TurnLine, by_earlier: bool) {
        self.shared.parts.iter().for_each(|part| part.turn_ended(self, line, by_earlier));
    }
}

/// The next turn of a lane.
#[derive(Clone, Copy)]
pub struct NextTurn<'a> {
    /// The lane.
    pub lane: &'a Lane,
    /// The event of the turn, or `None` if nothing waits in the lane.
    pub event: Option<&'a Event>,
}

/// The facts about the turn of an event. They do not change while the turn runs.
pub struct TurnContext {
    /// The event.
    pub event: Event,
    /// The correlation id, the same after a restart.
    pub id: String,
    /// Whether a previous process began the turn, and its agent still runs.
    pub is_resumed: bool,
    /// The properties by which budgets select the turn.
    pub(crate) subject: BudgetSubject,
    /// Why the turn is stopped, if it is.
    pub(crate) stop: watch::Receiver<Option<StopReason>>,
    /// The saved progress of the event.
    pub(crate) progress: EventProgress,
    pub(crate) shared: Arc<Shared>,
}

impl TurnContext {
    /// Returns the time of the gateway's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.now()
    }

    /// Returns why the turn is stopped, or `None` if it is not.
    pub(crate) fn stopped(&self) -> Option<StopReason> {
        *self.stop.borrow()
    }

    /// Returns whether the turn may begin, according to [`TurnPart::wait`] of a part.
    pub(crate) async fn gate(&self, part: &impl TurnPart) -> Gate {
        let next = NextTurn { lane: &self.event.lane, event: Some(&self.event) };
        let gateway = Gateway { shared: &self.shared };
        match self.is_resumed || part.wait(gateway, next).await.is_none() {
            true => Gate::Open,
            false => Gate::Wait,
        }
    }
}

/// Whether a turn may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The turn may begin.
    Open,
    /// The event waits, as [`TurnPart::wait`] describes.
    Wait,
}

/// The reason why nothing may run, worded for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TurnRefusal(pub String);

/// The refusal of a request that the operator's settings exclude.
pub struct Refusal {
    /// The setting, for the audit log.
    pub by: &'static str,
    /// The reason that the agent receives.
    pub reason: String,
}

/// The reason why no turn can begin in a lane now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The name of the part that lets the lane wait.
    pub part: &'static str,
    /// The events of the lane that cannot start.
    pub hold: LaneHold,
    /// Differs between reasons. People get one notice for each.
    pub key: String,
    /// The reason in a few words, for lists of events.
    pub summary: String,
    /// The line of the log about an event that waits.
    pub log_line: &'static str,
    /// The message for the author of the event, or `None` if nobody is notified.
    pub notice: Option<String>,
    /// The line of `/status`.
    pub status: Option<String>,
    /// The buttons below the notice.
    pub offers: Vec<Offer>,
    /// The wait as pages list it, or `None` if they do not.
    pub listed: Option<ListedWait>,
    /// When the wait ends by itself, if that is known.
    pub until: Option<Timestamp>,
}

/// A wait as pages list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedWait {
    /// The reason: one sentence.
    pub reason: String,
    /// The people who may use the buttons.
    pub decider: WaitDecider,
}

/// The people who may decide about a lane that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitDecider {
    /// Everybody who may use the bot in the lane.
    Everybody,
    /// Owners of the bot.
    Owners,
}

/// How the turn of an event goes on when its stages have run.
pub enum Outcome {
    /// Nothing remains to be done.
    Finished,
    /// The answer is saved and delivered.
    Deliver(TurnAnswer),
    /// The answer, which is saved already, is delivered.
    DeliverSaved(TurnAnswer),
    /// The event waits again in its lane, which is paused. Contains the answer of a turn that ran.
    Wait(Option<TurnAnswer>),
    /// The event runs again.
    Rerun(TurnAnswer),
    /// People are asked whether the event runs again.
    AskPeople(TurnAnswer),
    /// The next start continues the event.
    LeaveToNextStart(TurnAnswer, NextStart),
    /// The gateway has a bug.
    Panicked,
}
