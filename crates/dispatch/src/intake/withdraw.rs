//! Waiting prompts that people withdraw or edit. A running turn is not affected.

use super::Intake;
use crate::outlet::messages::PromptRefusal;

impl Intake {
    /// Removes the waiting event with this key. Returns whether there was one.
    #[must_use]
    pub fn withdraw(&self, key: &str) -> bool {
        let withdrawn = {
            let mut queue = self.shared.lanes.queue.lock();
            queue.lanes().find(key).and_then(|sequence| queue.cancel(sequence))
        };
        let Some(event) = withdrawn else { return false };
        self.shared.durability.mark_finished(&event);
        tracing::info!(event = event.sequence, lane = %event.lane, "event withdrawn by its author");
        self.shared.start_waiting();
        self.shared.lanes.notify_finished();
        true
    }

    /// Changes the prompt of the waiting event with this key. The event keeps its position. Returns
    /// whether there was one.
    ///
    /// # Errors
    /// [`PromptRefusal::TooLong`], worded for the author. The old prompt is kept.
    pub fn amend(&self, key: &str, prompt: &str) -> Result<bool, PromptRefusal> {
        let limit = self.shared.deps.choices.prompt_limit;
        let mut queue = self.shared.lanes.queue.lock();
        let Some(sequence) = queue.lanes().find(key) else { return Ok(false) };
        if prompt.len() > limit {
            return Err(PromptRefusal::TooLong { bytes: prompt.len(), limit });
        }
        if let Some(event) = queue.amend(sequence, prompt) {
            // If the change cannot be written, a crash restores the old prompt.
            drop(self.shared.durability.save_event(event));
            tracing::info!(event = sequence, lane = %event.lane, "event edited by its author");
        }
        Ok(true)
    }
}
