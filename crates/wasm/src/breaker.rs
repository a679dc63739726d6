//! Stops opening instances of a generation (one load of a component) that fails repeatedly.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Number of failures within [`WINDOW`] that opens the breaker.
const FAILURES: usize = 5;
/// The breaker stays open until one of the failures is older than this.
const WINDOW: Duration = Duration::from_secs(60);

/// The failures of one generation. It has no clock: callers pass the current time.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: VecDeque<Instant>,
}

impl Breaker {
    /// Counts a failure. Returns true if it opened the breaker.
    pub(super) fn record_failure(&mut self, now: Instant) -> bool {
        let was_open = self.open_for(now).is_some();
        self.failures.push_back(now);
        if self.failures.len() > FAILURES {
            self.failures.pop_front();
        }
        !was_open && self.open_for(now).is_some()
    }

    /// Returns how long the breaker stays open, or `None` if it is closed.
    pub(super) fn open_for(&self, now: Instant) -> Option<Duration> {
        let oldest = *self.failures.front()?;
        (self.failures.len() == FAILURES)
            .then(|| WINDOW.checked_sub(now.duration_since(oldest)))?
            .filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fifth_failure_in_a_minute_opens_it_and_a_minute_later_it_is_closed() {
        let start = Instant::now();
        let mut breaker = Breaker::default();
        for second in 0..4 {
            assert!(!breaker.record_failure(start + Duration::from_secs(second)));
        }
        assert_eq!(breaker.open_for(start + Duration::from_secs(4)), None);
        assert!(breaker.record_failure(start + Duration::from_secs(10)), "the fifth opens it");
        assert_eq!(
            breaker.open_for(start + Duration::from_secs(10)),
            Some(Duration::from_secs(50))
        );
        assert_eq!(breaker.open_for(start + Duration::from_secs(60)), None);
        assert!(
            breaker.record_failure(start + Duration::from_secs(60)),
            "the next failure opens it again"
        );
    }

    #[test]
    fn failures_far_apart_never_open_it() {
        let start = Instant::now();
        let mut breaker = Breaker::default();
        for n in 0..50 {
            assert!(!breaker.record_failure(start + Duration::from_secs(n * 20)), "failure {n}");
        }
    }
}
