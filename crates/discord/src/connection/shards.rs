//! The shards of the bot: their number, which are connected, and when each may log in.
//!
//! Discord sends the events of a guild to one shard, which the id of the guild determines, and
//! direct messages to the first shard. One node has all shards, and each shard logs in separately.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// A connection that was not seen for this time counts as down.
pub(crate) const CONNECTED_GRACE: Duration = Duration::from_secs(2);

/// When each shard was last seen connected.
#[derive(Debug, Default)]
pub(crate) struct Shards(Mutex<Vec<Option<Instant>>>);

impl Shards {
    /// Sets the number of shards, of which none is connected.
    pub(crate) fn reset(&self, count: u32) {
        *self.0.lock() = vec![None; count as usize];
    }

    pub(crate) fn mark_connected(&self, shard: u32) {
        if let Some(seen) = self.0.lock().get_mut(shard as usize) {
            *seen = Some(Instant::now());
        }
    }

    /// Returns how many shards are connected, and how many there are.
    pub(crate) fn connected(&self) -> (usize, usize) {
        let shards = self.0.lock();
        let up = shards.iter().flatten().filter(|at| at.elapsed() < CONNECTED_GRACE).count();
        (up, shards.len())
    }
}

/// Delays the logins of shards as Discord requires. Discord divides shards into `max_concurrency`
/// groups, with a pause between two logins of a group. A shard belongs to the group of its number
/// modulo `max_concurrency`.
#[derive(Debug)]
pub(crate) struct LoginPace {
    interval: Duration,
    groups: Mutex<HashMap<u32, Arc<tokio::sync::Mutex<Option<tokio::time::Instant>>>>>,
}

/// The permission to log in while it is held. The pause begins when it is dropped.
pub(crate) struct LoginSlot(OwnedMutexGuard<Option<tokio::time::Instant>>);

impl LoginPace {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, groups: Mutex::default() }
    }

    /// Waits until the next shard of a group may log in, in the order of the calls. `line` is the
    /// number of the group.
    pub(crate) async fn slot(&self, line: u32) -> LoginSlot {
        let line = Arc::clone(self.groups.lock().entry(line).or_default());
        let last = line.lock_owned().await;
        if let Some(last) = *last {
            tokio::time::sleep_until(last + self.interval).await;
        }
        LoginSlot(last)
    }
}

impl Drop for LoginSlot {
    fn drop(&mut self) {
        *self.0 = Some(tokio::time::Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_count_as_connected_one_by_one() {
        let shards = Shards::default();
        assert_eq!(shards.connected(), (0, 0));
        shards.reset(3);
        shards.mark_connected(1);
        shards.mark_connected(1);
        shards.mark_connected(3);
        assert_eq!(shards.connected(), (1, 3));
        shards.reset(2);
        assert_eq!(shards.connected(), (0, 2), "a new login was not seen yet");
    }

    #[tokio::test]
    async fn logins_of_a_line_are_paced_and_lines_are_independent() {
        let interval = Duration::from_millis(50);
        let pace = Arc::new(LoginPace::new(interval));
        let first = pace.slot(0).await;
        let next = tokio::spawn({
            let pace = Arc::clone(&pace);
            async move {
                let _slot = pace.slot(0).await;
                Instant::now()
            }
        });
        // Another group is free.
        drop(pace.slot(1).await);
        assert!(!next.is_finished(), "one of a line logs in");
        drop(first);
        let freed = Instant::now();
        assert!(next.await.unwrap() + Duration::from_millis(2) >= freed + interval);
        // A shard that stops waiting does not block its group.
        let gave_up = tokio::time::timeout(Duration::ZERO, pace.slot(0)).await;
        assert!(gave_up.is_err(), "there is a pause first");
        drop(pace.slot(0).await);
    }
}
