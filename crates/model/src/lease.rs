//! Until when this gateway may act for its bot.
//!
//! Where one machine serves the bot, always. In a cluster a node acts as long as it has the bot to
//! itself: whoever sends or starts something looks here first, so that one that was paused for
//! longer does nothing when it wakes up.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Instants of a clock that goes on while the machine sleeps (`CLOCK_BOOTTIME`), in milliseconds;
/// the same for all processes of a machine.
#[must_use]
pub fn boot_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanoseconds) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds * 1_000 + nanoseconds / 1_000_000
}

/// The instant of what never ends.
pub const ENDLESS: u64 = u64::MAX;
/// It is over for good.
const OVER: u64 = 0;

/// Until when something may be done. Cheap to clone; clones are the same.
#[derive(Clone, Debug)]
pub struct Lease(Arc<watch::Sender<u64>>);

impl Lease {
    /// One that never ends.
    #[must_use]
    pub fn endless() -> Self {
        Self(Arc::new(watch::Sender::new(ENDLESS)))
    }

    /// One that lasts until an instant of [`boot_ms`].
    #[must_use]
    pub fn until(until_ms: u64) -> Self {
        Self(Arc::new(watch::Sender::new(until_ms)))
    }

    /// Whether it lasts at this moment.
    #[must_use]
    pub fn lasts(&self) -> bool {
        let until = *self.0.borrow();
        until == ENDLESS || boot_ms() < until
    }

    /// How long it still lasts; zero: it is over.
    #[must_use]
    pub fn left(&self) -> Duration {
        match *self.0.borrow() {
            ENDLESS => Duration::MAX,
            until => Duration::from_millis(until.saturating_sub(boot_ms())),
        }
    }

    /// Lets it last until an instant of [`boot_ms`], if it lasts and that is later.
    pub fn extend(&self, until_ms: u64) {
        self.0.send_if_modified(|until| {
            let longer = *until != OVER && *until < until_ms;
            if longer {
                *until = until_ms;
            }
            longer
        });
    }

    /// Lets it last until this instant of [`boot_ms`], be that sooner or later than before.
    pub fn set(&self, until_ms: u64) {
        self.0.send_replace(until_ms);
    }

    /// Whether it ends at all.
    #[must_use]
    pub fn ends(&self) -> bool {
        *self.0.borrow() != ENDLESS
    }

    /// Ends it for good.
    pub fn end(&self) {
        self.0.send_replace(OVER);
    }

    /// Whether it was ended for good.
    #[must_use]
    pub fn is_over(&self) -> bool {
        *self.0.borrow() == OVER
    }

    /// Returns once it lasts: at once, or when it is extended after it ran out. Never returns once
    /// it was ended for good.
    pub async fn lasting(&self) {
        let mut until = self.0.subscribe();
        while !self.lasts() {
            // The sender lives in `self`.
            let _ = until.changed().await;
        }
    }

    /// Returns when it was ended for good.
    pub async fn over(&self) {
        // The sender lives in `self`.
        let _ = self.0.subscribe().wait_for(|until| *until == OVER).await;
    }

    /// The instant of [`boot_ms`] until which it lasts, each time that it is another one.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_extended_while_it_was_not_ended_and_never_shortened() {
        let lease = Lease::until(boot_ms() + 60_000);
        assert!(lease.lasts() && lease.left() > Duration::from_secs(50));
        lease.extend(1);
        assert!(lease.lasts());
        lease.end();
        lease.extend(boot_ms() + 60_000);
        assert!(!lease.lasts() && lease.is_over() && lease.left().is_zero());
    }

    #[test]
    fn one_that_ran_out_does_not_last_and_may_be_extended() {
        let lease = Lease::until(1);
        assert!(!lease.lasts() && !lease.is_over());
        lease.extend(boot_ms() + 60_000);
        assert!(lease.lasts());
        assert!(Lease::endless().lasts());
    }

    #[tokio::test]
    async fn whoever_waits_goes_on_when_one_that_ran_out_is_extended() {
        let lease = Lease::until(1);
        let waiting = tokio::spawn({
            let lease = lease.clone();
            async move { lease.lasting().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        lease.extend(boot_ms() + 60_000);
        waiting.await.unwrap();
        lease.lasting().await;
    }
}
