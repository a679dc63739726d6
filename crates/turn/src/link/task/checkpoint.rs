//! Records checkpoints of a link that outlives the gateway, and restores a link from one.
//!
//! A checkpoint is recorded when no turn is open, and the drivers of all turns have finished. So it
//! delays no answer. A guest that cannot save its state then is asked again after its next inputs.

use tokio::time::Instant;

use super::LinkTask;
use aetheel_model::plain::with_causes;
use aetheel_recording::{CheckpointRefusal, SavedGuest};

/// Number of inputs between two turns after which a checkpoint is recorded.
const INPUTS_BETWEEN_TURNS: u64 = 1_000;
/// Size of a checkpoint, in bytes, beyond which the next one waits until the recording has grown by
/// that size. So the recording never consists mostly of checkpoints.
const LARGE_BYTES: u64 = 16 << 10;

/// The checkpoints of a link.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// Whether a checkpoint should be recorded as soon as possible.
    is_due: bool,
    /// Whether the guest or the link could not be saved when a checkpoint was due.
    is_missed: bool,
    /// The number of inputs before the last checkpoint.
    pub(super) recorded_inputs: u64,
    /// The size of the recording after the last checkpoint, and the size of that checkpoint, in
    /// bytes.
    recorded_at: u64,
    recorded_size: u64,
    /// Whether the log contains the reason why checkpoints of this link are refused.
    is_refusal_logged: bool,
}

impl Checkpoints {
    /// Requests a checkpoint.
    pub(super) fn request(&mut self) {
        self.is_due = true;
    }

    /// Requests a checkpoint after inputs between two turns, if one is missing or the last one is
    /// old. `inputs` is the number of inputs of the link.
    pub(super) fn request_between_turns(&mut self, inputs: u64) {
        let age = inputs - self.recorded_inputs;
        self.is_due |= self.is_missed || age >= INPUTS_BETWEEN_TURNS;
    }

    /// Returns whether the recording, which has this size, has grown by less than a large checkpoint
    /// since the last one.
    fn is_too_early(&self, bytes: u64) -> bool {
        let grown = bytes.saturating_sub(self.recorded_at);
        self.recorded_size > LARGE_BYTES && grown < self.recorded_size
    }

    /// Notes that a checkpoint of this size was recorded after these inputs.
    fn recorded(&mut self, inputs: u64, size: u64, bytes: u64) {
        self.is_missed = false;
        self.recorded_inputs = inputs;
        (self.recorded_size, self.recorded_at) = (size, bytes);
    }

    /// Logs the first refusal, because the same one is likely after each turn.
    fn refused(&mut self, refusal: &CheckpointRefusal) {
        if std::mem::replace(&mut self.is_refusal_logged, true) {
            return;
        }
        let why = with_causes(refusal);
        tracing::info!(
            why,
            "checkpoints of the link are not recorded; after a crash it is rebuilt from the beginning of its recording"
        );
    }
}

impl LinkTask {
    /// Records a checkpoint if one is due.
    pub(super) async fn record_due_checkpoint(&mut self) {
        if !std::mem::take(&mut self.checkpoints.is_due)
            || !self.io.is_held()
            || self.machine.settings.is_one_shot
        {
            return;
        }
        if self.checkpoints.is_too_early(self.recording.bytes()) || !self.machine.is_between_turns()
        {
            self.checkpoints.is_missed = true;
            return;
        }
        let Ok(guest) = self.guest.as_mut() else { return };
        let began = Instant::now();
        match guest.save().await {
            Ok(Some(state)) => {
                let took_ms = began.elapsed().as_secs_f64() * 1000.0;
                tracing::debug!(took_ms, bytes = state.len(), "the backend saved its state");
                let descriptor = self.deps.backend.descriptor();
                let saved_by = descriptor.version.clone();
                self.record_checkpoint(state, saved_by);
            }
            Ok(None) => self.checkpoints.is_missed = true,
            Err(failure) => {
                self.fail(failure);
                self.perform_effects().await;
            }
        }
    }

    /// Records a checkpoint with a state that a guest of the present generation continues from.
    pub(super) fn record_checkpoint(&mut self, state: String, saved_by: String) {
        let digest = self.deps.backend.generation().digest.clone();
        let guest = SavedGuest { digest, saved_by, state };
        let files = self.io.files.names();
        let checkpoint = self.machine.save(self.recording.now(), guest, files);
        match self.recording.checkpoint(&checkpoint) {
            Ok(size) => {
                tracing::debug!(inputs = checkpoint.inputs, bytes = size, "recorded a checkpoint");
                self.checkpoints.recorded(checkpoint.inputs, size as u64, self.recording.bytes());
            }
            Err(refusal) => self.checkpoints.refused(&refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_between_turns_is_due_after_many_inputs_or_a_missed_one() {
        let mut checkpoints = Checkpoints::default();
        checkpoints.request_between_turns(INPUTS_BETWEEN_TURNS - 1);
        assert!(!checkpoints.is_due);
        checkpoints.request_between_turns(INPUTS_BETWEEN_TURNS);
        assert!(std::mem::take(&mut checkpoints.is_due));
        checkpoints.recorded(INPUTS_BETWEEN_TURNS, 10, 100);
        checkpoints.request_between_turns(INPUTS_BETWEEN_TURNS + 1);
        assert!(!checkpoints.is_due);
        checkpoints.is_missed = true;
        checkpoints.request_between_turns(INPUTS_BETWEEN_TURNS + 1);
        assert!(checkpoints.is_due);
    }

    #[test]
    fn large_checkpoints_take_at_most_half_of_a_recording() {
        let mut checkpoints = Checkpoints::default();
        checkpoints.recorded(1, LARGE_BYTES, 100);
        assert!(!checkpoints.is_too_early(101));
        checkpoints.recorded(2, LARGE_BYTES + 1, 100);
        assert!(checkpoints.is_too_early(100 + LARGE_BYTES));
        assert!(!checkpoints.is_too_early(101 + LARGE_BYTES));
    }
}
