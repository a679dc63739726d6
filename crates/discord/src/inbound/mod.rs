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
mod notices;
pub(crate) mod probes;
mod queue;
mod quotes;
pub(crate) mod router;
mod threads;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

use crate::access::lookups::LookupCache;
use crate::delivery::context::BotContext;
use aetheel_dispatch::Dispatcher;
pub(super) use commands::{CommandRefusal, stop_text};
pub(super) use context::InboundContext;
use missed::RecentIds;
use notices::ChannelNotices;
pub(super) use queue::{ChannelQueues, InboundEvent, InboundQueue};

/// Pause before a request that Discord did not answer, or a write that failed, is repeated.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// How many channels may read their missed messages at the same time.
const MAX_PARALLEL_READS: usize = 8;

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

/// Whether the adapter still accepts prompts. The next process catches up with the messages that
/// are not accepted.
#[derive(Debug, Default)]
pub(super) struct IntakeState {
    closed: AtomicBool,
    silent: AtomicBool,
}

impl IntakeState {
    /// Stops accepting prompts. With `silently`, the authors of later prompts get no notice.
    pub(super) fn close(&self, silently: bool) {
        self.silent.store(silently, Ordering::SeqCst);
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn is_silent(&self) -> bool {
        self.silent.load(Ordering::SeqCst)
    }
}

/// Processes events. [`InboundQueue`] calls it, in the order of each channel.
pub(super) struct InboundProcessor {
    pub(super) inner: Arc<BotContext>,
    pub(super) services: Dispatcher,
    pub(super) intake: Arc<IntakeState>,
    recent: Mutex<RecentIds>,
    pub(super) lookups: Arc<LookupCache>,
    notices: ChannelNotices,
    page_reads: Semaphore,
    /// The number of the login for which a warning about unreadable messages was logged last.
    warned_login: AtomicU64,
    logins: AtomicU64,
}

impl InboundProcessor {
    pub(super) fn new(
        inner: Arc<BotContext>,
        services: Dispatcher,
        lookups: Arc<LookupCache>,
        intake: Arc<IntakeState>,
    ) -> Self {
        let notices = ChannelNotices::new(inner.api.clone(), inner.options.time_limits.send);
        Self {
            inner,
            services,
            intake,
            recent: Mutex::default(),
            lookups,
            notices,
            page_reads: Semaphore::new(MAX_PARALLEL_READS),
            warned_login: AtomicU64::new(0),
            logins: AtomicU64::new(0),
        }
    }
}

/// Returns the key that identifies an event, also if Discord sends it twice.
pub(super) fn event_key(id: u64) -> String {
    format!("discord:{id}")
}
