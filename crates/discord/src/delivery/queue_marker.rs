//! The place of a prompt in its queue, shown while it waits and removed when its turn begins.
//!
//! The place is shown without a message of its own: as a number that is a reaction to a message, or
//! as a line in a command's own message.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::task::{JoinHandle, JoinSet};
use tracing::debug;

use crate::api::Api;
use crate::api::endpoints::Endpoint;
use crate::api::interactions::InteractionToken;
use crate::api::responses::Responses;
use crate::rest::Timeouts;
use crate::rest::rate_share::Rank;
use crate::text::quote;
use crate::wire::Message;

/// Time limits of adding a number. Short, because a number is not important. It is left out if the
/// rate limit does not permit it at once.
const MARKER_TIMEOUTS: Timeouts =
    Timeouts::new(Duration::from_secs(5), Duration::from_secs(10)).with_rank(Rank::Hint);
/// Time limits of removing a marker, which waits for the rate limit as long as necessary.
const REMOVAL_TIMEOUTS: Timeouts = Timeouts::new(Duration::from_secs(10), Duration::from_secs(600));
/// The text of the message of a command that waits for the next process.
const RESTARTING: &str = "-# I am restarting: the answer follows.";
/// The emoji of the numbers from 1 to 10, and an emoji for larger numbers.
const NUMBERS: [&str; 11] = ["1️⃣", "2️⃣", "3️⃣", "4️⃣", "5️⃣", "6️⃣", "7️⃣", "8️⃣", "9️⃣", "🔟", "🔢"];

/// Replaces the text of a command's own message if its token can be used. A failure is only logged.
pub(crate) async fn edit_command_message(
    responses: &Responses,
    application: u64,
    token: &mut InteractionToken,
    text: &str,
) {
    if !token.is_usable().await {
        return;
    }
    let InteractionToken { interaction, value, .. } = token;
    let nothing = Value::Null;
    let edited =
        responses.edit(application, *interaction, value, text, &nothing, MARKER_TIMEOUTS).await;
    if let Err(error) = edited {
        debug!(interaction, %error, "cannot edit the message of a command that waits or was stopped");
    }
}

pub(crate) enum QueueMarker {
    /// A number, as a reaction to a message.
    Number { channel: u64, message: u64, emoji: &'static str, shown: JoinHandle<bool> },
    /// A line in a command's message, below the prompt.
    Line { heading: String, shown: JoinHandle<InteractionToken> },
}

/// The markers of prompts whose turns have not begun, by message or interaction.
#[derive(Default)]
pub(crate) struct QueueMarkers(Mutex<HashMap<u64, Option<QueueMarker>>>);

impl QueueMarkers {
    /// Registers a prompt before it is submitted, because its turn may begin at any moment after
    /// that.
    pub(crate) fn expect(&self, id: u64) {
        self.lock().insert(id, None);
    }

    /// Removes a prompt that does not wait.
    pub(crate) fn forget(&self, id: u64) {
        self.lock().remove(&id);
    }

    /// Removes a prompt whose turn begins, and returns its marker.
    pub(crate) fn take(&self, id: u64) -> Option<QueueMarker> {
        self.lock().remove(&id).flatten()
    }

    /// Shows how many prompts are before a message, unless its turn has begun.
    pub(crate) fn show_number(&self, api: &Api, channel: u64, message: u64, ahead: usize) {
        let mut waiting = self.lock();
        let Some(marker) = waiting.get_mut(&message) else { return };
        let emoji = NUMBERS[ahead.clamp(1, NUMBERS.len()) - 1];
        let api = api.clone();
        let shown = tokio::spawn(async move {
            let shown = api.react(channel, message, emoji, MARKER_TIMEOUTS).await;
            if let Err(error) = &shown {
                debug!(channel, %error, "cannot show the place of a message in the queue; hint: the bot needs Add Reactions there");
            }
            shown.is_ok()
        });
        *marker = Some(QueueMarker::Number { channel, message, emoji, shown });
    }

    /// Shows how many prompts are before a command, unless its turn has begun.
    pub(crate) fn show_line(
        &self,
        api: &Api,
        application: u64,
        mut token: InteractionToken,
        heading: String,
        ahead: usize,
    ) {
        let mut waiting = self.lock();
        let Some(marker) = waiting.get_mut(&token.interaction) else { return };
        let api = api.clone();
        let text = quote::with_quote(Some(&heading), &format!("-# ⏳ {ahead} before this one."));
        let shown = tokio::spawn(async move {
            edit_command_message(&api.responses, application, &mut token, &text).await;
            token
        });
        *marker = Some(QueueMarker::Line { heading, shown });
    }

    /// Removes all markers, because the next process answers these prompts and does not know the
    /// markers.
    pub(crate) async fn clear_all(&self, api: &Api, application: u64) {
        let markers: Vec<QueueMarker> =
            self.lock().drain().filter_map(|(_, marker)| marker).collect();
        let mut removals = JoinSet::new();
        for marker in markers {
            let api = api.clone();
            removals.spawn(async move {
                match marker {
                    QueueMarker::Number { channel, message, emoji, shown } => {
                        unreact(&api, channel, message, emoji, shown).await
                    }
                    QueueMarker::Line { heading, shown } => {
                        let Ok(mut token) = shown.await else { return };
                        let text = quote::with_quote(Some(&heading), RESTARTING);
                        edit_command_message(&api.responses, application, &mut token, &text).await;
                    }
                }
            });
        }
        removals.join_all().await;
    }

    /// Removes the number that a previous process put on a message.
    pub(crate) async fn remove_stale(api: &Api, channel: u64, message: u64) {
        let shown = match api
            .get::<Message>(
                Endpoint::Message { channel, message },
                REMOVAL_TIMEOUTS.with_rank(Rank::Marker),
            )
            .await
        {
            Ok(found) => found.reactions,
            Err(error) => {
                return debug!(channel, %error, "cannot read which place a previous process showed on a message");
            }
        };
        for name in shown
            .into_iter()
            .filter(|reaction| reaction.me)
            .filter_map(|reaction| reaction.emoji.name)
        {
            if NUMBERS.contains(&name.as_str())
                && let Err(error) = api.unreact(channel, message, &name, REMOVAL_TIMEOUTS).await
            {
                debug!(channel, %error, "cannot remove the place of a message in the queue");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Option<QueueMarker>>> {
        self.0.lock()
    }
}

impl QueueMarker {
    /// Removes the marker. Returns once no pending request for it can overwrite an answer.
    pub(crate) async fn remove(self, api: &Api) {
        match self {
            Self::Number { channel, message, emoji, shown } => {
                let api = api.clone();
                tokio::spawn(async move { unreact(&api, channel, message, emoji, shown).await });
            }
            Self::Line { shown, .. } => drop(shown.await),
        }
    }
}

async fn unreact(api: &Api, channel: u64, message: u64, emoji: &str, shown: JoinHandle<bool>) {
    if shown.await.unwrap_or(false)
        && let Err(error) = api.unreact(channel, message, emoji, REMOVAL_TIMEOUTS).await
    {
        debug!(channel, %error, "cannot remove the place of a message in the queue");
    }
}
