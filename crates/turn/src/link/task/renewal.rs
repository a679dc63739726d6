//! Moves a link to a newer generation of its backend.

use std::sync::Arc;

use super::LinkTask;
use crate::link::machine::MachineSettings;
use aetheel_model::plain::with_causes;
use aetheel_recording::comparison::{RebuildError, replay_tail};
use aetheel_recording::{Backend, EntryKind, Guest, GuestFailure, RecordingTail};

impl LinkTask {
    /// Moves to a newer generation: by replaying the recording, even while turns run, or between
    /// turns by the saved state of the present guest. Returns whether the link is on that
    /// generation now.
    pub(super) async fn renew(&mut self, backend: Arc<dyn Backend>) -> bool {
        if self.machine.closing.is_ending() || self.guest.is_err() || !self.inputs.is_empty() {
            return false;
        }
        if self.deps.backend.generation() == backend.generation() {
            return true;
        }
        let refusal = match self.is_held() {
            true => match self.renew_by_recording(&backend).await {
                Ok(()) => return true,
                refusal => refusal.err(),
            },
            false => None,
        };
        if self.machine.turns.is_empty() {
            return self.renew_by_state(backend).await;
        }
        if let Some(error) = refusal {
            let why = with_causes(&error);
            let (from, to) = (self.deps.backend.generation(), backend.generation());
            tracing::debug!(%from, %to, why, "a link cannot move to the new version now: its turns finish on the old one, or it moves later");
        }
        false
    }

    /// Moves to a generation whose guest returns the same actions for the recording. If the
    /// recording does not have all inputs of the present guest, the part after a checkpoint is
    /// used.
    ///
    /// # Errors
    /// Returns an error if the recording is incomplete or its guest returns other actions.
    async fn renew_by_recording(&mut self, backend: &Arc<dyn Backend>) -> Result<(), RebuildError> {
        self.recording.wait_written().await;
        let path = self.recording.path().to_owned();
        // Between two turns, the guest saves its state, and the recording then contains it.
        let most = if self.machine.turns.is_empty() { 1 } else { usize::MAX };
        let read = move || -> Result<Vec<RecordingTail>, RebuildError> {
            let text = std::fs::read_to_string(path).map_err(|_| RebuildError::Unreadable)?;
            let tails = RecordingTail::positions(&text).into_iter().rev().take(most);
            Ok(tails.filter_map(|position| RecordingTail::parse(&text, position).ok()).collect())
        };
        let tails = tokio::task::spawn_blocking(read).await;
        let tails = tails.unwrap_or(Err(RebuildError::Unreadable))?;
        let mut refusal = RebuildError::Unreadable;
        for tail in tails {
            match replay_tail(&**backend, &tail).await {
                Ok(guest) => {
                    self.renewed_by(backend, guest, tail.checkpoint.is_some());
                    return Ok(());
                }
                Err(error) => {
                    let is_incomplete = matches!(error, RebuildError::Incomplete(_));
                    refusal = error;
                    if !is_incomplete {
                        break;
                    }
                }
            }
        }
        Err(refusal)
    }

    /// Continues with a guest that replayed the recording, or the part after a checkpoint.
    fn renewed_by(
        &mut self,
        backend: &Arc<dyn Backend>,
        guest: Box<dyn Guest>,
        by_checkpoint: bool,
    ) {
        let (from, to) = (self.deps.backend.generation(), backend.generation());
        let turns = self.machine.turns.len();
        tracing::info!(%from, %to, turns, "link moved to the new version: its actions for the recording are the same");
        let since = if by_checkpoint { " since a checkpoint" } else { "" };
        self.recording.host(EntryKind::Host(format!(
            "from here on generation {to}, which replayed all of the above{since}"
        )));
        self.guest = Ok(guest);
        self.set_backend(Arc::clone(backend));
        // The next checkpoint names the new component.
        self.checkpoints.request();
    }

    fn set_backend(&mut self, backend: Arc<dyn Backend>) {
        self.state.renewed(backend.generation());
        self.machine.settings = MachineSettings::new(backend.descriptor(), &self.deps.host);
        self.deps.backend = backend;
        self.renew_span();
    }

    /// Moves between turns by loading the state that the present guest saves.
    async fn renew_by_state(&mut self, backend: Arc<dyn Backend>) -> bool {
        let Ok(guest) = self.guest.as_mut() else { return false };
        let saved_by = self.deps.backend.descriptor().version.clone();
        let state = match guest.save().await {
            Ok(Some(state)) => state,
            Ok(None) => return false,
            Err(failure) => {
                self.fail(failure);
                return false;
            }
        };
        let loaded = async {
            let mut guest = backend.open().await?;
            guest.load(&state, &saved_by).await?;
            Ok::<_, GuestFailure>(guest)
        };
        match loaded.await {
            Ok(guest) => {
                let (from, to) =
                    (self.deps.backend.generation().clone(), backend.generation().clone());
                tracing::info!(%from, %to, "link moved to the new version");
                self.recording.host(EntryKind::Moved {
                    generation: to.number,
                    digest: to.digest.clone(),
                    saved_by: saved_by.clone(),
                    state: state.clone(),
                });
                self.guest = Ok(guest);
                self.set_backend(backend);
                if self.is_held() && self.is_between_turns() {
                    // Without it, a restarted gateway could not rebuild the link.
                    self.record_checkpoint(state, saved_by);
                }
                true
            }
            Err(failure) => {
                tracing::info!(%failure, "link stays on its version until it is idle");
                false
            }
        }
    }
}
