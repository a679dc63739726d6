//! The questions of a turn: those that policies decide about, and the decisions of people.

use std::collections::HashMap;
use std::future::pending;

use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};
use tracing::Instrument as _;

use super::effects::{AskedQuestion, TurnInput};
use crate::{Answerer, Judgement, PolicyVerdict};
use aetheel_model::agent::{AskDecision, AskKey};

/// The running decisions of policies. Dropping it ends them.
pub(super) struct Judging {
    /// Sends decisions of people to the driver. Cloned for each question.
    decide: mpsc::UnboundedSender<(AskKey, AskDecision)>,
    running: JoinSet<Option<PolicyVerdict>>,
    questions: HashMap<Id, AskedQuestion>,
}

impl Judging {
    pub(super) fn new(decide: mpsc::UnboundedSender<(AskKey, AskDecision)>) -> Self {
        Self { decide, running: JoinSet::new(), questions: HashMap::new() }
    }

    /// Returns an answerer for a question, whose decision the driver gets.
    pub(super) fn answerer(&self, ask: AskKey) -> Answerer {
        Answerer::new(ask, self.decide.clone())
    }

    /// Begins to decide about a question.
    pub(super) fn begin(&mut self, question: AskedQuestion, judgement: Judgement) {
        let id = self.running.spawn(judgement.in_current_span()).id();
        self.questions.insert(id, question);
    }

    /// Waits for the next decision. The decision is `None` if people decide, or if it failed by a
    /// panic. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> TurnInput {
        loop {
            let (id, verdict) = match self.running.join_next_with_id().await {
                Some(Ok(ended)) => ended,
                Some(Err(error)) => (error.id(), None),
                None => pending().await,
            };
            if let Some(question) = self.questions.remove(&id) {
                return TurnInput::Ruling(question, verdict);
            }
        }
    }
}
