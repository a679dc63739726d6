//! What the dispatcher has to do at this moment, in figures.

use super::Dispatcher;
use crate::figures;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// Events that wait.
    pub waiting: usize,
    /// For how long the one that was accepted first has waited, milliseconds; none: nothing waits.
    pub oldest_ms: Option<i64>,
    /// Events whose turns run.
    pub running: usize,
    /// Links that are open.
    pub links: usize,
    /// Questions that wait for people.
    pub questions: usize,
}

impl Dispatcher {
    /// Counts, and tells the figures. Waits for the dispatcher's locks: that it returns shows that
    /// none is held for good.
    #[must_use]
    pub fn census(&self) -> Census {
        let (waiting, accepted_ms, running) = {
            let queue = self.inner.queue.lock();
            (queue.waiting(), queue.oldest_ms(), queue.running())
        };
        let oldest_ms = accepted_ms.map(|accepted| {
            jiff::Timestamp::now().as_millisecond().saturating_sub(accepted).max(0)
        });
        let _ = self.inner.running.lock().len();
        let (links, questions) = (self.inner.links.count(), self.inner.questions.count());
        figures::queue(waiting, oldest_ms, running);
        figures::open(links, questions);
        Census { waiting, oldest_ms, running, links, questions }
    }
}
