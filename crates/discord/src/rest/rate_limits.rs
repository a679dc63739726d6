//! The rate limits that Discord reported, and the waiting times because of them.
//!
//! Does no I/O and reads no clock. No limit is hard-coded; they are learned from the headers of
//! Discord's answers (Discord documentation, topics/rate-limits). Tested below and by
//! `tests/discord/`.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// A route with its own limit: its template, and the channel, guild or interaction in its path.
pub(crate) type Bucket = (&'static str, u64);

/// The number of answers with 401, 403 or 429 in ten minutes after which no more requests are sent.
/// Discord bans an address after 10,000.
const MAX_INVALID: usize = 9_000;
const INVALID_SPAN: Duration = Duration::from_secs(600);
/// The number of windows above which windows that have ended are dropped.
const WINDOWS_KEPT: usize = 512;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RateHeaders {
    /// Discord's name of the window, which several routes may share.
    pub(crate) name: Option<String>,
    pub(crate) remaining: Option<u32>,
    pub(crate) reset_after: Option<Duration>,
}

#[derive(Debug)]
struct RateWindow {
    remaining: u32,
    ends: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct RateLimits {
    names: HashMap<&'static str, String>,
    windows: HashMap<(String, u64), RateWindow>,
    closed_until: Option<Instant>,
    invalid: VecDeque<Instant>,
}

impl RateLimits {
    /// Takes one request out of the window of its route, or returns how long to wait before asking
    /// again.
    pub(crate) fn take(&mut self, bucket: Option<Bucket>, now: Instant) -> Result<(), Duration> {
        if let Some(until) = self.closed_until {
            if until > now {
                return Err(until - now);
            }
            self.closed_until = None;
        }
        let Some(key) = bucket.map(|bucket| self.key(bucket)) else { return Ok(()) };
        match self.windows.get_mut(&key) {
            Some(window) if window.ends > now => {
                if window.remaining == 0 {
                    return Err(window.ends - now);
                }
                window.remaining -= 1;
            }
            Some(_) => {
                self.windows.remove(&key);
            }
            None => {}
        }
        Ok(())
    }

    pub(crate) fn learn(&mut self, bucket: Option<Bucket>, headers: &RateHeaders, now: Instant) {
        let Some(bucket) = bucket else { return };
        if let Some(name) = &headers.name
            && self.names.get(bucket.0) != Some(name)
        {
            self.names.insert(bucket.0, name.clone());
        }
        if let (Some(remaining), Some(reset_after)) = (headers.remaining, headers.reset_after) {
            if self.windows.len() >= WINDOWS_KEPT {
                self.windows.retain(|_, window| window.ends > now);
            }
            let key = self.key(bucket);
            self.windows.insert(key, RateWindow { remaining, ends: now + reset_after });
        }
    }

    /// Learns from a 429 that this route, or with `global` every route, is closed for
    /// `retry_after`.
    pub(crate) fn refused(
        &mut self,
        bucket: Option<Bucket>,
        global: bool,
        retry_after: Duration,
        now: Instant,
    ) {
        match bucket {
            Some(bucket) if !global => {
                let key = self.key(bucket);
                self.windows.insert(key, RateWindow { remaining: 0, ends: now + retry_after });
            }
            _ if global => self.closed_until = Some(now + retry_after),
            _ => {}
        }
    }

    /// Counts an answer that may lead to a ban. Returns how many there were in the last ten
    /// minutes.
    pub(crate) fn invalid(&mut self, now: Instant) -> usize {
        self.invalid.push_back(now);
        self.invalid_lately(now)
    }

    /// Returns how long no request may be sent because too many were invalid.
    pub(crate) fn penalty(&mut self, now: Instant) -> Option<Duration> {
        (self.invalid_lately(now) >= MAX_INVALID).then(|| {
            let oldest = self.invalid.front().expect("there are thousands");
            INVALID_SPAN.saturating_sub(now - *oldest)
        })
    }

    pub(crate) fn invalid_lately(&mut self, now: Instant) -> usize {
        while self.invalid.front().is_some_and(|at| now.duration_since(*at) >= INVALID_SPAN) {
            self.invalid.pop_front();
        }
        self.invalid.len()
    }

    fn key(&self, bucket: Bucket) -> (String, u64) {
        (self.names.get(bucket.0).cloned().unwrap_or_else(|| bucket.0.to_owned()), bucket.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POST: Bucket = ("POST messages", 1);
    const PATCH: Bucket = ("PATCH message", 1);

    fn headers(remaining: u32, seconds: u64) -> RateHeaders {
        RateHeaders {
            name: Some("abc".to_owned()),
            remaining: Some(remaining),
            reset_after: Some(Duration::from_secs(seconds)),
        }
    }

    #[test]
    fn an_empty_window_is_waited_for_and_then_forgotten() {
        let (mut limits, now) = (RateLimits::default(), Instant::now());
        assert_eq!(limits.take(Some(POST), now), Ok(()));
        limits.learn(Some(POST), &headers(1, 5), now);
        assert_eq!(limits.take(Some(POST), now), Ok(()));
        assert_eq!(limits.take(Some(POST), now), Err(Duration::from_secs(5)));
        assert_eq!(
            limits.take(Some(("POST messages", 2)), now),
            Ok(()),
            "another channel has its own window"
        );
        assert_eq!(limits.take(Some(POST), now + Duration::from_secs(5)), Ok(()));
    }

    #[test]
    fn routes_with_one_name_share_a_window() {
        let (mut limits, now) = (RateLimits::default(), Instant::now());
        limits.learn(Some(PATCH), &headers(4, 5), now);
        limits.learn(Some(POST), &headers(0, 5), now);
        assert!(limits.take(Some(PATCH), now).is_err());
    }

    #[test]
    fn a_global_refusal_stops_every_route_and_a_plain_one_only_its_own() {
        let (mut limits, now) = (RateLimits::default(), Instant::now());
        limits.refused(Some(POST), false, Duration::from_secs(2), now);
        assert!(limits.take(Some(POST), now).is_err());
        assert!(limits.take(Some(PATCH), now).is_ok());
        limits.refused(Some(POST), true, Duration::from_secs(1), now);
        assert_eq!(limits.take(None, now), Err(Duration::from_secs(1)));
        assert!(limits.take(Some(PATCH), now + Duration::from_secs(1)).is_ok());
    }

    #[test]
    fn too_many_invalid_requests_stop_everything_before_discord_bans_the_address() {
        let (mut limits, now) = (RateLimits::default(), Instant::now());
        for _ in 0..MAX_INVALID {
            assert_eq!(limits.penalty(now), None);
            limits.invalid(now);
        }
        assert_eq!(
            limits.penalty(now + Duration::from_secs(1)),
            Some(INVALID_SPAN - Duration::from_secs(1))
        );
        assert_eq!(limits.penalty(now + INVALID_SPAN), None);
    }
}
