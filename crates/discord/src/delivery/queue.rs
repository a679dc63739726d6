//! Answers that cannot be sent yet: their order in a channel, and the conditions that they wait
//! for.
//!
//! Delivery is never given up here. An answer that Discord refuses for now is sent again as soon as
//! the obstacle is gone (Discord answers again, a rate limit ends, a permission is granted), and
//! also at intervals. Later answers of the channel wait for it. Tested by
//! `tests/discord/holding.rs` and `tests/gateway/delivery.rs`.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

/// Number of channels above which the channels without a waiting answer are removed.
const PRUNE_THRESHOLD: usize = 512;

/// The order of deliveries in all channels, and the notification about changed permissions.
pub(crate) struct DeliveryQueues {
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
pub(crate) struct DeliveryTurn {
    before: Option<oneshot::Receiver<()>>,
    _over: oneshot::Sender<()>,
}

impl DeliveryTurn {
    /// Waits until all earlier deliveries are over.
    pub(crate) async fn wait(&mut self) {
        if let Some(before) = &mut self.before {
            // Resolves when the sender is dropped.
            let _ = before.await;
            self.before = None;
        }
    }
}

impl DeliveryQueues {
    /// Takes the last place in a channel.
    pub(crate) fn enter(&self, channel: u64) -> DeliveryTurn {
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

    pub(crate) fn is_busy(&self, channel: u64) -> bool {
        self.last_deliveries.lock().get_mut(&channel).is_some_and(is_waiting)
    }

    /// Returns a receiver that changes when the permissions of the bot have changed.
    pub(crate) fn permission_changes(&self) -> watch::Receiver<u64> {
        self.permissions.subscribe()
    }

    /// Wakes the deliveries that wait for permissions, because the permissions of the bot have
    /// changed somewhere.
    pub(crate) fn permissions_changed(&self) {
        self.permissions.send_modify(|count| *count += 1);
    }
}

fn is_waiting(last: &mut oneshot::Receiver<()>) -> bool {
    matches!(last.try_recv(), Err(oneshot::error::TryRecvError::Empty))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
}
