//! The typing indicator: on within a moment, kept up while the agent works, off before the answer
//! is posted.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::api::Api;
use super::flow::Rank;
use super::rest::Timeouts;

/// Discord shows it for ten seconds.
const TYPING_INTERVAL: Duration = Duration::from_secs(8);
/// Not worth repeating: the next one comes soon.
const TYPING_TIMEOUTS: Timeouts =
    Timeouts::new(Duration::from_secs(5), Duration::ZERO).of(Rank::Draft);

/// Keeps the indicator on until it is stopped or dropped.
#[derive(Debug)]
pub(super) struct Typing {
    again: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Typing {
    /// Begins; errors are ignored, except that a channel the bot may not write to is asked only
    /// once.
    pub(super) fn start(api: Api, channel: u64) -> Self {
        let again = Arc::new(Notify::new());
        let wake = Arc::clone(&again);
        let task = tokio::spawn(async move {
            loop {
                if api
                    .typing(channel, TYPING_TIMEOUTS)
                    .await
                    .is_err_and(|error| error.is_forbidden())
                {
                    return;
                }
                let _ = tokio::time::timeout(TYPING_INTERVAL, wake.notified()).await;
            }
        });
        Self { again, task }
    }

    /// Switches it on again: Discord switches it off with every message the bot posts.
    pub(super) fn again(&self) {
        self.again.notify_one();
    }

    /// Ends it for good: a request still under way is dropped, because one that came after the
    /// answer would linger.
    pub(super) async fn stop(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        self.task.abort();
    }
}
