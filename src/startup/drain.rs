//! The parts of the gateway that stay open until the last turn has ended.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::observation::Observation;
use aetheel_recording::Recorder;
use aetheel_store::workspace::FinishedTurns;

/// Writers and tasks that must be closed after the last turn.
pub struct DrainHandle {
    pub(super) recorder: Recorder,
    pub(super) turns: FinishedTurns,
    pub(super) observers: Arc<Observation>,
    /// Follows changes of components, profiles and agents.
    pub(super) following: JoinHandle<()>,
}

impl DrainHandle {
    /// Returns the writer of recordings.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Waits until all recordings and lines of turns were passed to the operating system.
    pub async fn close(self) {
        self.following.abort();
        self.observers.close().await;
        self.turns.flush().await;
        // A failed join means that the runtime is shutting down.
        let _ = tokio::task::spawn_blocking(move || self.recorder.flush()).await;
    }
}
