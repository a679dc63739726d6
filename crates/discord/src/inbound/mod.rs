//! Processes the events from Discord in order: decides who may ask, accepts prompts, and catches up
//! with missed messages.
//!
//! Every channel has a queue, whose events are processed one after the other. So prompts are
//! accepted in the order of the channel's messages, and no channel waits for another. The next
//! event of a channel is processed once the prompt of the previous one, or its refusal, is saved.
//! Interactions are acknowledged by the module `router` when this module reports that they are
//! saved. Tested by `tests/discord/`, `tests/gateway/intake.rs`, `tests/gateway/journal.rs` and
//! `tests/gateway/faults/`.

mod commands;
mod context;
mod edits;
mod messages;
mod missed;
pub(crate) mod probes;
mod quotes;
pub(crate) mod router;
mod threads;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tracing::{debug, error, info, warn};

use crate::access::identity::Identity;
use crate::access::lookups::LookupCache;
use crate::api::interactions::Interactions;
use crate::api::{Api, nonce, waiting_nonce};
use crate::connection::gateway_event::Parent;
use crate::connection::receipt::Receipt;
use crate::delivery::queue_marker::QueueMarkers;
use crate::notes::NotesCache;
use crate::panel::commands::Verb;
use crate::questions::QuestionBoard;
use crate::rest::Timeouts;
use crate::text::mention::Name;
use crate::wire::{Message, MessageEdit, SlashInteraction};
use aetheel_dispatch::{
    Conversations, Dispatcher, HealthProbe, Intake, Questions, Settings, catch_panic,
};
use aetheel_model::redact::Redactor;
pub(super) use commands::{CommandRefusal, stop_text};
pub(super) use context::InboundContext;
use missed::RecentIds;

/// Pause before a request that Discord did not answer, or a write that failed, is repeated.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Minimum time between two notices in a channel.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(10);
/// How long a command waits for earlier work in its channel. Then it is processed out of order,
/// because Discord requires an acknowledgement within three seconds.
const COMMAND_GRACE: Duration = Duration::from_millis(500);
/// How many channels may read their missed messages at the same time.
const MAX_PARALLEL_READS: usize = 8;

/// An event to be processed in order.
pub(super) enum InboundEvent {
    /// A gateway session began; messages may have been missed before it.
    LoggedIn { user: String, guilds: u64 },
    /// Messages of these channels may have been missed.
    CatchUp(Vec<u64>),
    /// A message with the readable names of its mentions, and the channel of its thread if that is
    /// known.
    Message { message: Box<Message>, names: Vec<Name>, parent: Parent },
    /// A message was edited by its author.
    Edited(Box<MessageEdit>, Vec<Name>),
    /// Messages of a channel were deleted.
    Deleted(u64, Vec<u64>),
    /// A slash command, which is acknowledged once it is saved.
    Slash(Box<SlashInteraction>, Verb, OutcomeSender),
    /// A health probe, which only passes through the queue.
    Probe(HealthProbe),
}

/// The result of a command, sent once neither the command nor its answer can be lost any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandOutcome {
    /// The command is saved; its answer follows later.
    Kept,
    /// The command is complete, with this answer.
    Done(Cow<'static, str>),
}

/// Sends the result of a command, or the reason why it is refused.
pub(super) type OutcomeSender = oneshot::Sender<Result<CommandOutcome, CommandRefusal>>;

/// A command that two tasks may process. The task that takes it first processes it.
type ClaimableCommand = Arc<Mutex<Option<(Box<SlashInteraction>, Verb, OutcomeSender)>>>;

/// An entry of a channel's queue.
enum ChannelWork {
    Message {
        message: Box<Message>,
        names: Vec<Name>,
        parent: Parent,
    },
    Edited(Box<MessageEdit>, Vec<Name>),
    Deleted(Vec<u64>),
    Command(ClaimableCommand),
    /// Catches up with missed messages. Messages with smaller ids are too old to be answered.
    Missed(u64),
    /// A request to catch up that an earlier one in the queue covers.
    Covered,
    Probe(HealthProbe),
}

/// The work that waits in a channel. It exists as long as a task works on the channel.
#[derive(Default)]
pub(super) struct ChannelQueue {
    work: VecDeque<(ChannelWork, Receipt)>,
    /// Notified when work other than a catch-up is added.
    urgent: Arc<Notify>,
}

/// The channels with work that waits or is being done.
pub(super) type ChannelQueues = Mutex<HashMap<u64, ChannelQueue>>;

/// Whether the adapter still accepts prompts. The next process catches up with the messages that
/// are not accepted.
#[derive(Debug, Default)]
pub(super) struct IntakeState {
    begun: AtomicBool,
    silent: AtomicBool,
}

impl IntakeState {
    /// Stops accepting prompts. With `silently`, the authors of later prompts get no notice.
    pub(super) fn close(&self, silently: bool) {
        self.silent.store(silently, Ordering::SeqCst);
        self.begun.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    fn is_silent(&self) -> bool {
        self.silent.load(Ordering::SeqCst)
    }
}

/// The services of the dispatcher that messages and commands use.
pub(super) struct InboundServices {
    pub(super) intake: Intake,
    pub(super) questions: Arc<Questions>,
    pub(super) settings: Settings,
    pub(super) conversations: Conversations,
}

impl InboundServices {
    pub(super) fn of(dispatcher: &Dispatcher) -> Self {
        Self {
            intake: dispatcher.intake.clone(),
            questions: Arc::clone(&dispatcher.questions),
            settings: dispatcher.settings.clone(),
            conversations: dispatcher.conversations.clone(),
        }
    }
}

/// Processes events, each in the queue of its channel.
pub(super) struct InboundProcessor {
    pub(super) api: Api,
    pub(super) identity: Arc<Identity>,
    pub(super) interactions: Arc<Interactions>,
    pub(super) queue_markers: Arc<QueueMarkers>,
    pub(super) questions: Arc<QuestionBoard>,
    pub(super) services: InboundServices,
    pub(super) notes: Arc<NotesCache>,
    pub(super) intake: Arc<IntakeState>,
    /// Time limits of the notices that are sent from here.
    pub(super) timeouts: Timeouts,
    /// Applied to the parts of prompts that are shown.
    pub(super) redactor: Redactor,
    channel_queues: Arc<ChannelQueues>,
    recent: Mutex<RecentIds>,
    pub(super) lookups: Arc<LookupCache>,
    /// When each channel last got a notice.
    reported: Mutex<HashMap<u64, Instant>>,
    page_reads: Semaphore,
    /// The number of the login for which a warning about unreadable messages was logged last.
    warned_login: AtomicU64,
    logins: AtomicU64,
}

impl InboundProcessor {
    pub(super) fn new(
        api: Api,
        identity: Arc<Identity>,
        (interactions, queue_markers, questions): (
            Arc<Interactions>,
            Arc<QueueMarkers>,
            Arc<QuestionBoard>,
        ),
        (services, notes, lookups): (InboundServices, Arc<NotesCache>, Arc<LookupCache>),
        channel_queues: Arc<ChannelQueues>,
        intake: Arc<IntakeState>,
        (timeouts, redactor): (Timeouts, Redactor),
    ) -> Self {
        Self {
            api,
            identity,
            interactions,
            queue_markers,
            questions,
            services,
            notes,
            intake,
            timeouts,
            redactor,
            channel_queues,
            recent: Mutex::default(),
            lookups,
            reported: Mutex::default(),
            page_reads: Semaphore::new(MAX_PARALLEL_READS),
            warned_login: AtomicU64::new(0),
            logins: AtomicU64::new(0),
        }
    }

    /// Runs until all senders of events are dropped and all work is done. Dropping the future stops
    /// all work; the receipts of events that were not processed by then are not confirmed.
    pub(super) async fn run(self, mut arrivals: mpsc::UnboundedReceiver<(InboundEvent, Receipt)>) {
        let (this, mut workers) = (Arc::new(self), JoinSet::new());
        loop {
            tokio::select! {
                biased;
                arrival = arrivals.recv() => match arrival {
                    Some((arrival, receipt)) => this.enqueue_event(arrival, receipt, &mut workers),
                    None => break,
                },
                Some(_) = workers.join_next(), if !workers.is_empty() => {}
            }
        }
        while workers.join_next().await.is_some() {}
    }

    fn enqueue_event(
        self: &Arc<Self>,
        arrival: InboundEvent,
        receipt: Receipt,
        workers: &mut JoinSet<()>,
    ) {
        let (channel, work) = match arrival {
            InboundEvent::LoggedIn { user, guilds } => {
                info!(%user, guilds, "discord is ready");
                self.logins.fetch_add(1, Ordering::SeqCst);
                // Roles may have changed during the outage.
                self.lookups.forget_members();
                return self.enqueue_catch_up(
                    self.channels_to_catch_up(|_| true),
                    receipt,
                    workers,
                );
            }
            InboundEvent::CatchUp(channels) => {
                let channels = self.channels_to_catch_up(|channel| channels.contains(&channel));
                return self.enqueue_catch_up(channels, receipt, workers);
            }
            InboundEvent::Message { message, names, parent } => {
                (message.channel_id, ChannelWork::Message { message, names, parent })
            }
            InboundEvent::Edited(edit, names) => {
                (edit.channel_id, ChannelWork::Edited(edit, names))
            }
            // No channel has the id 0. Its queue is processed like all others.
            InboundEvent::Probe(probe) => (0, ChannelWork::Probe(probe)),
            InboundEvent::Deleted(channel, messages) => (channel, ChannelWork::Deleted(messages)),
            InboundEvent::Slash(slash, verb, outcome) => {
                let (channel, claim) =
                    (slash.channel, Arc::new(Mutex::new(Some((slash, verb, outcome)))));
                // If the channel is busy with missed messages, the command is processed
                // concurrently.
                let (this, waits) = (Arc::clone(self), Arc::clone(&claim));
                workers.spawn(async move {
                    tokio::time::sleep(COMMAND_GRACE).await;
                    this.run_claimed(&waits).await;
                });
                (channel, ChannelWork::Command(claim))
            }
        };
        self.enqueue(channel, (work, receipt), workers);
    }

    /// Enqueues a catch-up for each channel. Messages before the given id are too old.
    fn enqueue_catch_up(
        self: &Arc<Self>,
        channels: Vec<(u64, u64)>,
        receipt: Receipt,
        workers: &mut JoinSet<()>,
    ) {
        let receipts = receipt.split(channels.len());
        for ((channel, since), receipt) in channels.into_iter().zip(receipts) {
            self.enqueue(channel, (ChannelWork::Missed(since), receipt), workers);
        }
    }

    /// Adds work to the queue of a channel, and starts a task for the channel unless one is
    /// running.
    fn enqueue(
        self: &Arc<Self>,
        channel: u64,
        mut work: (ChannelWork, Receipt),
        workers: &mut JoinSet<()>,
    ) {
        let mut lines = self.channel_queues.lock();
        let begins = !lines.contains_key(&channel);
        let line = lines.entry(channel).or_default();
        // Each shard that logs in makes all channels catch up. One waiting catch-up is enough.
        if matches!(work.0, ChannelWork::Missed(_))
            && line.work.iter().any(|(waiting, _)| matches!(waiting, ChannelWork::Missed(_)))
        {
            work.0 = ChannelWork::Covered;
        }
        let is_urgent = !matches!(work.0, ChannelWork::Missed(_) | ChannelWork::Covered);
        line.work.push_back(work);
        if is_urgent {
            line.urgent.notify_one();
        }
        if begins {
            let this = Arc::clone(self);
            workers.spawn(async move { this.run_queue(channel).await });
        }
    }

    /// Processes the queue of a channel, one entry after the other, until it is empty.
    async fn run_queue(&self, channel: u64) {
        loop {
            let ((work, receipt), pressed) = {
                let mut lines = self.channel_queues.lock();
                let Some(line) = lines.get_mut(&channel) else { return };
                let pressed = Arc::clone(&line.urgent);
                let Some(work) = line.work.pop_front() else {
                    lines.remove(&channel);
                    return;
                };
                (work, pressed)
            };
            let seen_to = catch_panic(self.run_one(channel, work, &pressed)).await;
            if seen_to.is_err() {
                error!(
                    channel,
                    "an event from discord was not processed because its handler panicked; this is a bug in aetheel"
                );
            }
            // Work that panicked is not repeated, because it would panic again.
            if seen_to.unwrap_or(true) {
                receipt.done();
            }
        }
    }

    /// Processes one entry of a queue. Returns `false` if it is left to the next process.
    async fn run_one(&self, channel: u64, work: ChannelWork, pressed: &Notify) -> bool {
        match work {
            ChannelWork::Message { message, names, parent } => {
                return self.message(&message, &names, parent).await;
            }
            ChannelWork::Edited(edit, names) => self.edited(&edit, &names),
            ChannelWork::Deleted(messages) => self.deleted(channel, &messages),
            ChannelWork::Command(claim) => self.run_claimed(&claim).await,
            ChannelWork::Missed(since) => return self.catch_up(channel, since, pressed).await,
            ChannelWork::Covered => {}
            ChannelWork::Probe(probe) => self.services.intake.probe(probe),
        }
        true
    }

    /// Processes a command, unless another task has taken it.
    async fn run_claimed(&self, claim: &ClaimableCommand) {
        let claimed = claim.lock().take();
        if let Some((slash, verb, outcome)) = claimed {
            self.command(&slash, verb, outcome).await;
        }
    }

    /// Returns whether a channel may get a notice now. If so, records that it gets one.
    fn may_report(&self, channel: u64) -> bool {
        let (mut reported, now) = (self.reported.lock(), Instant::now());
        reported.retain(|_, at| now.duration_since(*at) < REFUSAL_INTERVAL);
        if reported.contains_key(&channel) {
            return false;
        }
        reported.insert(channel, now);
        true
    }

    /// Replies to a message with a notice, unless the channel got one recently.
    pub(super) fn report(&self, channel: u64, message: u64, text: String) {
        self.notify(channel, message, nonce(), text);
    }

    /// Like [`Self::report`], with a notice that the message waits. All nodes use the same nonce
    /// for it, so that Discord posts it once.
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

/// Posts a reply to a message. Returns `false` if another attempt may succeed.
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
            !error.is_temporary()
        }
    }
}

/// Marks a message as refused. Returns `false` if another attempt may succeed.
async fn mark(api: &Api, channel: u64, message: u64, timeouts: Timeouts) -> bool {
    match api.mark_refused(channel, message, timeouts).await {
        Ok(()) => true,
        Err(error) => {
            debug!(channel, %error, "cannot mark a message that was refused; hint: the bot needs Add Reactions there");
            !error.is_temporary()
        }
    }
}

/// Returns the key that identifies an event, also if Discord sends it twice.
pub(super) fn event_key(id: u64) -> String {
    format!("discord:{id}")
}
