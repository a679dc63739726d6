//! How much of their limits guests use, for those who ask about a component rather than serve with
//! it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The most that any guest of a component has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Bytes of one guest's memories together.
    pub memory: usize,
    /// The longest call, by the clock.
    pub call: Duration,
}

/// Keeps [`Used`] over guests that may run side by side.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    memory: AtomicUsize,
    nanoseconds: AtomicU64,
}

impl Gauge {
    /// A call that began then has ended, and left the guest with so many bytes.
    pub(super) fn called(&self, began: Instant, memory: usize) {
        self.memory.fetch_max(memory, Ordering::Relaxed);
        self.nanoseconds.fetch_max(
            u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }

    pub(super) fn read(&self) -> Used {
        let call = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed));
        Used { memory: self.memory.load(Ordering::Relaxed), call }
    }
}
