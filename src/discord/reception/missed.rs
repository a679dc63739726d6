//! What was written while nobody listened, or while Discord could not say who wrote it and where.
//!
//! A channel is owed its messages from one on until Discord hands them out: then all are taken in, in order, before
//! anything newer of that channel. Pinned by `tests/discord.rs` and `tests/gateway/faults`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use tracing::{debug, info, warn};

use super::{LOOK_UP, Parent, Reception};
use crate::discord::api::Api;
use crate::discord::mention;
use crate::discord::wire::{Message, id_from};

/// Missed messages older than this are not answered any more.
const MISSED_SPAN: Duration = Duration::from_secs(600);
/// Missed messages answered in one channel.
const MISSED_MOST: usize = 50;
/// Pages of 100 messages read to find them.
const PAGES: usize = 5;
/// Channels looked into, those with the latest messages first.
const CHANNELS_MOST: usize = 200;
/// Message ids remembered, so that none is answered twice.
const IDS_KEPT: usize = 4_096;

impl Reception {
    /// Answers what was written while nobody listened, each once, in order.
    pub(super) async fn catch_up(&mut self) {
        let mut channels = self.desk.seen.channels();
        channels.sort_by_key(|(_, last)| std::cmp::Reverse(*last));
        channels.truncate(CHANNELS_MOST);
        let oldest = id_from(MISSED_SPAN);
        for (channel, last) in channels {
            self.owed.entry(channel).or_insert(oldest.max(last));
        }
        self.read_missed().await;
        if !self.owed.is_empty() {
            warn!(channels = self.owed.len(), "discord does not hand out what was written meanwhile; asking until it does");
        }
    }

    /// Puts a message off, with all that follows in its channel.
    pub(super) fn owe(&mut self, message: &Message) {
        self.owed.entry(message.channel_id).or_insert(message.id - 1);
    }

    /// Reads what was missed in the channels owed, as far as Discord hands it out.
    pub(super) async fn read_missed(&mut self) {
        let channels: Vec<(u64, u64)> = self.owed.iter().map(|(channel, after)| (*channel, *after)).collect();
        let mut missed = Vec::new();
        for some in channels.chunks(8) {
            let mut reads = tokio::task::JoinSet::new();
            for &(channel, after) in some {
                let api = self.api.clone();
                reads.spawn(async move { (channel, read_after(api, channel, after).await) });
            }
            while let Some(read) = reads.join_next().await {
                if let Ok((channel, Some(messages))) = read {
                    self.owed.remove(&channel);
                    missed.extend(messages);
                }
            }
        }
        missed.retain(|message| !self.recent.has(message.id));
        missed.sort_by_key(|message| message.id);
        let mut counts: HashMap<u64, usize> = HashMap::new();
        for mut message in missed {
            if self.owed.contains_key(&message.channel_id) {
                continue;
            }
            let channel = match self.channel(message.channel_id).await {
                Ok(channel) => channel,
                Err(error) if error.is_passing() => {
                    self.owe(&message);
                    continue;
                }
                Err(_) => continue,
            };
            message.guild_id = channel.guild_id;
            match self.is_for_us(&message, Parent::Known(channel.thread_parent())).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(_) => {
                    self.owe(&message);
                    continue;
                }
            }
            let count = counts.entry(message.channel_id).or_default();
            *count += 1;
            if *count > MISSED_MOST {
                continue;
            }
            if let Some(guild) = channel.guild_id {
                message.member = match self.api.member(guild, message.author.id, LOOK_UP).await {
                    // Without roles somebody could be turned away who may ask.
                    Err(error) if error.is_passing() => {
                        self.owe(&message);
                        continue;
                    }
                    member => member.ok(),
                };
            }
            let names = message.mentions.iter().flat_map(|user| mention::user_names(user.id, user.shown())).collect::<Vec<_>>();
            self.message(&message, &names, Parent::Known(channel.thread_parent())).await;
        }
        let (prompts, channels) = (counts.values().sum::<usize>(), counts.len());
        if prompts > 0 {
            info!(prompts, channels, "caught up with what was written while disconnected");
        }
    }
}

/// None: it has to be tried again.
async fn read_after(api: Api, channel: u64, mut after: u64) -> Option<Vec<Message>> {
    let mut all: Vec<Message> = Vec::new();
    for _ in 0..PAGES {
        match api.messages_after(channel, after, LOOK_UP).await {
            Ok(page) => {
                let full = page.len() >= 100;
                after = page.last().map_or(after, |message| message.id);
                all.extend(page);
                if !full {
                    break;
                }
            }
            Err(error) if error.is_passing() => {
                debug!(channel, %error, "cannot read missed messages yet");
                return None;
            }
            Err(error) => {
                // Channels go away and permissions change: nothing to be done about it.
                debug!(channel, %error, "cannot read missed messages");
                break;
            }
        }
    }
    Some(all)
}

/// The ids of the latest messages, so many and no more.
#[derive(Debug, Default)]
pub(in super::super) struct Recent {
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
