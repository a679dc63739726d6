//! The bot's reactions to messages of people.

use super::Api;
use super::endpoints::{Emoji, Endpoint};
use crate::rest::rate_share::Rank;
use crate::rest::{RestError, Timeouts};

impl Api {
    pub(crate) async fn react(
        &self,
        channel: u64,
        message: u64,
        emoji: &str,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let endpoint = Endpoint::React { channel, message, emoji: Emoji(emoji) };
        self.send(endpoint, None, timeouts).await.map(drop)
    }

    pub(crate) async fn unreact(
        &self,
        channel: u64,
        message: u64,
        emoji: &str,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let endpoint = Endpoint::Unreact { channel, message, emoji: Emoji(emoji) };
        self.send(endpoint, None, timeouts.with_rank(Rank::Marker)).await.map(drop)
    }
}
