//! The port through which others follow a turn and answer its questions.

use std::future::Future;
use std::pin::Pin;

use tokio::sync::mpsc;

use super::tools::DelegatedCall;
use aetheel_model::agent::{AgentEventKind, Ask, AskDecision, AskKey};
use aetheel_model::fold::Transcript;
use aetheel_model::policy::PolicyRuling;

/// A running decision about a question. Resolves to `None` if only people decide.
pub type Judgement = Pin<Box<dyn Future<Output = Option<PolicyRuling>> + Send>>;

/// A follower of a turn. Its methods are called in order and must return at once.
pub trait Audience: Send {
    /// Called for each event of the agent, with the transcript that includes the event.
    fn event(&mut self, event: &AgentEventKind, transcript: &Transcript);

    /// Called for each event from before a restart of the gateway, with its time in milliseconds
    /// since 1970 if that is known. People may have seen it already.
    fn replay_event(
        &mut self,
        event: &AgentEventKind,
        transcript: &Transcript,
        at_ms: Option<i64>,
    ) {
        let _ = at_ms;
        self.event(event, transcript);
    }

    /// Called at the points before a restart at which the answer was interrupted: by the question
    /// `ask`, or by a message of people to the agent (`None`).
    fn past_interruption(&mut self, ask: Option<&Ask>) {
        let _ = ask;
    }

    /// Called for each question from before a restart that nobody saw, because policies decided
    /// about it. [`Audience::past_interruption`] is not called for it.
    fn past_ruling(&mut self, ask: &Ask, ruling: &PolicyRuling) {
        let _ = (ask, ruling);
    }

    /// Called for each question that was answered before a restart of the gateway.
    fn past_answer(&mut self, ask: &Ask, decision: &AskDecision) {
        let _ = (ask, decision);
    }

    /// Called when the agent asks, before people are asked. Returns the decision of policies, or
    /// `None` if no policy decides about the question. The turn continues in the meantime.
    fn judge(&mut self, ask: &Ask) -> Option<Judgement> {
        let _ = ask;
        None
    }

    /// Called when policies have decided about a question. Returns the answer for the agent, or
    /// `None` if people are asked. `is_repeated` is whether the agent asked before a restart.
    fn ruled(
        &mut self,
        ask: &Ask,
        ruling: &PolicyRuling,
        is_repeated: bool,
    ) -> Option<AskDecision> {
        let _ = (ask, ruling, is_repeated);
        None
    }

    /// Called when the agent asks people. The turn's time limits are paused until the answer.
    /// Dropping `answer` unused dismisses the question.
    fn ask(&mut self, ask: &Ask, answer: Answerer);

    /// Called for each question from before a restart ([`Audience::past_interruption`]) that is
    /// still open.
    fn ask_again(&mut self, ask: &Ask, answer: Answerer) {
        self.ask(ask, answer);
    }

    /// Called for each call of a host tool whose effect goes beyond the turn. The result is
    /// [`call_done`](super::call_done) or [`call_failed`](super::call_failed), and may depend on
    /// people. Dropping `answer` unused fails the call. After a restart of the gateway, it is called
    /// again for the calls without a recorded result: each call must have its effect once.
    fn delegate(&mut self, call: &DelegatedCall, answer: Answerer) {
        let _ = (call, answer);
    }

    /// Called for each call from before a restart of the gateway, at its point in the turn.
    fn past_call(&mut self, call: &DelegatedCall) {
        let _ = call;
    }

    /// Called when a question is closed without a decision of people.
    fn settled(&mut self, ask: AskKey, how: AskCloseReason);

    /// Returns a future that completes when everything shown so far is on disk, or `None` if there
    /// is nothing to wait for. The driver shows and decides nothing more before that. It does not
    /// call this method for a stopped turn, and may drop the future and call the method again.
    fn until_durable(&mut self) -> Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> {
        None
    }
}

/// The reason why a question was closed without a decision of people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskCloseReason {
    /// The agent no longer needs the answer.
    Withdrawn,
    /// `ASK_TIMEOUT_MS` elapsed, and the agent got [`AskDecision::Dismissed`].
    Expired,
    /// The turn of the question ended.
    TurnEnded,
}

/// Sends the decision about one question to the driver of its turn. Dropping it unused dismisses
/// the question.
#[derive(Debug)]
pub struct Answerer {
    ask: AskKey,
    decisions: Option<mpsc::UnboundedSender<(AskKey, AskDecision)>>,
}

impl Answerer {
    /// Creates an answerer that sends its decision to `decisions`.
    #[must_use]
    pub fn new(ask: AskKey, decisions: mpsc::UnboundedSender<(AskKey, AskDecision)>) -> Self {
        Self { ask, decisions: Some(decisions) }
    }

    /// Sends the decision. Returns false if the turn is already over.
    pub fn decide(mut self, decision: AskDecision) -> bool {
        self.decisions.take().is_some_and(|decisions| decisions.send((self.ask, decision)).is_ok())
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        if let Some(decisions) = self.decisions.take() {
            // An error means that the turn is over, so nothing waits for the decision.
            let _ = decisions.send((self.ask, AskDecision::Dismissed));
        }
    }
}
