//! Removes old or excess recordings, and old texts and lines of turns, while the program runs.

use std::time::Duration;

use aetheel_model::plain::with_causes;
use aetheel_recording::{Recorder, RecordingLimits};
use aetheel_runtime::supervisor;
use aetheel_settings::Config;
use aetheel_store::workspace::{TurnRetention, Workspace};

/// Starts the task that removes old files now and every hour.
pub(super) fn tidy(recorder: Recorder, workspace: Workspace, kept: TurnRetention) {
    supervisor::spawn("tidying", async move {
        let mut hourly = tokio::time::interval(Duration::from_secs(3600));
        loop {
            hourly.tick().await;
            match recorder.tidy().await {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "removed old recordings"),
                Err(error) => {
                    tracing::warn!(%error, "cannot look through the recordings; check RECORDINGS_DIR")
                }
            }
            if let Err(error) = workspace.turns().tidy(kept).await {
                tracing::warn!(error = %with_causes(&error), "cannot remove the texts of old turns; check state/turns");
            }
            let lost_turns = &workspace.state.lost;
            if let Err(error) = lost_turns.forget_without_recording(recorder.folder()).await {
                tracing::warn!(error = %with_causes(&error), "cannot forget the lost replies whose recordings are gone");
            }
        }
    });
}

/// Returns the limits of size and age of the recordings.
pub fn limits(config: &Config) -> RecordingLimits {
    RecordingLimits {
        bytes: config.recordings_max_bytes,
        age: config.recordings_max_age,
        lost_bytes: config.lost_max_bytes,
        lost_age: config.lost_max_age,
    }
}
