//! The time until which this gateway may act for its bot.
//!
//! On a single machine, the lease never ends. In a cluster, the lease of a node ends before another
//! node can take over its work. Code that sends or starts something checks the lease first, so that
//! a machine that was paused for longer does nothing when it continues.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Returns the time of a clock that also runs while the machine sleeps (`CLOCK_BOOTTIME`), in
/// milliseconds. It is the same for all processes of a machine.
#[must_use]
pub fn boot_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanoseconds) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds * 1_000 + nanoseconds / 1_000_000
}

/// The time until which an endless lease lasts.
pub const ENDLESS: u64 = u64::MAX;
/// Marks a lease that has ended for good.
const ENDED: u64 = 0;

/// The time until which something may be done. Cheap to clone; clones share the time.
#[derive(Clone, Debug)]
pub struct Lease(Arc<watch::Sender<u64>>);

impl Lease {
    /// Creates a lease that never ends.
    #[must_use]
    pub fn endless() -> Self {
        Self(Arc::new(watch::Sender::new(ENDLESS)))
    }

    /// Creates a lease that lasts until a time of [`boot_ms`].
    #[must_use]
    pub fn until(until_ms: u64) -> Self {
        Self(Arc::new(watch::Sender::new(until_ms)))
    }

    /// Returns whether the lease currently lasts.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let until = *self.0.borrow();
        until == ENDLESS || boot_ms() < until
    }

    /// Returns how long the lease still lasts; zero if it has run out.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match *self.0.borrow() {
            ENDLESS => Duration::MAX,
            until => Duration::from_millis(until.saturating_sub(boot_ms())),
        }
    }

    /// Extends the lease until a time of [`boot_ms`], unless it was ended or already lasts longer.
    pub fn extend(&self, until_ms: u64) {
        self.0.send_if_modified(|until| {
            let longer = *until != ENDED && *until < until_ms;
            if longer {
                *until = until_ms;
            }
            longer
        });
    }

    /// Sets the time of [`boot_ms`] until which the lease lasts, sooner or later than before, unless
    /// it was ended for good.
    pub fn set(&self, until_ms: u64) {
        self.0.send_if_modified(|until| {
            *until != ENDED && std::mem::replace(until, until_ms) != until_ms
        });
    }

    /// Returns whether the lease can end.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        *self.0.borrow() != ENDLESS
    }

    /// Ends the lease for good.
    pub fn end(&self) {
        self.0.send_replace(ENDED);
    }

    /// Returns whether the lease was ended for good.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        *self.0.borrow() == ENDED
    }

    /// Waits until the lease lasts: returns at once, or when it is extended after it ran out. Never
    /// returns if it was ended for good.
    pub async fn wait_until_valid(&self) {
        let mut until = self.0.subscribe();
        while !self.is_valid() {
            // `self` owns the sender.
            let _ = until.changed().await;
        }
    }

    /// Waits until the lease is ended for good.
    pub async fn wait_until_ended(&self) {
        // `self` owns the sender.
        let _ = self.0.subscribe().wait_for(|until| *until == ENDED).await;
    }

    /// Returns a receiver of the time of [`boot_ms`] until which the lease lasts.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_can_be_extended_until_it_is_ended_and_is_never_shortened() {
        let lease = Lease::until(boot_ms() + 60_000);
        assert!(lease.is_valid() && lease.remaining() > Duration::from_secs(50));
        lease.extend(1);
        assert!(lease.is_valid());
        lease.end();
        lease.extend(boot_ms() + 60_000);
        lease.set(boot_ms() + 60_000);
        assert!(!lease.is_valid() && lease.is_ended() && lease.remaining().is_zero());
    }

    #[test]
    fn a_lease_that_ran_out_can_be_extended() {
        let lease = Lease::until(1);
        assert!(!lease.is_valid() && !lease.is_ended());
        lease.extend(boot_ms() + 60_000);
        assert!(lease.is_valid());
        assert!(Lease::endless().is_valid());
    }

    #[tokio::test]
    async fn waiting_ends_when_a_lease_that_ran_out_is_extended() {
        let lease = Lease::until(1);
        let waiting = tokio::spawn({
            let lease = lease.clone();
            async move { lease.wait_until_valid().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        lease.extend(boot_ms() + 60_000);
        waiting.await.unwrap();
        lease.wait_until_valid().await;
    }
}
