//! Temporary reasons for which an answer cannot be sent, and the wait for their end.

use std::time::Duration;

use tokio::sync::watch;

use super::context::BotContext;
use crate::rest::RestError;

/// Maximum pause between two attempts while Discord is unreachable. The pause ends earlier if
/// another request succeeds.
const AWAY_RETRY_INTERVAL: Duration = Duration::from_secs(30);

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

pub(crate) struct ObstacleWatch {
    recoveries: watch::Receiver<u64>,
    permissions: watch::Receiver<u64>,
}

impl ObstacleWatch {
    /// Begins to observe. Called before the attempt, so that no change during the attempt is
    /// missed.
    pub(crate) fn begin(inner: &BotContext) -> Self {
        Self {
            recoveries: inner.api.rest.recoveries(),
            permissions: inner.delivery_queues.permission_changes(),
        }
    }

    /// Waits until another attempt may succeed. Returns `false` if no attempt can. `tries` is the
    /// number of attempts so far, from which the pause is computed.
    pub(crate) async fn wait_until_over(
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
