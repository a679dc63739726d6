//! Prompts that people take back or change while they wait. A turn that runs is left alone.

use crate::Dispatcher;
use crate::outlet::messages::Refusal;

impl Dispatcher {
    /// Takes a waiting event back, by its key: it is answered by nobody. Returns whether it was
    /// waiting.
    #[must_use]
    pub fn withdraw(&self, key: &str) -> bool {
        let withdrawn = {
            let mut queue = self.inner.lanes.queue.lock();
            queue.find(key).and_then(|sequence| queue.cancel(sequence))
        };
        let Some(event) = withdrawn else { return false };
        self.inner.durability.check_off(&event);
        tracing::info!(event = event.sequence, lane = %event.lane, "event withdrawn by the person who wrote it");
        self.pump();
        self.inner.lanes.tell_finished();
        true
    }

    /// Changes the prompt of a waiting event, by its key; it keeps its place. Returns whether there
    /// was one to change.
    ///
    /// # Errors
    /// [`Refusal::TooLong`], in words for the person who wrote it; the old prompt stands.
    pub fn amend(&self, key: &str, prompt: &str) -> Result<bool, Refusal> {
        let limit = self.inner.parts.choices.prompt_limit;
        let mut queue = self.inner.lanes.queue.lock();
        let Some(sequence) = queue.find(key) else { return Ok(false) };
        if prompt.len() > limit {
            return Err(Refusal::TooLong { bytes: prompt.len(), limit });
        }
        if let Some(event) = queue.amend(sequence, prompt) {
            // Where it cannot be written, the old prompt is what a crash leaves.
            drop(self.inner.durability.keep(event));
            tracing::info!(event = sequence, lane = %event.lane, "event amended by the person who wrote it");
        }
        Ok(true)
    }
}
