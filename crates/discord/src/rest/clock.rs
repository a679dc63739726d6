//! The clock for waiting in this crate. Tests advance the clock instead of waiting.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// A monotonic clock that can be advanced. Clones share their state.
#[derive(Clone, Debug)]
pub struct OffsetClock(watch::Sender<Duration>);

impl Default for OffsetClock {
    fn default() -> Self {
        Self(watch::channel(Duration::ZERO).0)
    }
}

impl OffsetClock {
    /// Advances the clock, which shortens all sleeps by this time.
    pub fn advance(&self, by: Duration) {
        self.0.send_modify(|ahead| *ahead += by);
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::now() + *self.0.borrow()
    }

    /// Sleeps. Can be cancelled.
    pub(crate) async fn sleep(&self, duration: Duration) {
        let (until, mut moved) = (self.now() + duration, self.0.subscribe());
        loop {
            let left = until.saturating_duration_since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                // This cannot fail, because the sender is in `self`.
                _ = moved.changed() => {}
            }
        }
    }
}
