//! A turn with an agent that lives on: from the wish for it to what its results come to.

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::TurnResult;
use aetheel_backend_sdk::text::one_line;
use aetheel_backend_sdk::wit::{Outcome, StartTurn, TurnDone, TurnRef};

/// Bytes of the notice about a result that others follow.
const NOTICE: usize = 200;

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) at: TurnRef,
    /// What the agent was not told yet.
    pub(super) prompt: Option<Box<StartTurn>>,
    pub(super) interrupted: bool,
    /// Nobody asked for it but the agent.
    pub(super) own: bool,
    /// A message took the place of what was asked before: the next result is of that.
    pub(super) replaced: bool,
    result: Option<TurnResult>,
    answers: Vec<String>,
}

impl Turn {
    /// A turn the host wants.
    pub(super) fn wanted(start: StartTurn) -> Self {
        let at = TurnRef { session: start.session, turn: start.turn };
        Self { prompt: Some(Box::new(start)), own: false, ..Self::own(at) }
    }

    /// A turn the agent began.
    pub(super) fn own(at: TurnRef) -> Self {
        Self { at, prompt: None, interrupted: false, own: true, replaced: false, result: None, answers: Vec::new() }
    }

    /// The agent was told; what it said before is of no account.
    pub(super) fn hand_over(&mut self) {
        self.prompt = None;
        self.result = None;
        self.answers.clear();
    }

    /// Whether the agent works on it and told no result yet.
    pub(super) fn works(&self) -> bool {
        self.prompt.is_none() && self.result.is_none()
    }

    /// Whether it may end when the agent is at rest.
    pub(super) fn complete(&self) -> bool {
        self.prompt.is_none() && (self.own || self.result.is_some())
    }

    /// Takes a result in. `aside`: it answers no prompt, but something that ended in the background.
    pub(super) fn result(&mut self, mut result: TurnResult, aside: bool, emit: &mut Emit) {
        // It only tells that the turn goes on with other words.
        if std::mem::take(&mut self.replaced) {
            self.answers.clear();
            return;
        }
        if let Some(TurnResult { outcome: Outcome::Failed(failure), .. }) = &self.result {
            emit.notice(one_line(&failure.message, NOTICE));
        }
        self.answers.extend(result.text.take());
        if aside && !self.own && self.works() {
            return;
        }
        self.result = Some(result);
    }

    /// Ends it with what the agent told, or with `otherwise`.
    pub(super) fn done(self, otherwise: impl FnOnce() -> Outcome) -> TurnDone {
        let (mut outcome, usage) = match self.result {
            Some(result) => (result.outcome, result.usage),
            None if self.interrupted => (Outcome::Interrupted, None),
            None => (otherwise(), None),
        };
        // What an interrupted agent calls a failure is what was asked of it.
        if self.interrupted && matches!(outcome, Outcome::Failed(_)) {
            outcome = Outcome::Interrupted;
        }
        let text = (outcome == Outcome::Completed && !self.answers.is_empty()).then(|| self.answers.join("\n\n"));
        TurnDone { session: self.at.session, turn: self.at.turn, outcome, text, usage }
    }
}
