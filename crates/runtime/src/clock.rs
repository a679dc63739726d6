//! The clock of the use cases: that of the system, or one whose time a test sets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use crate::lease::boot_ms;

/// The time of [`Clock::boot_ms`] at which a manual clock begins.
const MANUAL_BOOT_MS: u64 = 3_600_000;

/// Returns the time, and waits. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<watch::Sender<ManualTime>>>);

/// Changes the time of a [`Clock::manual`].
#[derive(Clone, Debug)]
pub struct ClockControl(Arc<watch::Sender<ManualTime>>);

#[derive(Debug)]
struct ManualTime {
    wall: Timestamp,
    /// The time that passed since the clock was made. Setting the wall clock does not change it.
    passed: Duration,
    last_sleep: u64,
    /// The ends of all sleeps, as values of `passed`.
    sleeps: BTreeMap<u64, Duration>,
}

impl ManualTime {
    /// Returns the number of sleeps that have not ended.
    fn unfinished(&self) -> usize {
        self.sleeps.values().filter(|end| **end > self.passed).count()
    }
}

/// A sleep on a manual clock. It is forgotten when it ends or is dropped.
struct ManualSleep<'a> {
    time: &'a watch::Sender<ManualTime>,
    number: u64,
}

impl Drop for ManualSleep<'_> {
    fn drop(&mut self) {
        self.time.send_modify(|time| {
            time.sleeps.remove(&self.number);
        });
    }
}

impl Clock {
    /// Returns the clock of the system.
    #[must_use]
    pub fn system() -> Self {
        Self(None)
    }

    /// Creates a clock whose time changes only through its control.
    #[must_use]
    pub fn manual(start: Timestamp) -> (Self, ClockControl) {
        let time = ManualTime {
            wall: start,
            passed: Duration::ZERO,
            last_sleep: 0,
            sleeps: BTreeMap::new(),
        };
        let time = Arc::new(watch::Sender::new(time));
        (Self(Some(Arc::clone(&time))), ClockControl(time))
    }

    /// Returns the time of the wall clock, which the operator may set forward or back.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.as_ref().map_or_else(Timestamp::now, |time| time.borrow().wall)
    }

    /// Returns the time of the wall clock as Unix time in milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.now().as_millisecond()
    }

    /// Returns the time of [`lease::boot_ms`](crate::lease::boot_ms), which nobody sets.
    #[must_use]
    pub fn boot_ms(&self) -> u64 {
        let Some(time) = &self.0 else { return boot_ms() };
        let passed = time.borrow().passed.as_millis();
        MANUAL_BOOT_MS.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Waits for a time in which the machine runs. A suspended machine and a wall clock that is set
    /// do not shorten it. So a task that waits for a time of the wall clock sleeps for a short time
    /// and then compares [`Clock::now`] again.
    pub async fn sleep(&self, duration: Duration) {
        let Some(time) = &self.0 else { return tokio::time::sleep(duration).await };
        let mut changes = time.subscribe();
        let mut sleep = (0, Duration::ZERO);
        time.send_modify(|time| {
            time.last_sleep += 1;
            sleep = (time.last_sleep, time.passed.saturating_add(duration));
            time.sleeps.insert(sleep.0, sleep.1);
        });
        let (number, end) = sleep;
        let _sleep = ManualSleep { time, number };
        // `time` is the sender.
        let _ = changes.wait_for(|time| time.passed >= end).await;
    }
}

impl ClockControl {
    /// Lets time pass, and wakes the tasks that sleep no longer than that.
    pub fn advance(&self, by: Duration) {
        self.0.send_modify(|time| {
            time.wall = time.wall.saturating_add(by).unwrap_or(Timestamp::MAX);
            time.passed = time.passed.saturating_add(by);
        });
    }

    /// Sets the wall clock, as an operator does. No time passes, and nothing wakes.
    pub fn set(&self, wall: Timestamp) {
        self.0.send_modify(|time| time.wall = wall);
    }

    /// Waits until this number of tasks sleep. A task that was woken finishes its work before it
    /// sleeps again.
    pub async fn wait_for_sleeps(&self, count: usize) {
        // `self` owns the sender.
        let _ = self.0.subscribe().wait_for(|time| time.unfinished() >= count).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Timestamp {
        "2026-03-28T23:00:00Z".parse().expect("a time")
    }

    #[tokio::test]
    async fn a_sleep_ends_when_its_time_has_passed() {
        let (clock, control) = Clock::manual(start());
        let sleeping = |seconds| {
            let clock = clock.clone();
            tokio::spawn(async move { clock.sleep(Duration::from_secs(seconds)).await })
        };
        let (short, long) = (sleeping(60), sleeping(61));
        control.wait_for_sleeps(2).await;
        control.set("2027-01-01T00:00:00Z".parse().expect("a time"));
        tokio::task::yield_now().await;
        assert!(!short.is_finished(), "nothing wakes when the wall clock is set");
        control.advance(Duration::from_secs(60));
        short.await.expect("a finished sleep");
        assert!(!long.is_finished());
        control.wait_for_sleeps(1).await;
        assert_eq!(clock.now().to_string(), "2027-01-01T00:01:00Z");
        assert_eq!(clock.boot_ms(), MANUAL_BOOT_MS + 60_000);
        long.abort();
        assert!(long.await.is_err());
        assert_eq!(control.0.borrow().sleeps.len(), 0, "a dropped sleep is forgotten");
    }

    #[tokio::test]
    async fn the_clock_of_the_system_is_not_moved() {
        let clock = Clock::system();
        let (before, boot) = (Timestamp::now(), boot_ms());
        clock.sleep(Duration::from_millis(1)).await;
        assert!(before < clock.now() && boot <= clock.boot_ms());
        assert!(before.as_millisecond() <= clock.now_ms());
    }
}
