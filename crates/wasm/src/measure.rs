//! Measures the resources that guests use.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The resources that the guests of a component have used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// The largest total size of one guest's memories, in bytes.
    pub memory: usize,
    /// The duration of the longest call, in real time.
    pub call: Duration,
    /// The number of calls into all guests.
    pub calls: u64,
    /// The time in which guests ran, including their start.
    pub ran: Duration,
}

/// Collects [`ResourceUsage`] from guests that may run in parallel.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    memory: AtomicUsize,
    longest_nanoseconds: AtomicU64,
    calls: AtomicU64,
    run_nanoseconds: AtomicU64,
}

impl Gauge {
    /// Records a call that began at `began` and left the guest with `memory` bytes.
    pub(super) fn called(&self, began: Instant, memory: usize) {
        self.memory.fetch_max(memory, Ordering::Relaxed);
        self.longest_nanoseconds.fetch_max(nanoseconds(began.elapsed()), Ordering::Relaxed);
    }

    pub(super) fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_run_time(&self, ran: Duration) {
        self.run_nanoseconds.fetch_add(nanoseconds(ran), Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> ResourceUsage {
        let time =
            |nanoseconds: &AtomicU64| Duration::from_nanos(nanoseconds.load(Ordering::Relaxed));
        ResourceUsage {
            memory: self.memory.load(Ordering::Relaxed),
            call: time(&self.longest_nanoseconds),
            calls: self.calls.load(Ordering::Relaxed),
            ran: time(&self.run_nanoseconds),
        }
    }
}

/// Runs a call and passes to `add` the time of each poll, so that waiting for a worker between two
/// polls does not count.
///
/// This is elapsed time. The processor time of the thread would exclude time in which the system
/// runs other programs, but reading it is a system call, which can take as long as a call.
pub(super) async fn timed<F: Future>(call: F, add: impl Fn(Duration)) -> F::Output {
    let mut call = pin!(call);
    poll_fn(|context| {
        let began = Instant::now();
        let polled = call.as_mut().poll(context);
        add(began.elapsed());
        polled
    })
    .await
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_between_two_polls_is_not_run_time() {
        let gauge = Gauge::default();
        let start = Instant::now();
        timed(tokio::time::sleep(Duration::from_millis(200)), |ran| gauge.add_run_time(ran)).await;
        let (all, ran) = (start.elapsed(), gauge.read().ran);
        assert!(ran > Duration::ZERO && ran * 2 < all, "{ran:?} of {all:?}");
        let work = async {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
        };
        timed(work, |ran| gauge.add_run_time(ran)).await;
        assert!(gauge.read().ran >= Duration::from_millis(20));
    }
}
