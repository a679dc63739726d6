//! The typing indicator: shown at once, kept up while the agent works, and ended before the answer
//! is posted.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::api::Api;
use crate::api::endpoints::Endpoint;
use crate::rest::Timeouts;
use crate::rest::rate_share::Rank;

/// Discord shows the indicator for ten seconds.
const TYPING_INTERVAL: Duration = Duration::from_secs(8);
/// Time limits of one request. It is not repeated, because the next one follows soon.
const TYPING_TIMEOUTS: Timeouts =
    Timeouts::new(Duration::from_secs(5), Duration::ZERO).with_rank(Rank::Draft);

/// Shows the indicator until it is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Typing {
    refresh: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Typing {
    /// Shows the indicator. Errors are ignored, but if the bot may not write in the channel, it is
    /// not shown again.
    pub(crate) fn start(api: Api, channel: u64) -> Self {
        let refresh = Arc::new(Notify::new());
        let wake = Arc::clone(&refresh);
        let task = tokio::spawn(async move {
            loop {
                if api
                    .send(Endpoint::Typing { channel }, None, TYPING_TIMEOUTS)
                    .await
                    .is_err_and(|error| error.is_forbidden())
                {
                    return;
                }
                let _ = tokio::time::timeout(TYPING_INTERVAL, wake.notified()).await;
            }
        });
        Self { refresh, task }
    }

    /// Shows the indicator again, because Discord removes it with every message of the bot.
    pub(crate) fn again(&self) {
        self.refresh.notify_one();
    }

    /// Ends the indicator. Cancels a pending request, which would show the indicator again if it
    /// arrived after the answer.
    pub(crate) async fn stop(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        self.task.abort();
    }
}
