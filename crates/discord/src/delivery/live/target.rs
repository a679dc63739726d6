//! The destination of an answer.

use crate::api::interactions::InteractionToken;
use crate::delivery::context::BotContext;
use crate::ids::{self, DiscordOrigin};
use crate::text::quote;
use aetheel_model::event::Event;

#[derive(Clone)]
pub(crate) struct ReplyTarget {
    pub(crate) channel: u64,
    pub(crate) reply_to: Option<u64>,
    /// The token of the command that is answered.
    pub(crate) token: Option<InteractionToken>,
    /// Whether it answers a command, whose own message comes first. Without a token, that message
    /// cannot be edited any more.
    pub(crate) command: bool,
    /// The prompt, shown above the first message. `None` if people see the prompt anyway.
    pub(crate) heading: Option<String>,
}

impl ReplyTarget {
    /// Returns a destination in a channel that replies to nothing.
    pub(crate) fn in_channel(channel: u64) -> Self {
        Self { channel, reply_to: None, token: None, command: false, heading: None }
    }
}

impl BotContext {
    /// Returns the destination of a command's answer: the command's own message, as long as it can
    /// be edited.
    pub(crate) fn command_target(&self, channel: u64, event: &Event) -> ReplyTarget {
        let token = match ids::origin(&event.origin) {
            DiscordOrigin::Interaction { interaction, pass, .. } => self
                .interactions
                .take_or_restore(interaction, pass, self.options.time_limits.interaction),
            _ => None,
        };
        ReplyTarget {
            token,
            command: true,
            heading: quote::for_event(event, &self.options.redactor),
            ..ReplyTarget::in_channel(channel)
        }
    }
}
