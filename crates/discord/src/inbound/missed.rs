//! Catches up with messages that were written while the bot was not connected.
//!
//! Each channel is read page by page, from the last message that was handled there. All messages
//! for the bot are processed in order, before any newer message of the channel. The progress is
//! noted with every message, so that the next process continues there after a crash. Messages that
//! are too old are counted and reported. Tested by `tests/gateway/intake.rs` and
//! `tests/gateway/faults`.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Notify;
use tracing::{debug, info, warn};

use super::messages::MessageOutcome;
use super::notices::mark;
use super::{InboundProcessor, RETRY_INTERVAL};
use crate::access::lookups::LOOK_UP_TIMEOUTS;
use crate::connection::gateway_event::Parent;
use crate::text::mention;
use crate::wire::{MISSED_SPAN, Message, first_id_since};
use aetheel_model::event::NewEvent;
use aetheel_model::id::ChannelId;

/// How far back, and on how many pages of 100 messages, messages that are too old are counted.
const COUNTED_SPAN: Duration = Duration::from_secs(24 * 3600);
const COUNTED_PAGES: usize = 5;
/// How many of the messages that are too old get a reaction. The newest of them gets a reply.
const MAX_MARKED: usize = 20;
/// Maximum number of channels that are read. Channels with later messages take precedence.
const MAX_CHANNELS: usize = 1_000;
/// How many message ids are remembered to recognise repeated messages.
const MAX_RECENT_IDS: usize = 4_096;

/// Counts the outcomes of a channel's missed messages.
#[derive(Default)]
struct Tally {
    prompts: usize,
    refused: usize,
    /// How many messages were too old.
    left_out: usize,
    /// The newest message that was too old, as an event and with its id.
    newest: Option<(NewEvent, u64)>,
    /// The ids of the messages before `newest` that were too old, at most [`MAX_MARKED`].
    older: VecDeque<u64>,
    /// Whether the count is incomplete, so that `left_out` is a minimum.
    at_least: bool,
}

impl InboundProcessor {
    /// Returns the wanted channels in which messages were handled, each with the first id that is
    /// still answered there.
    pub(super) fn channels_to_catch_up(&self, wanted: impl Fn(u64) -> bool) -> Vec<(u64, u64)> {
        let mut channels = self.inner.notes.channels();
        channels.retain(|(channel, _)| wanted(*channel));
        channels.sort_by_key(|(_, last)| std::cmp::Reverse(*last));
        if channels.len() > MAX_CHANNELS {
            warn!(
                channels = channels.len() - MAX_CHANNELS,
                "too many channels to catch up with; missed messages of the others are left out"
            );
            channels.truncate(MAX_CHANNELS);
        }
        let since = first_id_since(MISSED_SPAN);
        channels.into_iter().map(|(channel, _)| (channel, since)).collect()
    }

    /// Processes the messages of a channel that were written after the last handled message. No
    /// other work of the channel is done meanwhile. Returns `false` if the rest is left to the next
    /// process.
    pub(super) async fn catch_up(&self, channel: u64, since: u64, pressed: &Notify) -> bool {
        if self.inner.notes.last_handled(channel).is_none() {
            return true;
        }
        if !self.services.intake.serves(ChannelId::discord(channel)).await {
            debug!(channel, "another node serves this channel and catches up with it");
            return true;
        }
        // The channel may have been moved to another node meanwhile.
        let Some(last) = self.inner.notes.last_handled(channel) else { return true };
        let counted = first_id_since(COUNTED_SPAN);
        let mut after = last.max(counted);
        let mut tally = Tally { at_least: last < counted, ..Tally::default() };
        let mut old_pages = 0;
        loop {
            let Some((page, full)) = self.page(channel, after, pressed).await else { break };
            for message in &page {
                if message.id >= since && !self.report_left_out(channel, &mut tally).await {
                    return false;
                }
                if self.handle_missed(message, message.id < since, &mut tally).await
                    == Some(MessageOutcome::LeftForNextStart)
                {
                    return false;
                }
            }
            after = page.last().map_or(after, |message| message.id);
            if after < since {
                old_pages += 1;
            } else if !page.is_empty() {
                // Every message of the page is saved, or not for the bot.
                self.inner.notes.mark_handled(channel, after);
            }
            if !full {
                break;
            }
            if after < since && old_pages == COUNTED_PAGES {
                (after, tally.at_least) = (since - 1, true);
            }
        }
        if !self.report_left_out(channel, &mut tally).await {
            return false;
        }
        let Tally { prompts, refused, .. } = tally;
        if prompts + refused > 0 {
            info!(channel, prompts, refused, "caught up with messages written while disconnected");
        }
        true
    }

    /// Reads a page of messages, and returns whether it is full. Waits until Discord answers. Few
    /// channels are read at the same time, but a channel with other work is read at once. Returns
    /// `None` if Discord refuses.
    async fn page(
        &self,
        channel: u64,
        after: u64,
        pressed: &Notify,
    ) -> Option<(Vec<Message>, bool)> {
        loop {
            let read = {
                let _place = tokio::select! {
                    biased;
                    place = self.page_reads.acquire() => place.ok(),
                    () = pressed.notified() => None,
                };
                self.inner.api.messages_after(channel, after, LOOK_UP_TIMEOUTS).await
            };
            match read {
                Ok(page) => return Some(page),
                Err(error) if error.is_temporary() => {
                    let login = self.logins.load(Ordering::SeqCst);
                    if self.warned_login.swap(login, Ordering::SeqCst) != login {
                        warn!(%error, "discord does not return missed messages; trying until it does");
                    }
                    debug!(channel, %error, "cannot read missed messages yet");
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                Err(error) => {
                    // The channel was deleted, or the bot may not read it any more.
                    debug!(channel, %error, "cannot read missed messages");
                    return None;
                }
            }
        }
    }

    /// Processes a missed message, or counts it if it is too old. Returns `None` if it was counted
    /// or is not for the bot.
    async fn handle_missed(
        &self,
        message: &Message,
        old: bool,
        tally: &mut Tally,
    ) -> Option<MessageOutcome> {
        if !self.inner.identity.is_from_person(message) || self.recent.lock().has(message.id) {
            return None;
        }
        let channel = self.channel_at_last(message.channel_id).await?;
        let parent = channel.thread_parent();
        let mut message = Message { guild_id: channel.guild_id, ..message.clone() };
        if !self.is_for_us_at_last(&message, Parent::Known(parent)).await {
            return None;
        }
        if let Some(guild) = channel.guild_id {
            // The author may be permitted to use the bot by a role.
            message.member = loop {
                match self.lookups.member(&self.inner.api, guild, message.author.id).await {
                    Ok(member) => break member,
                    Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
                }
            };
        }
        let names: Vec<_> = message
            .mentions
            .iter()
            .flat_map(|user| mention::user_names(user.id, user.display_name()))
            .collect();
        if old {
            // Messages of people who may not use the bot are not reported.
            if self.inner.identity.admit(&self.asker(&message, parent)).is_ok() {
                tally.left_out += 1;
                if let Some((_, older)) =
                    tally.newest.replace((self.prompt(&message, &names, parent), message.id))
                {
                    tally.older.push_back(older);
                    if tally.older.len() > MAX_MARKED {
                        tally.older.pop_front();
                    }
                }
            }
            return None;
        }
        let fate = self.message_for_us(&message, &names, parent, true).await;
        match fate {
            MessageOutcome::Taken => tally.prompts += 1,
            MessageOutcome::Refused => tally.refused += 1,
            MessageOutcome::NotAdmitted
            | MessageOutcome::Known
            | MessageOutcome::LeftForNextStart => {}
        }
        Some(fate)
    }

    /// Reports once how many messages were too old. Returns `false` if the gateway shuts down
    /// before the report is saved; the next process then counts again.
    async fn report_left_out(&self, channel: u64, tally: &mut Tally) -> bool {
        let Some((event, message)) = tally.newest.take() else { return true };
        let count = tally.left_out;
        let many = match (count, tally.at_least) {
            (1, false) => "one prompt that was".to_owned(),
            (count, false) => format!("{count} prompts that were"),
            (count, true) => format!("at least {count} prompts that were"),
        };
        warn!(
            channel,
            count,
            "prompts written while disconnected are too old and left out; people are notified"
        );
        let minutes = MISSED_SPAN.as_secs() / 60;
        let text = format!(
            "I was away, and have left out {many} written here more than {minutes} minutes before I was back. Please ask again."
        );
        while !self.decline(&event, channel, message, &text).await {
            if self.intake.is_closed() {
                return false;
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        self.recent.lock().note(message);
        self.inner.notes.mark_handled(channel, message);
        let (api, timeouts, older) = (
            self.inner.api.clone(),
            self.inner.options.time_limits.send,
            std::mem::take(&mut tally.older),
        );
        tokio::spawn(async move {
            for message in older {
                mark(&api, channel, message, timeouts).await;
            }
        });
        true
    }
}

/// The ids of the latest messages, at most [`MAX_RECENT_IDS`].
#[derive(Debug, Default)]
pub(super) struct RecentIds {
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl RecentIds {
    pub(super) fn has(&self, id: u64) -> bool {
        self.known.contains(&id)
    }

    pub(super) fn note(&mut self, id: u64) {
        if !self.known.insert(id) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > MAX_RECENT_IDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_known_once_noted_and_memory_is_bounded() {
        let mut recent = RecentIds::default();
        for id in 0..10_000 {
            assert!(!recent.has(id));
            recent.note(id);
            recent.note(id);
            assert!(recent.has(id));
        }
        assert_eq!(recent.known.len(), MAX_RECENT_IDS);
        assert!(recent.has(9_999) && !recent.has(0));
    }
}
