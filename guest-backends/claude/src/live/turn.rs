//! A turn of a long-lived agent, and its outcome from one or more results.

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::TurnResult;
use aetheel_backend_sdk::text::one_line;
use aetheel_backend_sdk::wit::{Outcome, TurnRef};

/// Maximum length of a notice about a result that is not the last one, in bytes.
const NOTICE: usize = 200;

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) at: TurnRef,
    /// Whether the agent began the turn.
    own: bool,
    /// Whether messages were added to the turn, so that more results may follow the first.
    pub(super) steered: bool,
    result: Option<TurnResult>,
    answers: Vec<String>,
}

impl Turn {
    /// Creates a turn that the host started.
    pub(super) fn from_host(at: TurnRef) -> Self {
        Self { at, own: false, steered: false, result: None, answers: Vec::new() }
    }

    /// Creates a turn that the agent began.
    pub(super) fn from_agent(at: TurnRef) -> Self {
        Self { own: true, ..Self::from_host(at) }
    }

    /// Records that the agent has the prompt; earlier results do not count.
    pub(super) fn set_prompted(&mut self) {
        self.result = None;
        self.answers.clear();
    }

    /// Returns whether the agent reported a result.
    pub(super) fn has_result(&self) -> bool {
        self.result.is_some()
    }

    /// Returns whether the turn may end when the agent is idle.
    pub(super) fn complete(&self) -> bool {
        self.own || self.has_result()
    }

    /// Records a result. `aside` marks a result about background work that ended rather than about
    /// a prompt.
    pub(super) fn result(&mut self, mut result: TurnResult, aside: bool, emit: &mut Emit) {
        if let Some(TurnResult { outcome: Outcome::Failed(failure), .. }) = &self.result {
            emit.notice(one_line(&failure.message, NOTICE));
        }
        self.answers.extend(result.text.take());
        if aside && !self.complete() {
            return;
        }
        self.result = Some(result);
    }

    /// Returns the result of the turn, or `otherwise` if the agent reported none.
    pub(super) fn done(self, otherwise: Outcome) -> TurnResult {
        let (outcome, usage) =
            self.result.map_or((otherwise, None), |result| (result.outcome, result.usage));
        let text = (outcome == Outcome::Completed && !self.answers.is_empty())
            .then(|| self.answers.join("\n\n"));
        TurnResult { outcome, text, usage }
    }
}
