//! What stays open until the last turn is over.

use tokio::task::JoinHandle;

use crate::turn::recording::Recorder;
use crate::workspace::Turns;

/// What must be closed after the last turn.
pub struct ShutdownGuard {
    pub(super) recorder: Recorder,
    pub(super) turns: Turns,
    /// Keeps the backends known.
    pub(super) following: JoinHandle<()>,
}

impl ShutdownGuard {
    /// What writes recordings.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Waits until recordings and turns are with the operating system.
    pub async fn close(self) {
        self.following.abort();
        self.turns.flush().await;
        // The recorder blocks; a failed join means that the runtime is going away.
        let _ = tokio::task::spawn_blocking(move || self.recorder.flush()).await;
    }
}
