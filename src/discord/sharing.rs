//! One bot on several nodes: one of them hears Discord, each of them sees to its own channels.
//!
//! Owns what goes in and out at that seam, and in which runtime events of other nodes are read.
//! Who has which channel, and how events travel, is the caller's.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tracing::debug;

use super::heard::{Heard, PERMISSIONS};
use super::notes::Notes;
use super::reader::Reader;
use super::wire::age_of;

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

/// What is told of an event once nothing of it can be lost any more: it is kept, refused or of no
/// interest. One that is dropped without [`Receipt::done`] tells nothing: the node ended before
/// that, and its next life is to see to the event.
#[derive(Default)]
pub struct Receipt(Option<Arc<Parts>>);

/// What several parts of a receipt share.
struct Parts {
    open: AtomicUsize,
    done: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Receipt {
    /// Makes one that calls this when it is done.
    pub fn new(done: impl FnOnce() + Send + 'static) -> Self {
        let done: Box<dyn FnOnce() + Send> = Box::new(done);
        Self(Some(Arc::new(Parts { open: AtomicUsize::new(1), done: Mutex::new(Some(done)) })))
    }

    /// One that nobody waits for.
    pub(super) fn none() -> Self {
        Self::default()
    }

    /// Nothing of the event can be lost any more.
    pub fn done(self) {
        let Some(parts) = self.0 else { return };
        if parts.open.fetch_sub(1, Ordering::SeqCst) == 1
            && let Some(done) = parts.done.lock().take()
        {
            done();
        }
    }

    /// Makes so many of it: it is done when all of them are; at once where there are none.
    pub(super) fn split(self, count: usize) -> Vec<Self> {
        if count == 0 {
            self.done();
            return Vec::new();
        }
        if let Some(parts) = &self.0 {
            parts.open.fetch_add(count - 1, Ordering::SeqCst);
        }
        std::iter::repeat_with(|| Self(self.0.clone())).take(count).collect()
    }
}

impl Debug for Receipt {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Receipt").finish_non_exhaustive()
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

/// The age of an id by Discord's clock, as far as that is known: machines' clocks differ.
pub(super) fn age_by_discord(id: u64, ahead: Option<i64>) -> Duration {
    let age = age_of(id);
    match ahead.unwrap_or(0) {
        ahead @ 0.. => age.saturating_sub(Duration::from_secs(ahead.unsigned_abs())),
        behind => age + Duration::from_secs(behind.unsigned_abs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_given_when_all_its_parts_are_done_and_never_for_one_that_was_dropped() {
        let count = Arc::new(AtomicUsize::new(0));
        let receipt = || {
            let count = Arc::clone(&count);
            Receipt::new(move || {
                count.fetch_add(1, Ordering::SeqCst);
            })
        };
        let given = || count.swap(0, Ordering::SeqCst);
        receipt().done();
        assert_eq!(given(), 1);
        drop(receipt());
        assert_eq!(given(), 0, "the node ended");
        assert!(receipt().split(0).is_empty());
        assert_eq!(given(), 1, "there was nothing to do");
        let mut parts = receipt().split(3);
        let last = parts.pop();
        parts.into_iter().for_each(Receipt::done);
        assert_eq!(given(), 0, "one is open");
        last.into_iter().for_each(Receipt::done);
        assert_eq!(given(), 1);
        let mut parts = receipt().split(2);
        drop(parts.pop());
        parts.into_iter().for_each(Receipt::done);
        assert_eq!(given(), 0, "one part was not seen to");
        Receipt::none().split(2).into_iter().for_each(Receipt::done);
    }

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

    #[test]
    fn an_age_goes_by_the_clock_of_discord() {
        let id = super::super::wire::id_from(Duration::from_secs(60));
        let about = |ahead, seconds: u64| {
            let age = age_by_discord(id, ahead).as_secs();
            assert!((seconds..seconds + 2).contains(&age), "{age} s");
        };
        about(None, 60);
        about(Some(50), 10);
        about(Some(-40), 100);
        about(Some(90), 0);
    }
}
