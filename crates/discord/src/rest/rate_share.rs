//! Limits the requests per second, and decides which go first. Discord accepts 50 requests per
//! second of a bot, regardless of their routes (its documentation, topics/rate-limits). Does no I/O
//! and reads no clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

const SPAN: Duration = Duration::from_secs(1);

/// The priority of a request if the limit does not permit all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// People wait for the request. It is sent as soon as the limit permits.
    Answer,
    /// The typing indicator, and texts that the next one replaces.
    Draft,
    /// Reactions that carry information. They wait until the limit permits them.
    Marker,
    /// Reactions that are left out if the limit does not permit them now.
    Hint,
}

/// The times of the requests of the last second and of the waiting requests. At most `per_second`
/// requests are sent in any second.
#[derive(Debug)]
pub(crate) struct RateShare {
    per_second: usize,
    /// The times in order. A waiting request has the earliest time at which it may be sent.
    times: VecDeque<Instant>,
    /// How many times were dropped from the front.
    forgotten: u64,
}

/// The place of a request in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

impl RateShare {
    /// Creates a limit of `per_second` requests per second; 0 means no limit.
    pub(crate) fn new(per_second: usize) -> Self {
        Self { per_second, times: VecDeque::new(), forgotten: 0 }
    }

    /// Changes the limit. Reserved places stay valid.
    pub(crate) fn set_limit(&mut self, per_second: usize) {
        self.per_second = per_second;
    }

    /// Reserves a place. An answer always gets a place. Other requests get one only if enough
    /// places are left for answers. Returns `None` if there is no limit.
    ///
    /// # Errors
    /// The time to wait before another attempt.
    pub(crate) fn take(&mut self, rank: Rank, now: Instant) -> Result<Option<Ticket>, Duration> {
        if self.per_second == 0 {
            return Ok(None);
        }
        while self.times.front().is_some_and(|at| now.saturating_duration_since(*at) >= SPAN) {
            self.times.pop_front();
            self.forgotten += 1;
        }
        let share = match rank {
            Rank::Answer => self.per_second,
            Rank::Draft => (self.per_second * 3).div_ceil(4),
            Rank::Marker | Rank::Hint => self.per_second.div_ceil(2),
        };
        let used = self.times.len();
        // A place is free one second after the request that is `share` places earlier.
        let free = used.checked_sub(share).map_or(now, |before| self.times[before] + SPAN);
        if free > now && rank != Rank::Answer {
            return Err(free - now);
        }
        self.times.push_back(free.max(now));
        Ok(Some(Ticket(self.forgotten + used as u64)))
    }

    /// Starts the request if its time has come. If it starts late, the requests after it may have
    /// to wait longer, because Discord counts requests when they arrive.
    ///
    /// # Errors
    /// The time to wait.
    pub(crate) fn start(&mut self, ticket: Ticket, now: Instant) -> Result<(), Duration> {
        // A place that is no longer in `times` was due more than a second ago.
        let Some(mut at) = ticket
            .0
            .checked_sub(self.forgotten)
            .map(|at| at as usize)
            .filter(|at| *at < self.times.len())
        else {
            return Ok(());
        };
        if self.times[at] > now {
            return Err(self.times[at] - now);
        }
        self.times[at] = now;
        while at + self.per_second < self.times.len()
            && self.times[at + self.per_second] < self.times[at] + SPAN
        {
            self.times[at + self.per_second] = self.times[at] + SPAN;
            at += self.per_second;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn no_second_exceeds_the_limit_even_if_requests_are_late() {
        let (mut flow, began) = (RateShare::new(45), Instant::now());
        let (mut out, mut waiting, mut answers): (Vec<Instant>, Vec<Ticket>, usize) =
            (Vec::new(), Vec::new(), 0);
        for number in 0..60_000_u32 {
            // Nothing is sent for 300 ms of every second.
            let now = began + MS * number;
            if number < 3_000 {
                let rank = [Rank::Answer, Rank::Marker, Rank::Draft, Rank::Answer, Rank::Hint]
                    [number as usize % 5];
                answers += usize::from(rank == Rank::Answer);
                waiting.extend(flow.take(rank, now).ok().flatten());
            }
            if number % 1_000 > 300 {
                waiting.retain(|ticket| match flow.start(*ticket, now) {
                    Ok(()) => {
                        out.push(now);
                        false
                    }
                    Err(_) => true,
                });
            }
        }
        assert!(waiting.is_empty() && out.len() >= answers, "every answer is sent: {}", out.len());
        assert!(out.windows(46).all(|some| some[45] - some[0] >= SPAN), "46 within a second");
    }

    #[test]
    fn markers_and_drafts_leave_room_for_answers() {
        let (mut flow, now) = (RateShare::new(10), Instant::now());
        let accepted = |flow: &mut RateShare, rank, at| {
            (0..20).filter(|_| flow.take(rank, at).is_ok()).count()
        };
        assert_eq!(accepted(&mut flow, Rank::Marker, now), 5);
        assert_eq!(accepted(&mut flow, Rank::Draft, now), 3);
        let mut answer = |wait: Option<Duration>| {
            let ticket = flow.take(Rank::Answer, now).unwrap().unwrap();
            assert_eq!(flow.start(ticket, now).err(), wait);
        };
        answer(None);
        answer(None);
        answer(Some(SPAN));
        assert_eq!(flow.take(Rank::Marker, now + SPAN / 2), Err(SPAN / 2));
        assert_eq!(accepted(&mut flow, Rank::Hint, now + SPAN), 4, "places already given count");
    }

    #[test]
    fn a_changed_limit_applies_from_the_next_request() {
        let (mut flow, now) = (RateShare::new(10), Instant::now());
        let at_once = |flow: &mut RateShare, at| {
            let mut out = 0;
            while let Ok(Some(ticket)) = flow.take(Rank::Answer, at) {
                if flow.start(ticket, at).is_err() {
                    break;
                }
                out += 1;
            }
            out
        };
        flow.set_limit(5);
        assert_eq!(at_once(&mut flow, now), 5);
        flow.set_limit(2);
        assert_eq!(at_once(&mut flow, now + SPAN / 2), 0);
        flow.set_limit(10);
        assert_eq!(at_once(&mut flow, now + SPAN * 4), 10);
    }

    #[test]
    fn without_a_limit_nothing_waits() {
        let (mut flow, now) = (RateShare::new(0), Instant::now());
        assert!((0..10_000).all(|_| flow.take(Rank::Marker, now) == Ok(None)));
    }
}
