//! What the Discord adapter asks of the rest: intake, access, last-seen messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::access::{self, Access, Request};
use crate::config::AllowLists;
use crate::discord::{Asker, Desk, Gate, Intake, Seen};
use crate::dispatch::Dispatcher;
use crate::event::{Lane, NewEvent, Sequence};
use crate::workspace::LastSeen;

/// How often last-seen ids are written; at most this much is looked at again after a crash.
const SAVE: Duration = Duration::from_secs(2);

/// Puts the desk together. The ids are saved by [`keep_saving`].
pub async fn desk(dispatcher: Dispatcher, allowed: AllowLists, last_seen: LastSeen) -> Desk {
    let known = last_seen.all().await.into_iter().collect();
    Desk {
        intake: Arc::new(Counter { dispatcher }),
        gate: Arc::new(Door { allowed }),
        seen: Arc::new(Marks { known: Mutex::new(known), last_seen }),
    }
}

/// Saves last-seen ids every few seconds; never returns.
pub async fn keep_saving(last_seen: LastSeen) {
    loop {
        tokio::time::sleep(SAVE).await;
        save(&last_seen).await;
    }
}

/// Saves last-seen ids now.
pub async fn save(last_seen: &LastSeen) {
    if let Err(error) = last_seen.save().await {
        tracing::warn!(%error, "cannot save which messages were seen; after a restart some may be answered again");
    }
}

struct Counter {
    dispatcher: Dispatcher,
}

#[async_trait]
impl Intake for Counter {
    fn submit(&self, event: NewEvent) -> Result<Sequence, String> {
        self.dispatcher.submit(event).map_err(|refusal| refusal.to_string())
    }

    fn stop(&self, lane: &Lane) -> bool {
        self.dispatcher.stop(lane)
    }

    async fn reset(&self, lane: &Lane) -> Result<bool, String> {
        self.dispatcher.reset(lane).await
    }
}

struct Door {
    allowed: AllowLists,
}

impl Gate for Door {
    fn admit(&self, asker: &Asker) -> Result<(), String> {
        let owners = if asker.owner { vec![asker.user] } else { Vec::new() };
        let request = Request {
            author: asker.user,
            is_bot: false,
            is_webhook: false,
            is_self: false,
            roles: &asker.roles,
            channel: asker.channel,
            parent_channel: asker.parent,
            guild: asker.guild,
            owners: &owners,
        };
        match access::decide(&self.allowed, &request) {
            Access::Allowed => Ok(()),
            Access::Ignored(why) => Err(why.to_string()),
            Access::Refused(why) => Err(why.to_string()),
        }
    }
}

struct Marks {
    known: Mutex<HashMap<u64, u64>>,
    last_seen: LastSeen,
}

impl Seen for Marks {
    fn last(&self, channel: u64) -> Option<u64> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&channel).copied()
    }

    fn channels(&self) -> Vec<(u64, u64)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(channel, message)| (*channel, *message)).collect()
    }

    fn saw(&self, channel: u64, message: u64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let last = known.entry(channel).or_default();
        *last = (*last).max(message);
        self.last_seen.note(channel, message);
    }
}
