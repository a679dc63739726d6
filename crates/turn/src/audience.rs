//! The port through which a turn is followed and its questions are answered.

use std::future::Future;
use std::pin::Pin;

use tokio::sync::mpsc;

use aetheel_model::agent::{Ask, AskKey, Decision, EventKind};
use aetheel_model::fold::Transcript;

/// A follower of a turn. Called in order; must return at once.
pub trait Audience: Send {
    /// The agent did something.
    fn event(&mut self, event: &EventKind, transcript: &Transcript);

    /// The agent did something in an earlier life of the gateway, where it may have been shown
    /// already.
    fn relive(&mut self, event: &EventKind, transcript: &Transcript) {
        self.event(event, transcript);
    }

    /// In an earlier life of the gateway, at this point, people were asked this, or wrote to the
    /// agent (none).
    fn interrupted_before(&mut self, ask: Option<&Ask>) {
        let _ = ask;
    }

    /// The agent asked this in an earlier life of the gateway, and was answered.
    fn answered_before(&mut self, ask: &Ask, decision: &Decision) {
        let _ = (ask, decision);
    }

    /// The agent asks people. The turn's clock stands still until the answer; dropping `answer`
    /// unused dismisses the question.
    fn ask(&mut self, ask: &Ask, answer: Answerer);

    /// The agent asked this in an earlier life of the gateway ([`Audience::interrupted_before`]), and
    /// it is still open.
    fn ask_again(&mut self, ask: &Ask, answer: Answerer) {
        self.ask(ask, answer);
    }

    /// A question is over without a decision of people.
    fn settled(&mut self, ask: AskKey, how: Settled);

    /// Waits until something is on disk, before anything more of the turn is shown or decided. Returns
    /// `None` if nothing has to be. Not called once the turn is stopped; may be dropped and called
    /// again.
    fn before_more(&mut self) -> Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> {
        None
    }
}

/// Why a question is over without a decision of people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The agent no longer wants to know.
    Withdrawn,
    /// `ASK_TIMEOUT_MS` is over; the agent was told that nobody answered.
    Expired,
    /// Its turn is over.
    TurnEnded,
}

/// Takes the decision about one question.
#[derive(Debug)]
pub struct Answerer {
    ask: AskKey,
    decisions: Option<mpsc::UnboundedSender<(AskKey, Decision)>>,
}

impl Answerer {
    pub(super) fn new(ask: AskKey, decisions: mpsc::UnboundedSender<(AskKey, Decision)>) -> Self {
        Self { ask, decisions: Some(decisions) }
    }

    /// Decides. Returns false when the turn is over already.
    pub fn decide(mut self, decision: Decision) -> bool {
        self.decisions.take().is_some_and(|decisions| decisions.send((self.ask, decision)).is_ok())
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        if let Some(decisions) = self.decisions.take() {
            // An error means that the turn is over: there is nobody to tell.
            let _ = decisions.send((self.ask, Decision::Dismissed));
        }
    }
}
