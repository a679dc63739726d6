//! Stopping what runs in a lane, and forgetting what waits there.

use super::event::plain_answer;
use super::keeping::safe;
use super::{Answer, Dispatcher};
use crate::event::{Event, Lane, Sequence};
use crate::figures::{self, Outcome};
use crate::turn::StopReason;

/// What was stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// A turn was running.
    pub running: bool,
    /// So many events waited, and are not answered.
    pub waiting: usize,
}

impl Stopped {
    /// Whether there was anything.
    #[must_use]
    pub fn any(self) -> bool {
        self.running || self.waiting > 0
    }
}

impl Dispatcher {
    /// Stops the turn that runs in a lane and refuses what waits there, each by itself. Returns
    /// whether there was anything.
    #[must_use]
    pub fn stop(&self, lane: &Lane) -> bool {
        let (running, waiting) = self.halt(lane);
        let any = running || !waiting.is_empty();
        for event in waiting {
            let inner = self.inner.clone();
            let over = inner.check_off(&event);
            self.inner.tasks.spawn(async move {
                safe(over).await;
                inner.refuse(&event, "Stopped before it began.").await;
            });
        }
        any
    }

    /// Stops what [`Dispatcher::stop`] does, and returns once a crash brings none of it back. Who
    /// asks tells people of what waited: nothing is said for each.
    pub async fn stop_for_good(&self, lane: &Lane) -> Stopped {
        let sequence = self.inner.queue.lock().running_in(lane);
        let (running, waiting) = self.halt(lane);
        let stopped = Stopped { running, waiting: waiting.len() };
        for event in &waiting {
            figures::event(event.kind, Outcome::Withdrawn);
            tracing::info!(event = event.sequence, lane = %event.lane, "event stopped before its turn");
            self.inner.check_off(event);
        }
        self.keep_stopped(sequence.filter(|_| stopped.any())).await;
        let inner = self.inner.clone();
        self.inner.tasks.spawn(async move {
            for event in waiting {
                inner.parts.outlet.put_away(&event).await;
            }
        });
        stopped
    }

    /// Stops a turn if it is the one that runs in a lane, and returns once a crash does not bring
    /// it back. What waits there goes on. False: it does not run.
    pub async fn stop_turn(&self, lane: &Lane, event: Sequence) -> bool {
        if self.inner.queue.lock().running_in(lane) != Some(event) {
            return false;
        }
        let stopped = self.halt_turn(lane);
        self.keep_stopped(Some(event).filter(|_| stopped)).await;
        stopped
    }

    /// Stops what runs in a lane and takes out what waits there.
    fn halt(&self, lane: &Lane) -> (bool, Vec<Event>) {
        let waiting = self.inner.cancel_waiting(lane);
        (self.halt_turn(lane), waiting)
    }

    /// Stops the turn that runs in a lane, and with it what it was told meanwhile. False: there is
    /// none.
    fn halt_turn(&self, lane: &Lane) -> bool {
        let heard = {
            let mut running = self.inner.running.lock();
            let turn =
                running.get_mut(lane).filter(|turn| turn.stop.send(Some(StopReason::User)).is_ok());
            turn.map(|turn| turn.heard.take().unwrap_or_default())
        };
        let running = heard.is_some();
        for event in heard.into_iter().flatten() {
            self.inner.check_off(&event);
        }
        running
    }

    /// Keeps that a running turn was stopped.
    async fn keep_stopped(&self, running: Option<Sequence>) {
        let Some(journal) = &self.inner.parts.journal else { return };
        if let Some(sequence) = running
            .filter(|sequence| journal.entry(*sequence).is_some_and(|entry| entry.answer.is_none()))
        {
            // What it came to unless it says more before it ends.
            let answer =
                Answer { failure: Some("Stopped.".to_owned()), ..plain_answer(String::new()) };
            drop(journal.answered(
                sequence,
                serde_json::to_string(&answer).expect("an answer is plain data"),
            ));
        }
        journal.flush().await;
    }
}
