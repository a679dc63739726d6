//! The messages that were written while nobody listened.
//!
//! A channel is read on from the last message that was handled there, page by page, all that is for
//! the bot in order and before anything newer of that channel; how far it came is noted with every
//! message, so that it goes on there after a death. Messages that are too old are counted and told.
//! Pinned by `tests/gateway/intake.rs` and `tests/gateway/faults`.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Notify;
use tracing::{debug, info, warn};

use super::messages::Fate;
use super::{LOOK_UP_TIMEOUTS, RETRY_INTERVAL, Reception, mark};
use crate::heard::Parent;
use crate::mention;
use crate::wire::{Message, id_from};
use aetheel_model::event::NewEvent;

/// Missed messages older than this are not answered any more.
const MISSED_SPAN: Duration = Duration::from_secs(600);
/// So far back the older ones are counted, and over so many pages of 100.
const COUNTED_SPAN: Duration = Duration::from_secs(24 * 3600);
const COUNTED_PAGES: usize = 5;
/// So many of them are marked beside the newest, which is told about in words.
const MARKED: usize = 20;
/// Channels looked into, those with the latest messages first.
const CHANNELS_MOST: usize = 1_000;
/// Message ids remembered, so that none is handled twice.
const IDS_KEPT: usize = 4_096;

/// The counts of what became of a channel's missed messages.
#[derive(Default)]
struct Tally {
    prompts: usize,
    refused: usize,
    /// The older ones: how many, and what to refuse on their behalf.
    left_out: usize,
    newest: Option<(NewEvent, u64)>,
    /// The latest before that.
    older: VecDeque<u64>,
    /// There may be more of them.
    at_least: bool,
}

impl Reception {
    /// Those of these channels that were spoken in, each with the first id that is answered there.
    pub(super) fn to_catch_up(&self, wanted: impl Fn(u64) -> bool) -> Vec<(u64, u64)> {
        let mut channels = self.notes.channels();
        channels.retain(|(channel, _)| wanted(*channel));
        channels.sort_by_key(|(_, last)| std::cmp::Reverse(*last));
        if channels.len() > CHANNELS_MOST {
            warn!(
                channels = channels.len() - CHANNELS_MOST,
                "more channels than are caught up with; what was written in these meanwhile is left out"
            );
            channels.truncate(CHANNELS_MOST);
        }
        let since = id_from(MISSED_SPAN);
        channels.into_iter().map(|(channel, _)| (channel, since)).collect()
    }

    /// Takes in what was written in a channel since it was last seen to. Nothing else of that
    /// channel is seen to meanwhile. False: the rest is left to the next life.
    pub(super) async fn catch_up(&self, channel: u64, since: u64, pressed: &Notify) -> bool {
        if self.notes.last(channel).is_none() {
            return true;
        }
        if !self.dispatcher.serves(channel).await {
            debug!(channel, "another node serves this channel and catches up with it");
            return true;
        }
        // It may have been forgotten meanwhile, with the channel.
        let Some(last) = self.notes.last(channel) else { return true };
        let counted = id_from(COUNTED_SPAN);
        let mut after = last.max(counted);
        let mut tally = Tally { at_least: last < counted, ..Tally::default() };
        let mut old_pages = 0;
        loop {
            let Some((page, full)) = self.page(channel, after, pressed).await else { break };
            for message in &page {
                if message.id >= since && !self.report_left_out(channel, &mut tally).await {
                    return false;
                }
                if self.missed(message, message.id < since, &mut tally).await == Some(Fate::Left) {
                    return false;
                }
            }
            after = page.last().map_or(after, |message| message.id);
            if after < since {
                old_pages += 1;
            } else if !page.is_empty() {
                // All of it is kept, or no affair of ours.
                self.notes.saw(channel, after);
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
            info!(channel, prompts, refused, "caught up with what was written while disconnected");
        }
        true
    }

    /// Reads a page of messages, and whether it is full, as soon as Discord hands it out. Few
    /// channels are read at the same time; one in which somebody waits is read at once. None: it
    /// never will.
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
                    place = self.reads.acquire() => place.ok(),
                    () = pressed.notified() => None,
                };
                self.api.messages_after(channel, after, LOOK_UP_TIMEOUTS).await
            };
            match read {
                Ok(page) => return Some(page),
                Err(error) if error.is_passing() => {
                    let login = self.logins.load(Ordering::SeqCst);
                    if self.blind.swap(login, Ordering::SeqCst) != login {
                        warn!(%error, "discord does not hand out what was written meanwhile; asking until it does");
                    }
                    debug!(channel, %error, "cannot read missed messages yet");
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                Err(error) => {
                    // Channels go away and permissions change: nothing to be done about it.
                    debug!(channel, %error, "cannot read missed messages");
                    return None;
                }
            }
        }
    }

    /// Takes in a message that was missed, or counts it when it is too old. None: it is no affair
    /// of ours.
    async fn missed(&self, message: &Message, old: bool, tally: &mut Tally) -> Option<Fate> {
        if !self.is_a_persons(message) || self.recent.lock().has(message.id) {
            return None;
        }
        let channel = self.channel_at_last(message.channel_id).await?;
        let parent = channel.thread_parent();
        let mut message = Message { guild_id: channel.guild_id, ..message.clone() };
        if !self.is_for_us_at_last(&message, Parent::Known(parent)).await {
            return None;
        }
        if let Some(guild) = channel.guild_id {
            // Without roles somebody could be turned away who may ask.
            message.member = loop {
                match self.people.member(&self.api, guild, message.author.id).await {
                    Ok(member) => break member,
                    Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
                }
            };
        }
        let names: Vec<_> = message
            .mentions
            .iter()
            .flat_map(|user| mention::user_names(user.id, user.shown()))
            .collect();
        if old {
            // What strangers wrote is nobody's loss.
            if self.identity.admit(&self.asker(&message, parent)).is_ok() {
                tally.left_out += 1;
                if let Some((_, older)) =
                    tally.newest.replace((self.prompt(&message, &names, parent), message.id))
                {
                    tally.older.push_back(older);
                    if tally.older.len() > MARKED {
                        tally.older.pop_front();
                    }
                }
            }
            return None;
        }
        let fate = self.message_for_us(&message, &names, parent, true).await;
        match fate {
            Fate::Taken => tally.prompts += 1,
            Fate::Refused => tally.refused += 1,
            Fate::NotAdmitted | Fate::Known | Fate::Left => {}
        }
        Some(fate)
    }

    /// Says once how many were left out because they are too old. False: the gateway ends before
    /// that is kept; the next life counts again.
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
            count, "prompts written while disconnected are too old and left out; people are told"
        );
        let minutes = MISSED_SPAN.as_secs() / 60;
        let text = format!(
            "I was away, and have left out {many} written here more than {minutes} minutes before I was back. Please ask again."
        );
        while !self.decline(&event, (channel, message), &text).await {
            if self.closing.is_begun() {
                return false;
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        self.recent.lock().note(message);
        self.notes.saw(channel, message);
        let (api, timeouts, older) =
            (self.api.clone(), self.timeouts, std::mem::take(&mut tally.older));
        tokio::spawn(async move {
            for message in older {
                mark(&api, channel, message, timeouts).await;
            }
        });
        true
    }
}

/// The ids of the latest messages, so many and no more.
#[derive(Debug, Default)]
pub(super) struct Recent {
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Recent {
    pub(super) fn has(&self, id: u64) -> bool {
        self.known.contains(&id)
    }

    pub(super) fn note(&mut self, id: u64) {
        if !self.known.insert(id) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > IDS_KEPT
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
        let mut recent = Recent::default();
        for id in 0..10_000 {
            assert!(!recent.has(id));
            recent.note(id);
            recent.note(id);
            assert!(recent.has(id));
        }
        assert_eq!(recent.known.len(), IDS_KEPT);
        assert!(recent.has(9_999) && !recent.has(0));
    }
}
