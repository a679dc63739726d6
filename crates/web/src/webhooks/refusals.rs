//! The log of refused calls. It logs the first of a kind, and later ones at intervals, with a
//! count.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::super::connection::HttpCaller;
use super::answer::WebhookRefusal;

/// Time between two lines of the same kind.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The last log line for each status and existing webhook. Calls of unknown webhooks share one
/// entry for each status.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<HashMap<(u16, Option<String>), RefusalCount>>);

#[derive(Debug)]
struct RefusalCount {
    at: Instant,
    since: u64,
}

impl Refusals {
    /// Logs a refusal, unless one of its kind was logged recently. Anybody can cause refusals, so
    /// the line contains nothing that the caller chose: no unknown name, no header, no part of a
    /// body.
    pub(super) fn log(&self, webhook: Option<&str>, caller: &HttpCaller, refused: &WebhookRefusal) {
        let now = Instant::now();
        let Some(others) = self.due((refused.status(), webhook.map(str::to_owned)), now) else {
            return;
        };
        let (status, from) = (refused.status(), caller.address.ip());
        tracing::warn!(webhook, status, %from, others, "webhook refused: {refused}");
    }

    /// Returns the number of refusals since the last line, or `None` if another line is not due
    /// yet.
    fn due(&self, kind: (u16, Option<String>), now: Instant) -> Option<u64> {
        let mut known = self.0.lock();
        match known.get_mut(&kind) {
            Some(logged) if now.duration_since(logged.at) < REPORT_INTERVAL => {
                logged.since += 1;
                None
            }
            Some(logged) => {
                let others = std::mem::take(&mut logged.since);
                logged.at = now;
                Some(others)
            }
            None => {
                known.insert(kind, RefusalCount { at: now, since: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_refusals_are_counted_and_logged_at_intervals() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        let due = |status, after| refusals.due((status, None), now + after);
        assert_eq!(due(401, Duration::ZERO), Some(0));
        assert!((0..1_000).all(|_| due(401, Duration::from_secs(1)).is_none()));
        assert_eq!(due(429, Duration::from_secs(1)), Some(0), "another kind has its own line");
        assert_eq!(due(401, REPORT_INTERVAL), Some(1_000));
        assert_eq!(due(401, REPORT_INTERVAL * 2), Some(0));
    }
}
