//! Stopping what runs in a lane, and forgetting what waits there.

use super::event::plain_answer;
use super::keeping::safe;
use super::{Answer, Dispatcher, lock};
use crate::event::Lane;
use crate::turn::StopReason;

impl Dispatcher {
    /// Stops the turn that runs in a lane and refuses what waits there. Returns whether there was anything.
    #[must_use]
    pub fn stop(&self, lane: &Lane) -> bool {
        let waiting = self.inner.cancel_waiting(lane);
        let running = lock(&self.inner.running).get(lane).is_some_and(|turn| turn.stop.send(Some(StopReason::User)).is_ok());
        let any = running || !waiting.is_empty();
        for event in waiting {
            let inner = self.inner.clone();
            let over = inner.check_off(&event);
            self.inner.tasks.spawn(async move {
                safe(over).await;
                inner.refuse(&event, "Stopped before it began. (stopped)").await;
            });
        }
        any
    }

    /// Stops what [`Dispatcher::stop`] does, and returns once a crash brings none of it back.
    pub async fn stop_for_good(&self, lane: &Lane) -> bool {
        let running = lock(&self.inner.queue).running_in(lane);
        let any = self.stop(lane);
        let Some(journal) = self.inner.parts.journal.as_ref().filter(|_| any) else { return any };
        if let Some(sequence) = running.filter(|sequence| journal.entry(*sequence).is_some_and(|entry| entry.answer.is_none())) {
            // What it came to unless it says more before it ends.
            let answer = Answer { failure: Some("Stopped. (stopped)".to_owned()), ..plain_answer(String::new()) };
            drop(journal.answered(sequence, serde_json::to_string(&answer).expect("an answer is plain data")));
        }
        journal.flush().await;
        any
    }
}
