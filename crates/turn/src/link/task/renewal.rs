//! Moves a link to a newer generation of its backend.

use std::path::PathBuf;
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
        if self.machine.closing.is_ending() || self.guest.is_err() || !self.io.inputs.is_empty() {
            return false;
        }
        let (from, to) = (self.deps.backend.generation().clone(), backend.generation().clone());
        if from == to {
            return true;
        }
        let turns = self.machine.turns.len();
        if self.io.is_held() {
            self.recording.wait_written().await;
            let path = self.recording.path().to_owned();
            match replayed_guest(&*backend, path, turns > 0).await {
                Ok((guest, since)) => {
                    tracing::info!(%from, %to, turns, "link moved to the new version: its actions for the recording are the same");
                    self.recording.host(EntryKind::Host(format!(
                        "from here on generation {to}, which replayed all of the above{since}"
                    )));
                    self.move_to(backend, guest);
                    // The next checkpoint names the new component.
                    self.checkpoints.request();
                    return true;
                }
                Err(error) if turns > 0 => {
                    let why = with_causes(&error);
                    tracing::debug!(%from, %to, why, "a link cannot move to the new version now: its turns finish on the old one, or it moves later");
                }
                Err(_) => {}
            }
        }
        turns == 0 && self.renew_by_state(backend).await
    }

    fn move_to(&mut self, backend: Arc<dyn Backend>, guest: Box<dyn Guest>) {
        self.guest = Ok(guest);
        self.state.renewed(backend.generation());
        self.machine.settings = MachineSettings::new(backend.descriptor(), &self.deps.host);
        self.deps.backend = backend;
        self.log.renew_span(&self.deps, &self.machine.turns);
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
        let guest = match loaded.await {
            Ok(guest) => guest,
            Err(failure) => {
                tracing::info!(%failure, "link stays on its version until it is idle");
                return false;
            }
        };
        let (from, to) = (self.deps.backend.generation(), backend.generation());
        tracing::info!(%from, %to, "link moved to the new version");
        self.recording.host(EntryKind::Moved {
            generation: to.number,
            digest: to.digest.clone(),
            saved_by: saved_by.clone(),
            state: state.clone(),
        });
        self.move_to(backend, guest);
        if self.io.is_held() && self.machine.is_between_turns() {
            // Without it, a restarted gateway could not rebuild the link.
            self.record_checkpoint(state, saved_by);
        }
        true
    }
}

/// Returns a guest that returns the same actions for the recording, and a description of the part
/// that it replayed. If the recording does not have all inputs of the present guest, the part after
/// a checkpoint is used. With `older`, the checkpoints before the last one count too: between two
/// turns, the present guest can save its state instead.
///
/// # Errors
/// Returns an error if the recording is incomplete or the guest returns other actions.
async fn replayed_guest(
    backend: &dyn Backend,
    recording: PathBuf,
    older: bool,
) -> Result<(Box<dyn Guest>, &'static str), RebuildError> {
    let read = move || -> Result<Vec<RecordingTail>, RebuildError> {
        let text = std::fs::read_to_string(recording).map_err(|_| RebuildError::Unreadable)?;
        let most = if older { usize::MAX } else { 1 };
        let tails = RecordingTail::positions(&text).into_iter().rev().take(most);
        Ok(tails.filter_map(|position| RecordingTail::parse(&text, position).ok()).collect())
    };
    let tails = tokio::task::spawn_blocking(read).await;
    let mut refusal = RebuildError::Unreadable;
    for tail in tails.unwrap_or(Err(RebuildError::Unreadable))? {
        match replay_tail(backend, &tail).await {
            Ok(guest) => {
                let since = if tail.checkpoint.is_some() { " since a checkpoint" } else { "" };
                return Ok((guest, since));
            }
            Err(error @ RebuildError::Incomplete(_)) => refusal = error,
            Err(error) => return Err(error),
        }
    }
    Err(refusal)
}
