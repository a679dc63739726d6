//! A link: one guest with the agent processes it talks to, serving one turn or many.
//!
//! The state of a link is a function of its recording: `machine` applies each entry and returns
//! `effects`. It consists of `turns` (open turns and their questions), `sessions`, `calls` (of the
//! host's tools), `served` (those that arrive at the MCP server), `replies` (keys of messages and
//! queries) and `process_table`. `messages` are exchanged with drivers, and `deps` are the services
//! of a link. A link runs in one task (`task`), which owns the guest, adds the entries and performs
//! the effects on `processes`, `net` (HTTP and its event streams), `files`, `reads` (of posted files)
//! and `senders` (to drivers and other callers). `plan` decides what a guest may start. `driver`
//! converts the link's reports into a result. `tests/dispatch` and `tests/links/` test this module.

mod action_error;
mod calls;
mod deps;
mod effects;
mod files;
mod keepsake;
mod limits;
mod machine;
mod messages;
mod net;
mod process_table;
mod processes;
mod reads;
mod replies;
mod senders;
mod served;
mod sessions;
mod task;
mod turns;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

pub use self::calls::HOST_ASK;
pub(super) use self::deps::LinkDeps;
pub(super) use self::files::{new_secret, remove as remove_folder};
pub(super) use self::keepsake::{FormerLink, Keepsake};
pub(crate) use self::messages::{Begin, LinkQuery, LinkReport, LinkRequest, QueryReply};
pub use self::messages::{OnUnknown, UnknownOutput, UnsolicitedTurn};
pub(super) use self::sessions::LinkSession;
pub(super) use self::task::{FailedRebuild, Rebuilt, RebuiltTurn};

use self::machine::LinkMachine;
use aetheel_recording::{Backend, Generation, Recording};

/// A handle of a link. Cheap to clone.
#[derive(Clone)]
pub(super) struct Link {
    /// The id of the link, used in logs and as the name of its recording.
    pub(super) id: Arc<str>,
    pub(super) recording: Arc<Path>,
    requests: mpsc::UnboundedSender<LinkRequest>,
    state: Arc<LinkState>,
}

/// A handle of a link that does not keep the link open.
pub(super) struct WeakLink {
    requests: mpsc::WeakUnboundedSender<LinkRequest>,
}

impl WeakLink {
    /// Returns whether the link still has other handles.
    pub(super) fn is_alive(&self) -> bool {
        self.requests.strong_count() > 0
    }

    /// Asks the link to move to another generation, if the link is still open.
    pub(super) fn renew(&self, backend: &Arc<dyn Backend>) {
        if let Some(requests) = self.requests.upgrade() {
            // The result appears in the log, so nothing waits for the reply.
            let _ = requests.send(LinkRequest::Renew(Arc::clone(backend), oneshot::channel().0));
        }
    }
}

struct LinkState {
    /// Whether the link accepts no more turns.
    closing: AtomicBool,
    /// Whether the agent has written anything since the link last had no turn.
    output: AtomicBool,
    turns: AtomicU32,
    /// When the last turn ended, in milliseconds after `opened`.
    idle_since_ms: AtomicU32,
    opened: Instant,
    generation: parking_lot::Mutex<Generation>,
}

/// A link that was rebuilt after a restart of the gateway.
pub(super) struct ResumedLink<Life> {
    pub(super) link: Link,
    pub(super) rebuilt: Rebuilt,
    /// The future that drives the link. It must be polled for the link to make progress.
    pub(super) run: Life,
}

impl Link {
    /// Creates the handle of a link, the receiver of its requests, and the state it shares with its
    /// task.
    fn new(
        parts: &LinkDeps,
        recording: &Recording,
    ) -> (Self, mpsc::UnboundedReceiver<LinkRequest>, Arc<LinkState>) {
        let (requests, received) = mpsc::unbounded_channel();
        let state = Arc::new(LinkState {
            closing: AtomicBool::new(false),
            output: AtomicBool::new(false),
            turns: AtomicU32::new(0),
            idle_since_ms: AtomicU32::new(0),
            opened: Instant::now(),
            generation: parking_lot::Mutex::new(parts.backend.generation().clone()),
        });
        let link = Self {
            id: parts.id.as_str().into(),
            recording: recording.path().into(),
            requests,
            state: Arc::clone(&state),
        };
        (link, received, state)
    }

    /// Opens a link. Returns its handle and the future that drives it.
    pub(super) fn open(
        parts: LinkDeps,
        recording: Recording,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (link, received, state) = Self::new(&parts, &recording);
        (link, task::run(parts, recording, received, state))
    }

    /// Rebuilds a link that outlived the gateway, with its turns and sessions, from a part of its
    /// recording.
    ///
    /// # Errors
    /// Returns why the link cannot continue. If no other attempt succeeds, the caller must end its
    /// processes.
    pub(super) async fn resume(
        mut parts: LinkDeps,
        recording: Recording,
        former: FormerLink<'_>,
    ) -> Result<ResumedLink<impl Future<Output = ()> + Send + 'static + use<>>, Box<FailedRebuild>>
    {
        if let Some(secret) = &former.keepsake.tool_secret {
            parts.tool_secret.clone_from(secret);
        }
        let (link, received, state) = Self::new(&parts, &recording);
        let (rebuilt, run) = task::resume(parts, recording, former, received, state).await?;
        Ok(ResumedLink { link, rebuilt, run })
    }

    pub(super) fn downgrade(&self) -> WeakLink {
        WeakLink { requests: self.requests.downgrade() }
    }

    /// Sends a request. If the link has ended, the request is dropped, and a caller that waits for
    /// a reply sees its channel close.
    pub(super) fn send(&self, request: LinkRequest) {
        let _ = self.requests.send(request);
    }

    /// Returns whether the link may accept turns.
    pub(super) fn is_open(&self) -> bool {
        !self.state.closing.load(Ordering::Acquire) && !self.requests.is_closed()
    }

    /// Waits until the link has ended.
    pub(super) async fn closed(&self) {
        self.requests.closed().await;
    }

    /// Returns whether the agent has written anything since the first of the currently open turns
    /// began.
    pub(super) fn has_output(&self) -> bool {
        self.state.output.load(Ordering::Acquire)
    }

    /// Returns the number of open turns.
    pub(super) fn turns(&self) -> u32 {
        self.state.turns.load(Ordering::Acquire)
    }

    /// Returns how long the link has had no turn, in milliseconds.
    pub(super) fn idle_for_ms(&self) -> u32 {
        self.state.elapsed_ms().saturating_sub(self.state.idle_since_ms.load(Ordering::Acquire))
    }

    /// Returns the current generation of the link.
    pub(super) fn generation(&self) -> Generation {
        self.state.generation()
    }
}

impl LinkState {
    fn generation(&self) -> Generation {
        self.generation.lock().clone()
    }

    fn renewed(&self, generation: &Generation) {
        self.generation.lock().clone_from(generation);
    }

    fn elapsed_ms(&self) -> u32 {
        u32::try_from(self.opened.elapsed().as_millis()).unwrap_or(u32::MAX)
    }

    /// Updates the state that the handles of the link read.
    fn publish(&self, machine: &LinkMachine) {
        if machine.closing.is_ending() {
            self.close();
        }
        self.output.store(machine.output.any, Ordering::Release);
        let count = u32::try_from(machine.turns.count()).unwrap_or(u32::MAX);
        if self.turns.swap(count, Ordering::AcqRel) != count {
            self.idle_since_ms.store(self.elapsed_ms(), Ordering::Release);
        }
    }

    fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }
}
