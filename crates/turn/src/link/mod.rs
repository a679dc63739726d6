//! A link: one guest with the agent processes it talks to, serving one turn or many.
//!
//! All of it happens in one task (`task`), which owns the guest and hands the rest to those who
//! keep it: `turns` (with their sessions and questions), `replies` (what callers wait for),
//! `processes`, `net` (HTTP and, read by `sse`, its streams) and `files`. `plan` decides what a
//! guest may start; `driver` turns the link's reports into a result. Pinned by `tests/dispatch` and
//! `tests/links/`.

mod files;
mod keepsake;
mod net;
mod processes;
mod replies;
mod task;
mod turns;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

pub(super) use self::files::remove as remove_folder;
pub(super) use self::keepsake::Keepsake;
pub(super) use self::task::{Continued, NotRebuilt, OpenSession};

use super::conservation::Examination;
use super::recording::{Entry, Recording};
use super::{Backend, Blob, Generation, GuestFailure, Host, Launcher, Survivor};
use aetheel_model::agent::{
    Ask, AskKey, Decision, EventKind, Failure, Part, QueryKind, QueryResult, SessionKey,
    SessionReady, StartTurn, SteerOutcome, TurnDone, TurnRef, Unrecognised, Usage,
};
use aetheel_model::event::Lane;

/// A request to a link.
pub(super) enum LinkRequest {
    Begin(Box<Begin>),
    Interrupt(TurnRef),
    /// The turn must not go on: what serves it is ended.
    GiveUp(TurnRef),
    Answer(AskKey, Decision),
    Steer(TurnRef, Vec<Part>, oneshot::Sender<SteerOutcome>),
    /// The driver has let go of the turn; how it ended.
    End(TurnRef, String),
    Query(Query),
    CloseSession(SessionKey),
    /// Take over a newer generation, between turns; false: it cannot.
    Renew(Arc<dyn Backend>, oneshot::Sender<bool>),
    /// Leave as soon as no turn is open.
    Retire,
}

/// A question beside the turns.
pub(super) struct Query {
    /// The session it is about.
    pub(super) session: Option<SessionKey>,
    pub(super) kind: QueryKind,
    pub(super) reply_tx: oneshot::Sender<QueryReply>,
}

/// The reply to a question.
pub(super) struct QueryReply {
    pub(super) result: QueryResult,
    /// The agent's new id of the session it was about, where that changed.
    pub(super) native: Option<String>,
}

/// A turn for a link.
pub(super) struct Begin {
    /// Correlation id of the turn.
    pub(super) id: String,
    /// The event's sequence number, for the recording.
    pub(super) event: u64,
    pub(super) lane: Lane,
    pub(super) start: StartTurn,
    /// The bytes of its files.
    pub(super) blobs: Vec<Blob>,
    pub(super) reports: mpsc::UnboundedSender<Report>,
}

/// A turn an agent made by itself, as when something it had left running is done.
#[derive(Debug)]
pub struct Unasked {
    /// Whose session it was in.
    pub lane: Lane,
    /// Its label, for people.
    pub backend: String,
    /// The agent's words.
    pub text: String,
    /// Its tokens and money.
    pub usage: Option<Usage>,
}

/// Something in an agent's output that its backend does not know, when the backend reports it.
#[derive(Clone, Copy, Debug)]
pub struct UnknownOutput<'a> {
    /// Name of the backend.
    pub backend: &'a str,
    /// Which load of it.
    pub generation: &'a Generation,
    /// The agent's version when the last turn of the link began, where it is known.
    pub agent_version: Option<&'a str>,
    /// The link: the name of its recording.
    pub link: &'a str,
    /// In the backend's words.
    pub unknown: &'a Unrecognised,
}

/// Called with every unknown output, while the turn runs; must return at once.
pub type OnUnknown = Arc<dyn Fn(&UnknownOutput<'_>) + Send + Sync>;

/// A link's report to a turn.
#[derive(Debug)]
pub(super) enum Report {
    Event(EventKind),
    Session(SessionReady),
    Ask(Ask),
    Withdrawn(AskKey),
    Done(TurnDone),
    /// The agent's output compared with the text that people saw.
    Examined(Examination),
    /// The agent was started or has written something, whatever it was.
    Active,
    /// The agent has exited, and calls that a success.
    ExitedWell,
    /// The agent was lost through no fault of the turn: with the holder of its process, or because
    /// it was leaving when the turn began.
    Orphaned,
    /// The agent has written more than it may.
    OutputLimit,
    /// The guest did nothing about an interrupt.
    InterruptIgnored,
    /// The guest failed; its agent runs on, and its output is written down.
    GuestFailed,
    /// The agent's trouble, for a turn that ends without an outcome.
    Trouble(Failure),
    /// The end of the stderr of a process that has exited.
    Stderr(String),
    /// The link was about to close: the turn never began.
    Refused,
    /// Of a turn that an earlier life began: this question was answered then.
    Answered(AskKey, Decision),
    /// Of such a turn: the guest was told what people wrote to it.
    Steered,
    /// Of such a turn: the guest was told to interrupt it.
    Stopping,
    /// All that was reported before happened in an earlier life of the gateway.
    CaughtUp {
        /// Time that counts towards the turn's limit.
        spent: Duration,
        /// Time since the turn began, including questions and the gateway's absence.
        elapsed: Duration,
    },
    /// Nothing more will be reported.
    Over(Option<GuestFailure>),
}

/// The way to a link. Cheap to clone.
#[derive(Clone)]
pub(super) struct Link {
    /// Names it in logs and its recording.
    pub(super) id: Arc<str>,
    /// Where its recording is written.
    pub(super) recording: Arc<Path>,
    requests: mpsc::UnboundedSender<LinkRequest>,
    state: Arc<State>,
}

/// A way to a link that does not keep it from leaving.
pub(super) struct WeakLink {
    requests: mpsc::WeakUnboundedSender<LinkRequest>,
}

impl WeakLink {
    /// Whether the link lives.
    pub(super) fn lives(&self) -> bool {
        self.requests.strong_count() > 0
    }

    /// Asks it to go over to another generation, if it lives.
    pub(super) fn renew(&self, backend: &Arc<dyn Backend>) {
        if let Some(requests) = self.requests.upgrade() {
            // Nobody waits: the log says what became of it.
            let _ = requests.send(LinkRequest::Renew(Arc::clone(backend), oneshot::channel().0));
        }
    }
}

struct State {
    /// Takes no turns any more.
    closing: AtomicBool,
    /// The agent has written something since there was no turn.
    output: AtomicBool,
    turns: AtomicU32,
    /// Milliseconds after `opened` when the last turn ended.
    idle_since_ms: AtomicU32,
    opened: Instant,
    generation: parking_lot::Mutex<Generation>,
}

/// The parts a link is made of.
pub(super) struct Parts {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) host: Arc<Host>,
    /// Bound to one holder once the link runs: see [`Launcher::bind`].
    pub(super) launcher: Arc<dyn Launcher>,
    /// Where turns go that nobody asked for.
    pub(super) unasked: mpsc::UnboundedSender<Unasked>,
    pub(super) on_unknown: OnUnknown,
    /// Where processes work that belong to no session.
    pub(super) cwd: PathBuf,
    /// Names it in logs, and its processes.
    pub(super) id: String,
}

/// A link that goes on.
pub(super) struct Resumed<Life> {
    pub(super) link: Link,
    /// Those that are not over.
    pub(super) turns: Vec<Continued>,
    pub(super) sessions: Vec<OpenSession>,
    /// To be run for it to live.
    pub(super) life: Life,
}

impl Link {
    /// The way to a link that is about to live, and the ends that its task has of it.
    fn new(
        parts: &Parts,
        recording: &Recording,
    ) -> (Self, mpsc::UnboundedReceiver<LinkRequest>, Arc<State>) {
        let (requests, received) = mpsc::unbounded_channel();
        let state = Arc::new(State {
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

    /// Opens a link; returns the way to it and what must be run for it to live.
    pub(super) fn open(
        parts: Parts,
        recording: Recording,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (link, received, state) = Self::new(&parts, &recording);
        (link, task::run(parts, recording, received, state))
    }

    /// Opens a link as an earlier life of the gateway left it, with the turns and sessions it has.
    ///
    /// # Errors
    /// Why it cannot go on; its processes are to be ended then.
    pub(super) async fn resume(
        parts: Parts,
        recording: Recording,
        entries: &[Entry],
        left: (&Survivor, Keepsake),
    ) -> Result<Resumed<impl Future<Output = ()> + Send + 'static + use<>>, NotRebuilt> {
        let (link, received, state) = Self::new(&parts, &recording);
        let (rebuilt, life) =
            task::resume(parts, recording, (entries, left), received, state).await?;
        Ok(Resumed { link, turns: rebuilt.turns, sessions: rebuilt.sessions, life })
    }

    pub(super) fn downgrade(&self) -> WeakLink {
        WeakLink { requests: self.requests.downgrade() }
    }

    /// Asks it to do something. A link that has gone does nothing; whoever waits for an answer sees
    /// its channel close.
    pub(super) fn ask(&self, request: LinkRequest) {
        let _ = self.requests.send(request);
    }

    /// Whether it may take turns.
    pub(super) fn is_open(&self) -> bool {
        !self.state.closing.load(Ordering::Acquire) && !self.requests.is_closed()
    }

    /// Returns once nothing of it is left.
    pub(super) async fn gone(&self) {
        self.requests.closed().await;
    }

    /// Whether the agent has written anything since the first of the turns began that are open now.
    pub(super) fn has_output(&self) -> bool {
        self.state.has_output()
    }

    /// How many turns are open.
    pub(super) fn turns(&self) -> u32 {
        self.state.turns.load(Ordering::Acquire)
    }

    /// How long it has had no turn, milliseconds.
    pub(super) fn idle_for_ms(&self) -> u32 {
        self.state.elapsed_ms().saturating_sub(self.state.idle_since_ms.load(Ordering::Acquire))
    }

    /// The generation it runs on.
    pub(super) fn generation(&self) -> Generation {
        self.state.generation()
    }
}

impl State {
    fn generation(&self) -> Generation {
        self.generation.lock().clone()
    }

    fn renewed(&self, generation: &Generation) {
        self.generation.lock().clone_from(generation);
    }

    fn elapsed_ms(&self) -> u32 {
        u32::try_from(self.opened.elapsed().as_millis()).unwrap_or(u32::MAX)
    }

    fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    fn has_output(&self) -> bool {
        self.output.load(Ordering::Acquire)
    }

    fn set_output(&self, output: bool) {
        self.output.store(output, Ordering::Release);
    }

    fn set_turns(&self, count: usize) {
        self.idle_since_ms.store(self.elapsed_ms(), Ordering::Release);
        self.turns.store(u32::try_from(count).unwrap_or(u32::MAX), Ordering::Release);
    }
}
