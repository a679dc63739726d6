//! Removes the markers of prompts that no longer wait.

use super::context::BotContext;
use super::queue_marker::{QueueMarkers, edit_command_message};
use crate::ids::{self, DiscordOrigin};
use crate::text::quote;
use aetheel_model::event::Event;

/// The text of the message of a command that was stopped before its turn.
const STOPPED: &str = "-# Stopped before it began.";

impl BotContext {
    /// Removes the marker of an event that waited and is now over, and marks its command as
    /// stopped.
    pub(crate) async fn clear_marker(&self, event: &Event) {
        match ids::origin(&event.origin) {
            DiscordOrigin::Message { channel, message } => match self.queue_markers.take(message) {
                Some(marker) => marker.remove(&self.api).await,
                None => self.remove_stale_marker(event, channel, message),
            },
            DiscordOrigin::Interaction { channel, interaction, .. } => {
                if let Some(marker) = self.queue_markers.take(interaction) {
                    marker.remove(&self.api).await;
                }
                let place = self.command_target(channel, event);
                let Some(mut token) = place.token else { return };
                let text = quote::with_quote(place.heading.as_deref(), STOPPED);
                let application = self.identity.application;
                edit_command_message(&self.api.responses, application, &mut token, &text).await;
            }
            DiscordOrigin::Internal { .. } | DiscordOrigin::Elsewhere => {}
        }
    }

    /// Removes the number that a previous process may have put on an event's message.
    pub(crate) fn remove_stale_marker(&self, event: &Event, channel: u64, message: u64) {
        if event.accepted_ms < self.started_ms {
            let api = self.api.clone();
            tokio::spawn(async move { QueueMarkers::remove_stale(&api, channel, message).await });
        }
    }
}
