//! Limits how many prompts a person may send per minute. A whole minute's worth may come at once.
//!
//! Events without a person are not counted. `tests/gateway/access.rs` tests the limit end to end.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use aetheel_model::id::UserId;

/// The number of people above which people without recent prompts are removed from memory.
const PEOPLE_LIMIT: usize = 1_000;

type Limiter<C> =
    RateLimiter<UserId, HashMapStateStore<UserId>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// Counts the prompts of each person.
#[derive(Debug)]
pub(crate) struct RateLimit<C: Clock + Clone = DefaultClock> {
    limiter: Option<Limiter<C>>,
    clock: C,
}

impl RateLimit {
    /// Allows `a_minute` prompts per person and minute; `None` for no limit.
    pub(crate) fn new(a_minute: Option<u32>) -> Self {
        Self::with_clock(a_minute, DefaultClock::default())
    }
}

impl<C: Clock + Clone> RateLimit<C> {
    fn with_clock(a_minute: Option<u32>, clock: C) -> Self {
        let quota = a_minute.and_then(NonZeroU32::new).map(Quota::per_minute);
        Self {
            limiter: quota
                .map(|quota| RateLimiter::new(quota, HashMapStateStore::default(), clock.clone())),
            clock,
        }
    }

    /// Counts a prompt of a person.
    ///
    /// # Errors
    /// The time until the next prompt is allowed. The refused prompt is not counted.
    pub(crate) fn count(&self, person: UserId) -> Result<(), Duration> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        if limiter.len() >= PEOPLE_LIMIT {
            limiter.retain_recent();
        }
        limiter.check_key(&person).map_err(|until| until.wait_time_from(self.clock.now()))
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    #[test]
    fn a_burst_of_a_minutes_worth_is_allowed() {
        let clock = FakeRelativeClock::default();
        let limit = RateLimit::with_clock(Some(6), clock.clone());
        for _ in 0..6 {
            assert_eq!(limit.count(UserId::discord(1)), Ok(()));
        }
        let wait = limit.count(UserId::discord(1)).expect_err("that is enough");
        assert_eq!(wait, Duration::from_secs(10));
        assert_eq!(limit.count(UserId::discord(2)), Ok(()), "other people are not limited");
        clock.advance(wait);
        assert_eq!(limit.count(UserId::discord(1)), Ok(()));
        assert!(limit.count(UserId::discord(1)).is_err());
    }

    #[test]
    fn no_limit_allows_everything_and_quiet_people_are_forgotten() {
        let limit = RateLimit::new(None);
        assert!((0..10_000).all(|_| limit.count(UserId::discord(1)).is_ok()));
        let clock = FakeRelativeClock::default();
        let limit = RateLimit::with_clock(Some(60), clock.clone());
        for person in 0..10_000 {
            assert_eq!(limit.count(UserId::discord(person)), Ok(()));
            clock.advance(Duration::from_secs(1));
        }
        assert!(limit.limiter.expect("a limiter").len() <= PEOPLE_LIMIT);
    }
}
