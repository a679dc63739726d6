//! Finished turns: their lines in `state/turns`, and their transcripts from the recordings.

use std::path::Path;
use std::sync::Arc;

use crate::Shared;
use aetheel_model::plain::clean_text;
use aetheel_recording::transcript::{self, TranscriptError, TurnTranscript};
use aetheel_store::workspace::{FinishedTurns, Shares, TurnLine, TurnSearch};

/// Reads finished turns and their transcripts. Cheap to clone.
#[derive(Clone)]
pub struct TurnHistory {
    shared: Arc<Shared>,
}

impl TurnHistory {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns the finished turns of all lanes. The caller decides who may see which turn.
    #[must_use]
    pub fn turns(&self) -> FinishedTurns {
        self.shared.deps.workspace.turns()
    }

    /// Returns the finished turns that match a search, the newest first, without secrets. The
    /// caller must check whether the user may see their lanes.
    pub async fn ended_turns(&self, search: TurnSearch) -> Vec<TurnLine> {
        let found = self.shared.deps.workspace.turns().search(search).await;
        found.into_iter().map(|line| self.cleaned(line)).collect()
    }

    /// Returns the line of a finished turn by its correlation id, without secrets.
    pub async fn ended_turn(&self, turn: &str) -> Option<TurnLine> {
        let found = self.shared.deps.workspace.turns().find(turn).await;
        found.map(|line| self.cleaned(line))
    }

    /// Reads the transcript of a finished turn from its recording, without secrets. Dropping the
    /// future does not stop the read.
    ///
    /// # Errors
    /// [`TranscriptError`] if the recording cannot be read.
    pub async fn transcript(&self, line: &TurnLine) -> Result<TurnTranscript, TranscriptError> {
        let parts = &self.shared.deps;
        let recording =
            line.recording.as_deref().and_then(Path::to_str).ok_or(TranscriptError::Gone)?;
        transcript::read(parts.recorder.folder(), recording, &line.turn, &parts.redactor).await
    }

    /// Returns the read-only links to turns.
    #[must_use]
    pub fn shares(&self) -> &Shares {
        &self.shared.deps.workspace.state.shares
    }

    /// Removes secrets from a line again. New secrets may have been configured since it was
    /// written.
    fn cleaned(&self, mut line: TurnLine) -> TurnLine {
        let TurnLine { asked, answered, name, agent_version, model, .. } = &mut line;
        let texts = asked.iter_mut().chain(answered).chain(name);
        for text in texts.chain(agent_version).chain(model) {
            *text = self.shared.deps.redactor.redact(clean_text(text).into_owned());
        }
        line
    }
}
