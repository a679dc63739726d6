//! Reactions of the bot's to messages of people.

use reqwest::Method;

use super::Api;
use crate::discord::flow::Rank;
use crate::discord::rest::{Call, Patience, RestError};

impl Api {
    /// Marks a message as seen and not taken.
    pub(in crate::discord) async fn mark(
        &self,
        channel: u64,
        message: u64,
        patience: Patience,
    ) -> Result<(), RestError> {
        self.react(channel, message, "🚫", patience.of(Rank::Sign)).await
    }

    /// Puts a reaction on a message.
    pub(in crate::discord) async fn react(
        &self,
        channel: u64,
        message: u64,
        emoji: &str,
        patience: Patience,
    ) -> Result<(), RestError> {
        self.reaction(Method::PUT, channel, message, emoji, patience).await
    }

    /// Takes a reaction back.
    pub(in crate::discord) async fn unreact(
        &self,
        channel: u64,
        message: u64,
        emoji: &str,
        patience: Patience,
    ) -> Result<(), RestError> {
        self.reaction(Method::DELETE, channel, message, emoji, patience.of(Rank::Sign)).await
    }

    async fn reaction(
        &self,
        method: Method,
        channel: u64,
        message: u64,
        emoji: &str,
        patience: Patience,
    ) -> Result<(), RestError> {
        let emoji: String = emoji.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let call = Call {
            method,
            path: format!("/channels/{channel}/messages/{message}/reactions/{emoji}/@me"),
            bucket: Some(("PUT reaction", channel)),
            body: None,
            by_interaction: false,
        };
        self.rest.send(&call, patience).await.map(drop)
    }
}
