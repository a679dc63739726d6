//! Measures the resources that guests on trial use.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The maximum resources that any guest of a component has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// The total size of one guest's memories, in bytes.
    pub memory: usize,
    /// The duration of the longest call, in real time.
    pub call: Duration,
}

/// Collects [`ResourceUsage`] from guests that may run in parallel.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    memory: AtomicUsize,
    nanoseconds: AtomicU64,
}

impl Gauge {
    /// Records a call that began at `began` and left the guest with `memory` bytes.
    pub(super) fn called(&self, began: Instant, memory: usize) {
        self.memory.fetch_max(memory, Ordering::Relaxed);
        self.nanoseconds.fetch_max(
            u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }

    pub(super) fn read(&self) -> ResourceUsage {
        let call = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed));
        ResourceUsage { memory: self.memory.load(Ordering::Relaxed), call }
    }
}
