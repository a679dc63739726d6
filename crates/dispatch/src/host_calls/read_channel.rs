//! The tool `aetheel_read_channel`: the latest messages of a channel.

use async_trait::async_trait;

use super::{HostCall, HostCallError, HostToolEffect, approval};
use crate::delegated::{CallingTurn, parse_channel};
use aetheel_model::plain::counted;
use aetheel_model::prompt::quote_messages;
use aetheel_turn::ReadChannelRequest;

/// Number of messages that are read if the call names no number.
const USUAL_MESSAGES: u32 = 20;
/// Maximum size of the messages for the model, in bytes.
const MAX_BYTES: usize = 32 << 10;

#[async_trait]
impl HostToolEffect for ReadChannelRequest {
    /// Another channel needs permission.
    fn asks_people(&self, turn: &CallingTurn) -> bool {
        self.channel.as_deref().is_some_and(|channel| {
            parse_channel(channel).is_none_or(|channel| turn.channel() != Some(channel))
        })
    }

    async fn carry_out(&self, call: &HostCall) -> Result<String, HostCallError> {
        let here = call.channel()?;
        let invalid = |text: &str| HostCallError::InvalidChannel(text.to_owned());
        let parsed = |text| parse_channel(text).ok_or_else(|| invalid(text));
        let target = self.channel.as_deref().map_or(Ok(here), parsed)?;
        let count = self.messages.unwrap_or(USUAL_MESSAGES);
        let place = if target == here {
            "this channel".to_owned()
        } else {
            let place = call.permissions(target).await?.place;
            let what = format!(
                "May the agent read the last {count} messages in {place}? People here may see them in its answer."
            );
            approval::ask(call, &what, "").await?;
            // The permission may have been withdrawn while the question was open.
            call.permissions(target).await?.place
        };
        let said = call.shared.deps.outlet.read_channel(target, count as usize).await;
        let said = said.map_err(HostCallError::Unreadable)?;
        if said.is_empty() {
            return Ok(format!("There are no messages in {place}."));
        }
        let said: Vec<(Option<&str>, &str)> =
            said.iter().map(|message| (message.author.as_deref(), message.text.as_str())).collect();
        let read = counted(said.len(), "message");
        Ok(format!(
            "The agent read {read} in {place}.\n{}",
            quote_messages(&place, &said, MAX_BYTES)
        ))
    }
}
