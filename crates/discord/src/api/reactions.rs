//! The bot's reactions to messages of people.

use reqwest::Method;

use super::Api;
use crate::rest::rate_share::Rank;
use crate::rest::{RestError, RestRequest, Timeouts};

impl Api {
    /// Marks a message as seen but not accepted.
    pub(crate) async fn mark_refused(
        &self,
        channel: u64,
        message: u64,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        self.react(channel, message, "🚫", timeouts.with_rank(Rank::Marker)).await
    }

    /// Adds a reaction to a message.
    pub(crate) async fn react(
        &self,
        channel: u64,
        message: u64,
        emoji: &str,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        self.reaction(Method::PUT, channel, message, emoji, timeouts).await
    }

    /// Removes a reaction.
    pub(crate) async fn unreact(
        &self,
        channel: u64,
        message: u64,
        emoji: &str,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        self.reaction(Method::DELETE, channel, message, emoji, timeouts.with_rank(Rank::Marker))
            .await
    }

    async fn reaction(
        &self,
        method: Method,
        channel: u64,
        message: u64,
        emoji: &str,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let emoji: String = emoji.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let call = RestRequest {
            method,
            path: format!("/channels/{channel}/messages/{message}/reactions/{emoji}/@me"),
            bucket: Some(("PUT reaction", channel)),
            body: None,
            by_interaction: false,
        };
        self.rest.send(&call, timeouts).await.map(drop)
    }
}
