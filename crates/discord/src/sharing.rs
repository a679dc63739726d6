//! One bot on several nodes: one of them hears Discord, each of them sees to its own channels.
//!
//! Owns what goes in and out at that seam, and in which runtime events of other nodes are read.
//! Who has which channel, and how events travel, is the caller's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tracing::debug;

use super::heard::{Heard, PERMISSIONS};
use super::notes::Notes;
use super::reader::Reader;
use super::receipt::Receipt;

/// Permissions change in bursts; other nodes hear of it once in so long.
const PERMISSIONS_INTERVAL: Duration = Duration::from_secs(1);
/// Discord waits three seconds for the answer to an interaction. One that is older by far has
/// failed before the eyes of whoever used it; it must not be carried out behind their back.
const INTERACTION_AGE: Duration = Duration::from_secs(10);

/// How nodes share the events of one bot.
pub struct Sharing {
    /// Takes what this node hears, in the order it was heard.
    pub out: mpsc::UnboundedSender<Heard>,
    /// Gives what is for this node, whoever heard it: in order for each channel. Nothing that came
    /// from Discord itself is read besides.
    pub from: mpsc::UnboundedReceiver<(Heard, Receipt)>,
    /// Whether this node may log in. It logs in when this becomes true, and out when it becomes
    /// false.
    pub seat: watch::Receiver<bool>,
    /// Counts logins over all nodes.
    pub logins: Arc<dyn Logins>,
}

/// When the bot logged in lately, wherever that is kept: many logins in a row make the next wait.
#[async_trait]
pub trait Logins: Send + Sync {
    /// The last logins, milliseconds since 1970, in any order. Returns once that is known.
    async fn logins(&self) -> Vec<i64>;
    /// Notes that the bot is about to log in. Returns once nobody can forget it.
    async fn logging_in(&self, at_ms: i64);
}

#[async_trait]
impl Logins for Notes {
    async fn logins(&self) -> Vec<i64> {
        Self::logins(self)
    }

    async fn logging_in(&self, at_ms: i64) {
        Self::logging_in(self, at_ms);
    }
}

/// Gives what a login hears to whoever has its channel.
pub(super) struct Out {
    to: mpsc::UnboundedSender<Heard>,
    permissions: Arc<Mutex<Told>>,
}

/// When nodes were last told that permissions changed, and whether they are about to be.
#[derive(Default)]
struct Told {
    at: Option<Instant>,
    due: bool,
}

impl Out {
    pub(super) fn new(to: mpsc::UnboundedSender<Heard>) -> Self {
        Self { to, permissions: Arc::default() }
    }

    /// Gives one on. Must be called within a Tokio runtime.
    pub(super) fn send(&self, heard: Heard) {
        if heard.name != PERMISSIONS {
            // Without a receiver the program ends.
            let _ = self.to.send(heard);
            return;
        }
        let (now, mut told) = (Instant::now(), self.permissions.lock());
        if told.due {
            return;
        }
        let wait = told.at.map_or(Duration::ZERO, |at| {
            PERMISSIONS_INTERVAL.saturating_sub(now.duration_since(at))
        });
        if wait.is_zero() {
            told.at = Some(now);
            let _ = self.to.send(heard);
            return;
        }
        told.due = true;
        let (to, permissions) = (self.to.clone(), Arc::clone(&self.permissions));
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            *permissions.lock() = Told { at: Some(Instant::now()), due: false };
            let _ = to.send(heard);
        });
    }
}

/// Reads what is for this node, until nobody gives anything any more.
pub(super) async fn follow(reader: Reader, mut from: mpsc::UnboundedReceiver<(Heard, Receipt)>) {
    while let Some((heard, receipt)) = from.recv().await {
        let late = heard.interaction_id().filter(|id| reader.age_of(*id) > INTERACTION_AGE);
        if let Some(interaction) = late {
            debug!(interaction, "an interaction came too late to be answered; it is left out");
            receipt.done();
            continue;
        }
        reader.read(&heard, receipt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_a_burst_of_permissions_the_first_and_the_last_are_told() {
        let (to, mut heard) = mpsc::unbounded_channel();
        let out = Out::new(to);
        for _ in 0..100 {
            out.send(Heard::permissions());
        }
        out.send(Heard::for_all("RESUMED", serde_json::Value::Null));
        let mut names = Vec::new();
        for _ in 0..3 {
            names.push(heard.recv().await.expect("open").name);
        }
        assert_eq!(names, [PERMISSIONS, "RESUMED", PERMISSIONS]);
        out.send(Heard::for_all("RESUMED", serde_json::Value::Null));
        assert_eq!(heard.recv().await.expect("open").name, "RESUMED", "no third one");
    }
}
