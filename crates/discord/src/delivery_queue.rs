//! Answers that cannot be sent yet: their order in a channel, and the conditions that they wait
//! for.
//!
//! Delivery is never given up here. An answer that Discord refuses for now is sent again as soon as
//! the obstacle is gone (Discord answers again, a rate limit ends, a permission is granted), and
//! also at intervals. Later answers of the channel wait for it. Tested by
//! `tests/discord/holding.rs` and `tests/gateway/delivery.rs`.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use super::BotContext;
use super::rest::RestError;

/// Maximum pause between two attempts while Discord is unreachable. The pause ends earlier if
/// another request succeeds.
const AWAY_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Number of channels above which the channels without a waiting answer are removed.
const PRUNE_THRESHOLD: usize = 512;

/// The order of deliveries in all channels, and the notification about changed permissions.
pub(super) struct DeliveryQueues {
    /// The end of the last delivery, by channel.
    last_deliveries: Mutex<HashMap<u64, oneshot::Receiver<()>>>,
    permissions: watch::Sender<u64>,
}

impl Default for DeliveryQueues {
    fn default() -> Self {
        Self { last_deliveries: Mutex::default(), permissions: watch::channel(0).0 }
    }
}

/// A place in the order of a channel's deliveries, until it is dropped.
pub(super) struct DeliveryTurn {
    before: Option<oneshot::Receiver<()>>,
    _over: oneshot::Sender<()>,
}

impl DeliveryTurn {
    /// Waits until all earlier deliveries are over.
    pub(super) async fn wait(&mut self) {
        if let Some(before) = &mut self.before {
            // Resolves when the sender is dropped.
            let _ = before.await;
            self.before = None;
        }
    }
}

impl DeliveryQueues {
    /// Takes the last place in a channel.
    pub(super) fn enter(&self, channel: u64) -> DeliveryTurn {
        let (over, is_over) = oneshot::channel();
        let mut lines = self.last_deliveries.lock();
        if lines.len() >= PRUNE_THRESHOLD {
            lines.retain(|_, last| is_waiting(last));
        }
        let mut before = lines.insert(channel, is_over);
        // An earlier delivery that is over needs no waiting.
        if !before.as_mut().is_some_and(is_waiting) {
            before = None;
        }
        DeliveryTurn { before, _over: over }
    }

    /// Returns whether an answer is being delivered in a channel.
    pub(super) fn is_busy(&self, channel: u64) -> bool {
        self.last_deliveries.lock().get_mut(&channel).is_some_and(is_waiting)
    }

    /// Wakes the deliveries that wait for permissions, because the permissions of the bot have
    /// changed somewhere.
    pub(super) fn permissions_changed(&self) {
        self.permissions.send_modify(|count| *count += 1);
    }
}

fn is_waiting(last: &mut oneshot::Receiver<()>) -> bool {
    matches!(last.try_recv(), Err(oneshot::error::TryRecvError::Empty))
}

/// A temporary reason for which an answer cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    Away,
    Limit(Duration),
    Permission,
}

impl Obstacle {
    /// Returns `None` if the answer can never be sent.
    fn of(error: &RestError) -> Option<Self> {
        match error {
            RestError::Unreachable { .. } => Some(Self::Away),
            RestError::Limited(wait) | RestError::Crowded(wait) => Some(Self::Limit(*wait)),
            error if error.is_unknown_channel() => None,
            error if error.is_forbidden() || error.is_archived() => Some(Self::Permission),
            RestError::Refused { .. } | RestError::TokenRefused | RestError::Untrusted(_) => None,
        }
    }
}

/// Waits for the end of an obstacle.
pub(super) struct ObstacleWatch {
    recoveries: watch::Receiver<u64>,
    permissions: watch::Receiver<u64>,
}

impl ObstacleWatch {
    /// Begins to observe. Called before the attempt, so that no change during the attempt is
    /// missed.
    pub(super) fn begin(inner: &BotContext) -> Self {
        Self {
            recoveries: inner.api.rest.recoveries(),
            permissions: inner.delivery_queues.permissions.subscribe(),
        }
    }

    /// Waits until another attempt may succeed. Returns `false` if no attempt can. `tries` is the
    /// number of attempts so far, from which the pause is computed.
    pub(super) async fn wait_until_over(
        mut self,
        inner: &BotContext,
        error: &RestError,
        tries: u32,
    ) -> bool {
        let Some(obstacle) = Obstacle::of(error) else { return false };
        let (clock, (first, most)) = (inner.api.rest.clock(), inner.options.time_limits.retry);
        let pause = first.saturating_mul(1 << tries.min(16)).min(most);
        // No wait fails, because the senders outlive this future.
        match obstacle {
            Obstacle::Limit(wait) => clock.sleep(wait).await,
            Obstacle::Away => tokio::select! {
                _ = self.recoveries.changed() => {}
                () = clock.sleep(pause.min(AWAY_RETRY_INTERVAL)) => {}
            },
            Obstacle::Permission => tokio::select! {
                _ = self.permissions.changed() => {}
                () = clock.sleep(pause) => {}
            },
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_delivery_waits_for_the_earlier_ones_of_its_channel() {
        let holding = DeliveryQueues::default();
        let (mut first, mut second, mut other) =
            (holding.enter(1), holding.enter(1), holding.enter(2));
        first.wait().await;
        other.wait().await;
        assert!(holding.is_busy(1) && holding.is_busy(2) && !holding.is_busy(3));
        assert!(
            tokio::time::timeout(Duration::from_millis(20), second.wait()).await.is_err(),
            "not before the first"
        );
        drop(first);
        second.wait().await;
        assert!(holding.is_busy(1));
        drop(second);
        assert!(!holding.is_busy(1));
        // A delivery that enters after the previous one was seen to be over.
        let mut third = holding.enter(1);
        third.wait().await;
        assert!(holding.is_busy(1));
    }

    #[test]
    fn only_undeliverable_answers_are_given_up() {
        let refused = |status, code| RestError::Refused { status, code, message: String::new() };
        let wait = Duration::from_secs(130);
        assert_eq!(Obstacle::of(&RestError::Limited(wait)), Some(Obstacle::Limit(wait)));
        assert_eq!(
            Obstacle::of(&RestError::Unreachable { waited: wait, last: String::new() }),
            Some(Obstacle::Away)
        );
        for code in [50_001, 50_013, 50_007] {
            assert_eq!(Obstacle::of(&refused(403, code)), Some(Obstacle::Permission));
        }
        assert_eq!(
            Obstacle::of(&refused(400, 50_083)),
            Some(Obstacle::Permission),
            "a thread that is archived"
        );
        for (status, code) in [(404, 10_003), (400, 50_035), (413, 0)] {
            assert_eq!(Obstacle::of(&refused(status, code)), None, "{code}");
        }
    }
}
