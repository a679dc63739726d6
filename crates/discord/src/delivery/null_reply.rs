//! Answers without a channel in Discord.

use async_trait::async_trait;
use tracing::info;

use aetheel_dispatch::{
    DeliveryError, OpenQuestion, QuestionDismissal, Reply, Settlement, TurnAnswer,
};
use aetheel_model::agent::AgentEventKind;
use aetheel_model::event::Lane;
use aetheel_model::fold::Transcript;
use aetheel_model::plain::short_line;

/// Writes an answer to the log, because it has no channel in Discord.
pub(crate) struct NullReply(pub(crate) Lane);

const MAX_LOGGED_CHARS: usize = 500;

#[async_trait]
impl Reply for NullReply {
    fn update(&mut self, _event: &AgentEventKind, _transcript: &Transcript) {}

    fn ask(&mut self, _question: &OpenQuestion, unseen: QuestionDismissal) {
        unseen.dismiss();
    }

    fn question_settled(&mut self, _id: &str, _how: &Settlement) {}

    async fn finish(self: Box<Self>, answer: TurnAnswer) -> Result<(), DeliveryError> {
        let (text, failure) = (short_line(&answer.text, MAX_LOGGED_CHARS), answer.failure);
        info!(lane = %self.0, text, failure, "an answer has no channel in discord; hint: set OUTPUT_CHANNEL_ID or a channel");
        Ok(())
    }
}
