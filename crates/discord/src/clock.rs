//! The clock that waits for Discord go by. Tests set it forward instead of waiting.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// A clock. Clones are one clock.
#[derive(Clone, Debug)]
pub struct Clock(watch::Sender<Duration>);

impl Default for Clock {
    fn default() -> Self {
        Self(watch::channel(Duration::ZERO).0)
    }
}

impl Clock {
    /// Sets it forward: whoever waits has waited so much longer.
    pub fn advance(&self, by: Duration) {
        self.0.send_modify(|ahead| *ahead += by);
    }

    pub(super) fn now(&self) -> Instant {
        Instant::now() + *self.0.borrow()
    }

    /// Waits. Dropping the future does nothing.
    pub(super) async fn sleep(&self, duration: Duration) {
        let (until, mut moved) = (self.now() + duration, self.0.subscribe());
        loop {
            let left = until.saturating_duration_since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                // Its sender lives in `self`.
                _ = moved.changed() => {}
            }
        }
    }
}
