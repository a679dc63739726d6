//! Notices about messages that are not accepted, at most one in ten seconds per channel.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{debug, warn};

use crate::api::{Api, nonce, waiting_nonce};
use crate::rest::Timeouts;
use crate::rest::rate_share::Rank;

/// Minimum time between two notices in a channel.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(10);

/// Posts notices in the channels of the messages that they are about.
pub(super) struct ChannelNotices {
    api: Api,
    timeouts: Timeouts,
    /// When each channel last got a notice.
    reported: Mutex<HashMap<u64, Instant>>,
}

impl ChannelNotices {
    pub(super) fn new(api: Api, timeouts: Timeouts) -> Self {
        Self { api, timeouts, reported: Mutex::default() }
    }

    /// Returns whether a channel may get a notice now. If so, records that it gets one.
    pub(super) fn may_report(&self, channel: u64) -> bool {
        let (mut reported, now) = (self.reported.lock(), Instant::now());
        reported.retain(|_, at| now.duration_since(*at) < REFUSAL_INTERVAL);
        if reported.contains_key(&channel) {
            return false;
        }
        reported.insert(channel, now);
        true
    }

    /// Replies to a message with a notice, unless the channel got one recently.
    pub(super) fn report(&self, channel: u64, message: u64, text: String) {
        self.notify(channel, message, nonce(), text);
    }

    /// Like [`Self::report`], with a notice that the message waits. All nodes use the same nonce
    /// for it, so that Discord posts it once.
    pub(super) fn report_waiting(&self, channel: u64, message: u64, text: &str) {
        self.notify(channel, message, waiting_nonce(message), text.to_owned());
    }

    fn notify(&self, channel: u64, message: u64, nonce: String, text: String) {
        if self.may_report(channel) {
            let (api, timeouts) = (self.api.clone(), self.timeouts);
            tokio::spawn(
                async move { send(&api, channel, message, &nonce, &text, timeouts).await },
            );
        }
    }
}

/// Posts a reply to a message. Returns `false` if another attempt may succeed.
pub(super) async fn send(
    api: &Api,
    channel: u64,
    message: u64,
    nonce: &str,
    text: &str,
    timeouts: Timeouts,
) -> bool {
    match api.post(channel, Some(message), nonce, text, timeouts).await {
        Ok(_) => true,
        Err(error) => {
            warn!(channel, length = text.chars().count(), %error, "cannot send a message to discord");
            !error.is_temporary()
        }
    }
}

/// Marks a message as refused. Returns `false` if another attempt may succeed.
pub(super) async fn mark(api: &Api, channel: u64, message: u64, timeouts: Timeouts) -> bool {
    match api.react(channel, message, "🚫", timeouts.with_rank(Rank::Marker)).await {
        Ok(()) => true,
        Err(error) => {
            debug!(channel, %error, "cannot mark a message that was refused; hint: the bot needs Add Reactions there");
            !error.is_temporary()
        }
    }
}
