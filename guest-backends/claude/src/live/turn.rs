//! A turn with an agent that lives on: what its results come to.

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::TurnResult;
use aetheel_backend_sdk::text::one_line;
use aetheel_backend_sdk::wit::{Outcome, TurnRef};

/// Bytes of the notice about a result that others follow.
const NOTICE: usize = 200;

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) at: TurnRef,
    /// The agent began it by itself.
    own: bool,
    /// A message took the place of what was asked before: the next result is of that.
    pub(super) replaced: bool,
    /// More was said to the agent while it worked: other results may follow the first.
    pub(super) steered: bool,
    result: Option<TurnResult>,
    answers: Vec<String>,
}

impl Turn {
    /// A turn the host wants.
    pub(super) fn wanted(at: TurnRef) -> Self {
        Self { at, own: false, replaced: false, steered: false, result: None, answers: Vec::new() }
    }

    /// A turn the agent began.
    pub(super) fn own(at: TurnRef) -> Self {
        Self { own: true, ..Self::wanted(at) }
    }

    /// The agent was told; what it said before is of no account.
    pub(super) fn hand_over(&mut self) {
        self.result = None;
        self.answers.clear();
    }

    /// Whether the agent told a result.
    pub(super) fn has_result(&self) -> bool {
        self.result.is_some()
    }

    /// Whether it may end when the agent is at rest.
    pub(super) fn complete(&self) -> bool {
        self.own || self.has_result()
    }

    /// Takes a result in. `aside`: it answers no prompt, but something that ended in the
    /// background.
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
        if aside && !self.complete() {
            return;
        }
        self.result = Some(result);
    }

    /// Ends it with what the agent told, or with `otherwise`.
    pub(super) fn done(self, otherwise: Outcome) -> TurnResult {
        let (outcome, usage) =
            self.result.map_or((otherwise, None), |result| (result.outcome, result.usage));
        let text = (outcome == Outcome::Completed && !self.answers.is_empty())
            .then(|| self.answers.join("\n\n"));
        TurnResult { outcome, text, usage }
    }
}
