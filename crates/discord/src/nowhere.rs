//! Answers without a channel in Discord.

use async_trait::async_trait;
use tracing::info;

use aetheel_dispatch::{Answer, DeliveryError, OpenQuestion, Reply, Settlement, Unseen};
use aetheel_model::agent::EventKind;
use aetheel_model::event::Lane;
use aetheel_model::fold::Transcript;
use aetheel_model::plain::short_line;

/// Writes an answer to the log, because it has no channel in Discord.
pub(super) struct Nowhere(pub(super) Lane);

/// Maximum number of characters in the log.
const LOGGED: usize = 500;

#[async_trait]
impl Reply for Nowhere {
    fn update(&mut self, _event: &EventKind, _transcript: &Transcript) {}

    fn ask(&mut self, _question: &OpenQuestion, unseen: Unseen) {
        unseen.dismiss();
    }

    fn settled(&mut self, _id: &str, _how: &Settlement) {}

    async fn finish(self: Box<Self>, answer: Answer) -> Result<(), DeliveryError> {
        let (text, failure) = (short_line(&answer.text, LOGGED), answer.failure);
        info!(lane = %self.0, text, failure, "an answer has no channel in discord; hint: set OUTPUT_CHANNEL_ID or a channel");
        Ok(())
    }
}
