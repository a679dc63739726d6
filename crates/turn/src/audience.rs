//! The port through which others follow a turn and answer its questions.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::tools::DelegatedCall;
use aetheel_model::agent::{AgentEventKind, Ask, AskDecision, AskKey};
use aetheel_model::fold::Transcript;
use aetheel_model::policy::PolicyRuling;

/// A running decision about a question. Resolves to `None` if no policy has decided.
pub type Judgement = Pin<Box<dyn Future<Output = Option<PolicyVerdict>> + Send>>;

/// A follower of a turn. Its methods are called in order and must return at once.
pub trait Audience: Send {
    /// Called for everything that people may see. After a restart of the gateway, it is called again
    /// for everything that happened before ([`TurnNews::replayed`]).
    ///
    /// `transcript` is the turn so far, with the news.
    fn on(&mut self, news: &TurnNews, transcript: &Transcript);

    /// Called when the agent asks, before people are asked. Returns the decision of policies, or
    /// `None` if no policy decides about the question. The turn continues in the meantime. After a
    /// restart of the gateway, it is called again for the questions that are still open.
    fn judge(&mut self, ask: &Ask) -> Option<Judgement> {
        let _ = ask;
        None
    }

    /// Called when the agent asks people. `time` is how often the agent has used the key of the
    /// question in this turn, from 1. The turn's time limits are paused until the answer. Dropping
    /// `answer` unused dismisses the question. After a restart of the gateway, it is called again
    /// for the questions that are still open.
    fn ask(&mut self, ask: &Ask, time: u32, answer: Answerer);

    /// Called for each call of a host tool whose effect goes beyond the turn. The result is
    /// [`call_done`](super::call_done) or [`call_failed`](super::call_failed), and may depend on
    /// people. Dropping `answer` unused fails the call. After a restart of the gateway, it is called
    /// again for the calls without a recorded result: each call must have its effect once.
    fn delegate(&mut self, call: &DelegatedCall, answer: Answerer) {
        let _ = (call, answer);
    }

    /// Returns a future that completes when everything shown so far is on disk, or `None` if there
    /// is nothing to wait for. The driver shows and decides nothing more before that. It does not
    /// call this method for a stopped turn, and may drop the future and call the method again.
    fn until_durable(&mut self) -> Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> {
        None
    }
}

/// Something that happened in a turn.
#[derive(Debug)]
pub struct TurnNews {
    /// The kind, with its contents.
    pub kind: NewsKind,
    /// Whether it happened before a restart of the gateway, so that people may have seen it.
    pub replayed: bool,
    /// The time of the last replayed event, in milliseconds since 1970, if it is known.
    pub at_ms: Option<i64>,
}

/// The kinds of [`TurnNews`].
#[derive(Debug)]
pub enum NewsKind {
    /// The agent did something.
    Event(AgentEventKind),
    /// People were asked, which interrupted the answer. Always replayed: new questions are
    /// [`Audience::ask`].
    Asked(Arc<Ask>),
    /// The agent called a host tool. Always replayed: new calls are [`Audience::delegate`].
    Called(DelegatedCall),
    /// A message of people to the agent interrupted the answer. Always replayed.
    Steered,
    /// Policies decided about a question, or leave it to people.
    Ruled(Arc<Ask>, PolicyRuling),
    /// A question was answered. The agent gets the answer after this call.
    Answered(Arc<Ask>, AskDecision),
    /// A question or a call was closed without a decision of people.
    Settled(AskKey, AskCloseReason),
}

/// The decision of policies about a question.
#[derive(Debug)]
pub struct PolicyVerdict {
    /// The decision.
    pub ruling: PolicyRuling,
    /// The answer for the agent, or `None` if people are asked.
    pub answer: Option<AskDecision>,
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
