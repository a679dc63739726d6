//! Checks whether a guest that replays a recording returns the recorded actions, as far as
//! [`Projection::Effects`] counts them.

use std::collections::VecDeque;
use std::io;

use super::Projection;
use crate::{
    Backend, Checkpoint, EntryKind, Guest, GuestFailure, MASKED, RecordingEntry, RecordingTail,
    SPARSE, UNSEEN,
};
use aetheel_model::agent::{Action, HostCommand, Input, TimedInput};

/// Maximum number of inputs that a guest gets in one call.
const BATCH: usize = 1024;

/// The reason why a link cannot be rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// The recording does not have all inputs of the old guest.
    #[error("its recording is incomplete: {0}")]
    Incomplete(&'static str),
    /// The recording cannot be read.
    #[error("its recording cannot be read")]
    Unreadable,
    /// Its turn was stopped, or the link was about to end.
    #[error("it was about to end")]
    Leaving,
    /// The guest failed.
    #[error("its backend failed while it replayed the recording")]
    Guest(#[from] GuestFailure),
    /// The guest returned other actions than those that were recorded.
    #[error("its backend returned other actions for the recording than those already performed")]
    Differs,
    /// The private folder of the link cannot be opened.
    #[error("its folder cannot be used")]
    Folder(#[source] io::Error),
    /// A process cannot be taken over.
    #[error("its agent cannot be taken over")]
    Process(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl RebuildError {
    /// Returns whether the link may be rebuilt from another point of its recording, or with another
    /// component.
    #[must_use]
    pub fn allows_another_attempt(&self) -> bool {
        matches!(self, Self::Incomplete(_) | Self::Unreadable | Self::Guest(_) | Self::Differs)
    }
}

/// The recorded actions that a guest has not returned yet, in order.
#[derive(Debug, Default)]
pub struct ExpectedActions {
    expected: VecDeque<Action>,
    /// The other actions after the last of these.
    reports: Vec<Action>,
    /// Whether some agent events are missing in the recording.
    sparse: bool,
}

impl ExpectedActions {
    /// Collects the actions of a recording.
    ///
    /// # Errors
    /// [`RebuildError`] if the recording does not have all inputs of the old guest.
    pub fn of(entries: &[RecordingEntry]) -> Result<Self, RebuildError> {
        let mut deeds = Self::default();
        for entry in entries {
            let missing = match &entry.kind {
                EntryKind::Out(action) if Projection::Effects.counts(action) => {
                    deeds.reports.clear();
                    deeds.expected.push_back(action.clone());
                    continue;
                }
                EntryKind::Out(report) => {
                    deeds.reports.push(report.clone());
                    continue;
                }
                EntryKind::Lost(_) => "lines are missing",
                EntryKind::Cut(_) => "it was cut",
                EntryKind::Moved { .. } => {
                    "the link moved to another version by its state, and no later checkpoint can be used"
                }
                EntryKind::In(Input::Command(HostCommand::Shutdown)) => {
                    return Err(RebuildError::Leaving);
                }
                EntryKind::Host(what) if what == MASKED => "an input contained a secret",
                EntryKind::Host(what) if what == UNSEEN => "its backend had failed",
                EntryKind::Host(what) => {
                    deeds.sparse |= what == SPARSE;
                    continue;
                }
                _ => continue,
            };
            return Err(RebuildError::Incomplete(missing));
        }
        Ok(deeds)
    }

    /// Compares an action with the next recorded one. Returns false if the action is not in the
    /// recording and must be performed.
    ///
    /// # Errors
    /// [`RebuildError::Differs`] if another action was recorded.
    pub fn consume(&mut self, action: &Action) -> Result<bool, RebuildError> {
        if !Projection::Effects.counts(action) {
            let recorded = self.reports.iter().position(|report| report == action);
            return Ok(
                !self.expected.is_empty() || recorded.map(|at| self.reports.remove(at)).is_some()
            );
        }
        match self.expected.front() {
            None => Ok(false),
            Some(expected) if expected == action => {
                self.expected.pop_front();
                Ok(true)
            }
            Some(_) if self.sparse && matches!(action, Action::Event(_)) => Ok(true),
            Some(_) => Err(RebuildError::Differs),
        }
    }

    /// Returns whether the guest has returned all recorded actions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.expected.is_empty()
    }
}

/// Opens a guest, with the state of a checkpoint if there is one.
///
/// # Errors
/// [`GuestFailure`] if the guest cannot be opened or refuses the state.
pub async fn open_guest(
    backend: &dyn Backend,
    checkpoint: Option<&Checkpoint>,
) -> Result<Box<dyn Guest>, GuestFailure> {
    let mut guest = backend.open().await?;
    if let Some(checkpoint) = checkpoint {
        checkpoint.guest.load_into(&mut *guest).await?;
    }
    Ok(guest)
}

/// Replays a part of a recording to a guest that has its state, so that the guest reaches the state
/// of the recorded one. `performed` are compared actions that it returned before, and `sparse` is
/// whether agent events before the part are missing in the recording. Returns the compared actions
/// of the guest that are not recorded.
///
/// # Errors
/// [`RebuildError`] if the guest returns other actions.
pub async fn replay_entries(
    guest: &mut dyn Guest,
    entries: &[RecordingEntry],
    performed: Vec<Action>,
    sparse: bool,
) -> Result<Vec<Action>, RebuildError> {
    let (mut deeds, mut more) = (ExpectedActions::of(entries)?, Vec::new());
    deeds.sparse |= sparse;
    for action in performed {
        if !deeds.consume(&action)? {
            more.push(action);
        }
    }
    let mut inputs = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let EntryKind::In(input) = &entry.kind else { continue };
        inputs.push(TimedInput { at_ms: entry.t, input: input.clone() });
        let next = entries.get(at + 1).map(|next| &next.kind);
        if matches!(next, Some(EntryKind::In(_))) && inputs.len() < BATCH {
            continue;
        }
        for action in guest.handle(std::mem::take(&mut inputs)).await? {
            if Projection::Effects.counts(&action) && !deeds.consume(&action)? {
                more.push(action);
            }
        }
    }
    if deeds.is_empty() { Ok(more) } else { Err(RebuildError::Differs) }
}

/// Replays a part of a recording to a fresh guest, so that the guest can replace the recorded one.
///
/// # Errors
/// [`RebuildError`] if the guest returns other or additional actions.
pub async fn replay_tail(
    backend: &dyn Backend,
    tail: &RecordingTail,
) -> Result<Box<dyn Guest>, RebuildError> {
    // Without all inputs, no guest is needed to know the result.
    ExpectedActions::of(&tail.entries)?;
    let mut guest = open_guest(backend, tail.checkpoint.as_ref()).await?;
    match replay_entries(&mut *guest, &tail.entries, Vec::new(), false).await? {
        more if more.is_empty() => Ok(guest),
        _ => Err(RebuildError::Differs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::{AgentEvent, AgentEventKind};

    #[test]
    fn a_recorded_report_is_not_performed_again() {
        let notice = |text: &str| {
            let kind = AgentEventKind::Notice(text.into());
            Action::Event(AgentEvent { session: 1, turn: 1, kind })
        };
        let end = Action::CloseStdin(1);
        let recorded = [notice("before"), end.clone(), notice("a"), notice("a")];
        let entry =
            |action: &Action| RecordingEntry { t: 0.0, kind: EntryKind::Out(action.clone()) };
        let entries: Vec<_> = recorded.iter().map(entry).collect();
        let returned = ["other", "", "a", "b", "a", "a"].map(|text| match text {
            "" => end.clone(),
            text => notice(text),
        });
        let mut expected = ExpectedActions::of(&entries).expect("complete");
        let is_recorded = returned.map(|action| expected.consume(&action).expect("the same"));
        assert_eq!(is_recorded, [true, true, true, false, true, false]);
    }
}
