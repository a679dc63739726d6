//! Queues events by channel, so that each channel is processed in order and none waits for another.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tracing::{error, info};

use super::{InboundProcessor, OutcomeSender};
use crate::connection::gateway_event::Parent;
use crate::connection::receipt::Receipt;
use crate::panel::commands::Verb;
use crate::text::mention::Name;
use crate::wire::{Interaction, Message, MessageDeletion, MessageEdit};
use aetheel_dispatch::{HealthProbe, catch_panic};

/// How long a command waits for earlier work in its channel. Then it is processed out of order,
/// because Discord requires an acknowledgement within three seconds.
const COMMAND_GRACE: Duration = Duration::from_millis(500);

/// An event to be processed in order.
pub(crate) enum InboundEvent {
    /// A gateway session began; messages may have been missed before it.
    LoggedIn { user: String, guilds: usize },
    /// Messages of these channels may have been missed.
    CatchUp(Vec<u64>),
    /// A message with the readable names of its mentions, and the channel of its thread if that is
    /// known.
    Message { message: Box<Message>, names: Vec<Name>, parent: Parent },
    /// A message was edited by its author.
    Edited(Box<MessageEdit>, Vec<Name>),
    /// Messages of a channel were deleted.
    Deleted(MessageDeletion),
    /// A slash command, which is acknowledged once it is saved.
    Slash(Box<Interaction>, Verb, OutcomeSender),
    /// A health probe, which only passes through the queue.
    Probe(HealthProbe),
}

/// A command that two tasks may process. The task that takes it first processes it.
type ClaimableCommand = Arc<Mutex<Option<(Box<Interaction>, Verb, OutcomeSender)>>>;

enum ChannelWork {
    Message {
        message: Box<Message>,
        names: Vec<Name>,
        parent: Parent,
    },
    Edited(Box<MessageEdit>, Vec<Name>),
    Deleted(MessageDeletion),
    Command(ClaimableCommand),
    /// Catches up with missed messages. Messages with smaller ids are too old to be answered.
    Missed(u64),
    /// A request to catch up that an earlier one in the queue covers.
    Covered,
    Probe(HealthProbe),
}

/// The work that waits in a channel. It exists as long as a task works on the channel.
#[derive(Default)]
pub(crate) struct ChannelQueue {
    work: VecDeque<(ChannelWork, Receipt)>,
    /// Notified when work other than a catch-up is added.
    urgent: Arc<Notify>,
}

/// The channels with work that waits or is being done.
pub(crate) type ChannelQueues = Mutex<HashMap<u64, ChannelQueue>>;

/// Passes events to an [`InboundProcessor`], in the order of each channel.
pub(crate) struct InboundQueue {
    processor: InboundProcessor,
    channel_queues: Arc<ChannelQueues>,
}

impl InboundQueue {
    pub(crate) fn new(processor: InboundProcessor, channel_queues: Arc<ChannelQueues>) -> Self {
        Self { processor, channel_queues }
    }

    /// Runs until all senders of events are dropped and all work is done. Dropping the future stops
    /// all work; the receipts of events that were not processed by then are not confirmed.
    pub(crate) async fn run(self, mut arrivals: mpsc::UnboundedReceiver<(InboundEvent, Receipt)>) {
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
                self.processor.logins.fetch_add(1, Ordering::SeqCst);
                // Roles may have changed during the outage.
                self.processor.lookups.forget_members();
                return self.enqueue_catch_up(
                    self.processor.channels_to_catch_up(|_| true),
                    receipt,
                    workers,
                );
            }
            InboundEvent::CatchUp(channels) => {
                let channels =
                    self.processor.channels_to_catch_up(|channel| channels.contains(&channel));
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
            InboundEvent::Deleted(deletion) => {
                (deletion.channel_id, ChannelWork::Deleted(deletion))
            }
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
        self.enqueue(channel, work, receipt, workers);
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
            self.enqueue(channel, ChannelWork::Missed(since), receipt, workers);
        }
    }

    /// Adds work to the queue of a channel, and starts a task for the channel unless one is
    /// running.
    fn enqueue(
        self: &Arc<Self>,
        channel: u64,
        mut work: ChannelWork,
        receipt: Receipt,
        workers: &mut JoinSet<()>,
    ) {
        let mut lines = self.channel_queues.lock();
        let begins = !lines.contains_key(&channel);
        let line = lines.entry(channel).or_default();
        // Each shard that logs in makes all channels catch up. One waiting catch-up is enough.
        if matches!(work, ChannelWork::Missed(_))
            && line.work.iter().any(|(waiting, _)| matches!(waiting, ChannelWork::Missed(_)))
        {
            work = ChannelWork::Covered;
        }
        let is_urgent = !matches!(work, ChannelWork::Missed(_) | ChannelWork::Covered);
        line.work.push_back((work, receipt));
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
                return self.processor.message(&message, &names, parent).await;
            }
            ChannelWork::Edited(edit, names) => self.processor.edited(&edit, &names),
            ChannelWork::Deleted(deletion) => self.processor.deleted(&deletion),
            ChannelWork::Command(claim) => self.run_claimed(&claim).await,
            ChannelWork::Missed(since) => {
                return self.processor.catch_up(channel, since, pressed).await;
            }
            ChannelWork::Covered => {}
            ChannelWork::Probe(probe) => self.processor.services.intake.probe(probe),
        }
        true
    }

    /// Processes a command, unless another task has taken it.
    async fn run_claimed(&self, claim: &ClaimableCommand) {
        let claimed = claim.lock().take();
        if let Some((slash, verb, outcome)) = claimed {
            self.processor.command(&slash, verb, outcome).await;
        }
    }
}
