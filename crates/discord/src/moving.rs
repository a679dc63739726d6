//! Channels that come from another node or go to one: what is noted of them goes along.

use std::sync::Arc;

use super::Discord;
use super::receipt::Receipt;
use super::reception::Arrival;
use super::rest::RestError;
use aetheel_model::vigil;
use aetheel_store::workspace::FileError;

impl Discord {
    /// Writes down what is noted of channels, as lines that [`Discord::absorb`] reads on another
    /// node. Changes nothing.
    pub async fn give(&self, is_theirs: impl Fn(u64) -> bool) -> String {
        self.inner.notes.give(is_theirs).await
    }

    /// Forgets what [`Discord::give`] wrote down: another node has it.
    ///
    /// # Errors
    /// [`FileError`]; it is forgotten in memory, and is saved with what is noted next.
    pub async fn given(&self, is_theirs: impl Fn(u64) -> bool) -> Result<(), FileError> {
        self.inner.notes.forget(is_theirs).await
    }

    /// Takes over what another node noted of some channels, from its whole `discord.md` or some
    /// lines of it. Where both noted something, the later message counts, so it may be done again.
    /// Questions that were open are closed: their turns are gone. Returns the channels, for
    /// [`Discord::catch_up`].
    ///
    /// # Errors
    /// [`FileError`]; what was noted is in force, but a crash may lose it.
    pub async fn absorb(
        &self,
        body: &str,
        is_theirs: impl Fn(u64) -> bool,
    ) -> Result<Vec<u64>, FileError> {
        let channels = self.inner.notes.absorb(body, is_theirs).await?;
        let inner = Arc::clone(&self.inner);
        vigil::errand("old questions", async move {
            inner.asks.close_earlier(&inner.api, inner.options.windows.send).await
        });
        Ok(channels)
    }

    /// Whether nothing that came from these channels is being seen to, and nothing that was missed
    /// there is read.
    #[must_use]
    pub fn is_quiet_in(&self, is_theirs: impl Fn(u64) -> bool) -> bool {
        !self.inner.lines.lock().keys().any(|channel| is_theirs(*channel))
    }

    /// Notes messages as seen to, each with its channel. Returns the channels of which nothing was
    /// noted before.
    #[must_use]
    pub fn note_taken(&self, messages: &[(u64, u64)]) -> Vec<u64> {
        let mut new = Vec::new();
        for (channel, message) in messages {
            if self.inner.notes.last(*channel).is_none() {
                new.push(*channel);
            }
            self.inner.notes.saw(*channel, *message);
        }
        new
    }

    /// Takes in what was written in these channels since it was last seen to. Nobody may have heard
    /// it while they were on their way. Of interest once somebody listens; before that nothing
    /// happens.
    pub fn catch_up(&self, channels: Vec<u64>) {
        if let Some(arrivals) = self.inner.arrivals.get() {
            // Without reception the program ends.
            let _ = arrivals.send((Arrival::Behind(channels), Receipt::none()));
        }
    }

    /// The channel that a thread belongs to, or the channel itself where it is none, or where
    /// Discord knows of no such channel. Asks Discord where that was not asked before; takes at
    /// most three seconds.
    ///
    /// # Errors
    /// Why Discord cannot say that now.
    pub async fn root_of(&self, channel: u64) -> Result<u64, String> {
        match self.inner.people.channel(&self.inner.api, channel).await {
            Ok(found) => Ok(found.thread_parent().unwrap_or(channel)),
            Err(RestError::TokenRefused) => Err(RestError::TokenRefused.to_string()),
            Err(error) if error.is_passing() => Err(error.to_string()),
            Err(_) => Ok(channel),
        }
    }

    /// Takes an equal share of the requests that Discord allows the bot, of so many nodes.
    pub fn share_requests(&self, nodes: usize) {
        let all = self.inner.options.requests_per_second;
        if all > 0 {
            self.inner.api.rest.allow((all / nodes.max(1)).max(1));
        }
    }
}
