//! A link: one guest with the agent processes it talks to, serving one turn or many.
//!
//! Owns the guest, its processes, files, timers and HTTP, and one task in which all of it happens.
//! What a guest may not do is decided in `plan`; what a turn makes of what it is told, in `driver`.
//! Pinned by `tests/dispatch` and `tests/links.rs`.

mod actions;
mod closing;
mod draining;
mod files;
mod http;
mod mark;
mod processes;
mod renewal;
mod sse;
mod task;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use super::recording::Recording;
use super::{Backend, Blob, Generation, GuestFailure, Host, Launcher};
use crate::agent::{
    Ask, AskKey, Decision, EventKind, Failure, Part, QueryKind, QueryResult, SessionKey,
    SessionReady, StartTurn, SteerOutcome, TurnDone, TurnRef, Unrecognised, Usage,
};
use crate::event::Lane;

/// What a link is asked to do.
pub(super) enum Request {
    Begin(Box<Begin>),
    Interrupt(TurnRef),
    /// The turn must not go on: what serves it is ended.
    GiveUp(TurnRef),
    Answer(AskKey, Decision),
    Steer(TurnRef, Vec<Part>, oneshot::Sender<SteerOutcome>),
    /// Nobody follows the turn any more; how it ended.
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
    pub(super) told: oneshot::Sender<Told>,
}

/// What came of a question.
pub(super) struct Told {
    pub(super) result: QueryResult,
    /// What the session it was about is called from now on, where that changed.
    pub(super) native: Option<String>,
}

/// A question beside the turns that has no answer yet.
pub(super) struct Pending {
    /// The session it is about.
    pub(super) session: Option<SessionKey>,
    /// The agent's new id of that session.
    pub(super) native: Option<String>,
    told: oneshot::Sender<Told>,
}

impl Pending {
    pub(super) fn answered(self, result: QueryResult) {
        // Whoever asked may have given up.
        let _ = self.told.send(Told { result, native: self.native });
    }
}

/// A turn for a link.
pub(super) struct Begin {
    /// Correlation id of the turn.
    pub(super) id: String,
    /// For the recording.
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
    /// For people.
    pub backend: String,
    /// What the agent said.
    pub text: String,
    /// What it cost.
    pub usage: Option<Usage>,
}

/// Something an agent said that its backend does not know, at the moment the backend says so.
#[derive(Clone, Copy, Debug)]
pub struct Sighting<'a> {
    /// Its backend.
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

/// Who is told of every sighting, while the turn runs; must return at once.
pub type Lookout = Arc<dyn Fn(&Sighting<'_>) + Send + Sync>;

/// What a turn is told by its link.
#[derive(Debug)]
pub(super) enum Report {
    Event(EventKind),
    Session(SessionReady),
    Ask(Ask),
    Withdrawn(AskKey),
    Done(TurnDone),
    /// The agent said something, whatever it was.
    Heard,
    /// An agent that runs for one turn said something on its stdout.
    Said,
    /// The agent has exited, and calls that a success.
    Left,
    /// The agent said too much.
    TooMuch,
    /// The guest did nothing about an interrupt.
    Ignored,
    /// The guest failed; its agent is heard to its end.
    Blind,
    /// What happened to the agent, for a turn that ends without an outcome.
    Trouble(Failure),
    /// The end of what a process said on its stderr, which has exited.
    Stderr(String),
    /// The link was about to close: the turn never began.
    Refused,
    /// Nothing more will be told.
    Over(Option<GuestFailure>),
}

/// The way to a link. Cheap to clone.
#[derive(Clone)]
pub(super) struct Link {
    /// Names it in logs and its recording.
    pub(super) id: Arc<str>,
    /// Where its recording is written.
    pub(super) recording: Arc<Path>,
    requests: mpsc::UnboundedSender<Request>,
    state: Arc<State>,
}

struct State {
    /// Takes no turns any more.
    closing: AtomicBool,
    /// The agent said something since there was no turn.
    heard: AtomicBool,
    turns: AtomicU32,
    /// Milliseconds after `opened` when the last turn ended.
    idle_since_ms: AtomicU32,
    opened: Instant,
    generation: parking_lot::Mutex<Generation>,
}

/// What a link is made of.
pub(super) struct Parts {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) host: Arc<Host>,
    pub(super) launcher: Arc<dyn Launcher>,
    /// Where turns go that nobody asked for.
    pub(super) unasked: mpsc::UnboundedSender<Unasked>,
    pub(super) lookout: Lookout,
    /// Where processes work that belong to no session.
    pub(super) cwd: PathBuf,
    /// Names it in logs, and its processes.
    pub(super) id: String,
}

impl Link {
    /// Opens a link; returns the way to it and what must be run for it to live.
    pub(super) fn open(
        parts: Parts,
        recording: Recording,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (requests, asked) = mpsc::unbounded_channel();
        let state = Arc::new(State {
            closing: AtomicBool::new(false),
            heard: AtomicBool::new(false),
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
        (link, task::live(parts, recording, asked, state))
    }

    /// Asks it to do something. A link that has gone does nothing; whoever waits for an answer sees
    /// its channel close.
    pub(super) fn ask(&self, request: Request) {
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

    /// Whether the agent said anything since the first of the turns began that are open now.
    pub(super) fn heard(&self) -> bool {
        self.state.heard.load(Ordering::Acquire)
    }

    /// Open turns.
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

    fn set_turns(&self, count: usize) {
        self.idle_since_ms.store(self.elapsed_ms(), Ordering::Release);
        self.turns.store(u32::try_from(count).unwrap_or(u32::MAX), Ordering::Release);
    }
}
