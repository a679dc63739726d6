//! The arrivals from Discord, in order: who may ask, what was asked, what was missed.
//!
//! Every channel has a line of its own and is seen to one arrival after the other, so that the
//! order of its messages is the order of its events; no channel waits for another one. A message is
//! handled, and what comes behind it begins, once it is kept, or its refusal is. Acknowledging
//! interactions is not its affair: the gateway's thread does that, once it hears that they are
//! kept. Pinned by `tests/discord/`, `tests/gateway/intake.rs`, `tests/gateway/kept.rs` and
//! `tests/gateway/faults/`.

mod commands;
mod messages;
mod missed;
pub(super) mod people;
mod quotes;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tracing::{debug, error, info, warn};

use super::Identity;
use super::api::{Api, nonce};
use super::asks::Asks;
use super::commands::Verb;
use super::deferred::waiting_nonce;
use super::heard::Parent;
use super::interactions::Interactions;
use super::mention::Name;
use super::notes::Notes;
use super::receipt::Receipt;
use super::rest::Timeouts;
use super::waiting::Waiting;
use super::wire::{Edit, Message, Slash};
use aetheel_dispatch::{Dispatcher, HealthProbe, catch_panic};
use aetheel_model::redact::Redactor;
pub(super) use commands::stop_text;
use missed::Recent;
use people::People;

/// Between two tries of what Discord could not say, or the disk not take.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// A refusal is told at most this often in a channel.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(10);
/// Requests made while the next arrival of the channel waits. Answers they did not get are asked
/// for again.
const LOOK_UP_TIMEOUTS: Timeouts = Timeouts::new(Duration::from_secs(5), Duration::from_secs(3));
/// A command waits so long for what its channel's line has before it: Discord wants to hear of it
/// within three seconds.
const COMMAND_GRACE: Duration = Duration::from_millis(500);
/// Channels whose missed messages are read at the same time.
const READS: usize = 8;

pub(super) const CLOSING: &str = "I am shutting down. Please ask again in a minute.";

/// Something that came from the gateway.
pub(super) enum Arrival {
    /// The gateway let us in anew: there may be messages we missed.
    LoggedIn { user: String, guilds: u64 },
    /// What was written in these channels meanwhile may have been missed.
    Behind(Vec<u64>),
    /// A message, with readable names of what it mentions, and the parent where it is known to be
    /// in a thread.
    Message { message: Box<Message>, names: Vec<Name>, parent: Parent },
    /// A message was edited by its author.
    Edited(Box<Edit>, Vec<Name>),
    /// Messages of a channel were deleted.
    Deleted(u64, Vec<u64>),
    /// A slash command that is to be acknowledged once it is kept.
    Slash(Box<Slash>, Verb, Kept),
    /// Nothing but a sign that arrivals come through.
    Probe(HealthProbe),
}

/// The answer to a command once nothing of it can be lost any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is kept; its answer comes later.
    Kept,
    /// It is done; this is its answer.
    Done(Cow<'static, str>),
}

/// Tells what is to be said of a command, or why it is not taken.
pub(super) type Kept = oneshot::Sender<Result<Outcome, String>>;

/// A command until somebody sees to it.
type Claim = Arc<Mutex<Option<(Box<Slash>, Verb, Kept)>>>;

/// Something to be done in a channel.
enum Work {
    Message {
        message: Box<Message>,
        names: Vec<Name>,
        parent: Parent,
    },
    Edited(Box<Edit>, Vec<Name>),
    Deleted(Vec<u64>),
    Command(Claim),
    /// Catching up: what was written from this id on is answered.
    Missed(u64),
    /// Catching up that what waits before it does, too.
    Covered,
    Probe(HealthProbe),
}

/// The work a channel still waits for; there is one while somebody does it.
#[derive(Default)]
pub(super) struct Line {
    work: VecDeque<(Work, Receipt)>,
    /// Notified when more work comes.
    pressed: Arc<Notify>,
}

/// The channels in which there is something to be seen to.
pub(super) type Lines = Mutex<HashMap<u64, Line>>;

/// Whether prompts are left to the next life.
#[derive(Debug, Default)]
pub(super) struct Closing {
    begun: AtomicBool,
    silent: AtomicBool,
}

impl Closing {
    /// From now on they are; `silently`: nobody is told.
    pub(super) fn begin(&self, silently: bool) {
        self.silent.store(silently, Ordering::SeqCst);
        self.begun.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    fn is_silent(&self) -> bool {
        self.silent.load(Ordering::SeqCst)
    }
}

/// Takes arrivals and sees to each in the line of its channel.
pub(super) struct Reception {
    pub(super) api: Api,
    pub(super) identity: Arc<Identity>,
    pub(super) interactions: Arc<Interactions>,
    pub(super) waiting: Arc<Waiting>,
    pub(super) asks: Arc<Asks>,
    pub(super) dispatcher: Dispatcher,
    pub(super) notes: Arc<Notes>,
    pub(super) closing: Arc<Closing>,
    /// For sending answers of our own.
    pub(super) timeouts: Timeouts,
    /// Applied to what we show of a prompt.
    pub(super) redactor: Redactor,
    lines: Arc<Lines>,
    recent: Mutex<Recent>,
    pub(super) people: Arc<People>,
    /// When channels were last told something.
    reported: Mutex<HashMap<u64, Instant>>,
    reads: Semaphore,
    /// The login for which it was said last that Discord does not hand out what was missed.
    blind: AtomicU64,
    logins: AtomicU64,
}

impl Reception {
    pub(super) fn new(
        api: Api,
        identity: Arc<Identity>,
        (interactions, waiting, asks): (Arc<Interactions>, Arc<Waiting>, Arc<Asks>),
        (dispatcher, notes, people): (Dispatcher, Arc<Notes>, Arc<People>),
        lines: Arc<Lines>,
        closing: Arc<Closing>,
        (timeouts, redactor): (Timeouts, Redactor),
    ) -> Self {
        Self {
            api,
            identity,
            interactions,
            waiting,
            asks,
            dispatcher,
            notes,
            closing,
            timeouts,
            redactor,
            lines,
            recent: Mutex::default(),
            people,
            reported: Mutex::default(),
            reads: Semaphore::new(READS),
            blind: AtomicU64::new(0),
            logins: AtomicU64::new(0),
        }
    }

    /// Runs until the last sender of arrivals is gone and what came is seen to. Dropping the future
    /// ends all of it; what was not seen to by then gives no receipt.
    pub(super) async fn run(self, mut arrivals: mpsc::UnboundedReceiver<(Arrival, Receipt)>) {
        let (this, mut workers) = (Arc::new(self), JoinSet::new());
        loop {
            tokio::select! {
                biased;
                arrival = arrivals.recv() => match arrival {
                    Some((arrival, receipt)) => this.take(arrival, receipt, &mut workers),
                    None => break,
                },
                Some(_) = workers.join_next(), if !workers.is_empty() => {}
            }
        }
        while workers.join_next().await.is_some() {}
    }

    fn take(self: &Arc<Self>, arrival: Arrival, receipt: Receipt, workers: &mut JoinSet<()>) {
        let (channel, work) = match arrival {
            Arrival::LoggedIn { user, guilds } => {
                info!(%user, guilds, "discord is ready");
                self.logins.fetch_add(1, Ordering::SeqCst);
                // Who had which role before the outage is of no interest.
                self.people.forget_members();
                return self.go_back_to(self.to_catch_up(|_| true), receipt, workers);
            }
            Arrival::Behind(channels) => {
                let channels = self.to_catch_up(|channel| channels.contains(&channel));
                return self.go_back_to(channels, receipt, workers);
            }
            Arrival::Message { message, names, parent } => {
                (message.channel_id, Work::Message { message, names, parent })
            }
            Arrival::Edited(edit, names) => (edit.channel_id, Work::Edited(edit, names)),
            // No channel has this number; its line is one like all others.
            Arrival::Probe(probe) => (0, Work::Probe(probe)),
            Arrival::Deleted(channel, messages) => (channel, Work::Deleted(messages)),
            Arrival::Slash(slash, verb, kept) => {
                let (channel, claim) =
                    (slash.channel, Arc::new(Mutex::new(Some((slash, verb, kept)))));
                // Where its channel is busy with what was missed, it does not wait unkept.
                let (this, waits) = (Arc::clone(self), Arc::clone(&claim));
                workers.spawn(async move {
                    tokio::time::sleep(COMMAND_GRACE).await;
                    this.claimed(&waits).await;
                });
                (channel, Work::Command(claim))
            }
        };
        self.put(channel, (work, receipt), workers);
    }

    /// Catches up with channels, each from an id on.
    fn go_back_to(
        self: &Arc<Self>,
        channels: Vec<(u64, u64)>,
        receipt: Receipt,
        workers: &mut JoinSet<()>,
    ) {
        let receipts = receipt.split(channels.len());
        for ((channel, since), receipt) in channels.into_iter().zip(receipts) {
            self.put(channel, (Work::Missed(since), receipt), workers);
        }
    }

    /// Puts something to be done at the end of its channel's line, and has somebody see to that.
    fn put(self: &Arc<Self>, channel: u64, mut work: (Work, Receipt), workers: &mut JoinSet<()>) {
        let mut lines = self.lines.lock();
        let begins = !lines.contains_key(&channel);
        let line = lines.entry(channel).or_default();
        // Shards log in one after the other, and each login has all channels caught up with.
        if matches!(work.0, Work::Missed(_))
            && line.work.iter().any(|(waiting, _)| matches!(waiting, Work::Missed(_)))
        {
            work.0 = Work::Covered;
        }
        line.work.push_back(work);
        line.pressed.notify_one();
        if begins {
            let this = Arc::clone(self);
            workers.spawn(async move { this.see_to(channel).await });
        }
    }

    /// Does what a channel's line has, one after the other, until there is nothing.
    async fn see_to(&self, channel: u64) {
        loop {
            let ((work, receipt), pressed) = {
                let mut lines = self.lines.lock();
                let Some(line) = lines.get_mut(&channel) else { return };
                let pressed = Arc::clone(&line.pressed);
                let Some(work) = line.work.pop_front() else {
                    lines.remove(&channel);
                    return;
                };
                (work, pressed)
            };
            let seen_to = catch_panic(self.one(channel, work, &pressed)).await;
            if seen_to.is_err() {
                error!(
                    channel,
                    "what came from discord was not seen to: taking it in panicked; this is a bug of aetheel"
                );
            }
            // What panics once would always do so.
            if seen_to.unwrap_or(true) {
                receipt.done();
            }
        }
    }

    /// Does one thing. False: it is left to the next life.
    async fn one(&self, channel: u64, work: Work, pressed: &Notify) -> bool {
        match work {
            Work::Message { message, names, parent } => {
                return self.message(&message, &names, parent).await;
            }
            Work::Edited(edit, names) => self.edited(&edit, &names),
            Work::Deleted(messages) => self.deleted(channel, &messages),
            Work::Command(claim) => self.claimed(&claim).await,
            Work::Missed(since) => return self.catch_up(channel, since, pressed).await,
            Work::Covered => {}
            Work::Probe(probe) => self.dispatcher.probe(probe),
        }
        true
    }

    /// Sees to a command, unless somebody did.
    async fn claimed(&self, claim: &Claim) {
        let claimed = claim.lock().take();
        if let Some((slash, verb, kept)) = claimed {
            self.command(&slash, verb, kept).await;
        }
    }

    /// Whether nothing was told in a channel for a while; from now on something was.
    fn may_report(&self, channel: u64) -> bool {
        let (mut reported, now) = (self.reported.lock(), Instant::now());
        reported.retain(|_, at| now.duration_since(*at) < REFUSAL_INTERVAL);
        if reported.contains_key(&channel) {
            return false;
        }
        reported.insert(channel, now);
        true
    }

    /// Replies to a message with a notice, unless the channel got one a moment ago.
    pub(super) fn report(&self, channel: u64, message: u64, text: String) {
        self.notify(channel, message, nonce(), text);
    }

    /// Like [`Self::report`], with a notice that the message waits. Discord posts one such notice
    /// for a message, whichever node sends it.
    pub(super) fn report_waiting(&self, channel: u64, message: u64, text: &str) {
        self.notify(channel, message, waiting_nonce(message), text.to_owned());
    }

    fn notify(&self, channel: u64, message: u64, nonce: String, text: String) {
        if self.may_report(channel) {
            let (api, timeouts) = (self.api.clone(), self.timeouts);
            tokio::spawn(
                async move { send(&api, channel, message, &nonce, &text, timeouts).await },
            );
        }
    }
}

/// Posts a word about a message. False: trying again may help.
async fn send(
    api: &Api,
    channel: u64,
    message: u64,
    nonce: &str,
    text: &str,
    timeouts: Timeouts,
) -> bool {
    match api.post(channel, Some(message), nonce, text, timeouts).await {
        Ok(_) => true,
        Err(error) => {
            warn!(channel, length = text.chars().count(), %error, "cannot send a message to discord");
            !error.is_passing()
        }
    }
}

/// Puts the mark of something that is not taken on a message. False: trying again may help.
async fn mark(api: &Api, channel: u64, message: u64, timeouts: Timeouts) -> bool {
    match api.mark(channel, message, timeouts).await {
        Ok(()) => true,
        Err(error) => {
            debug!(channel, %error, "cannot mark a message that was not taken; the permission Add Reactions lets me");
            !error.is_passing()
        }
    }
}

/// The key of an event: the same for a message or interaction that is told twice.
pub(super) fn key(id: u64) -> String {
    format!("discord:{id}")
}
