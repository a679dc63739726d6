//! From an accepted event to a delivered answer.
//!
//! [`Dispatcher`] owns the queue and the running turns: it accepts events, runs each in its lane
//! and slot, delivers the answer through the [`Outlet`] and saves what must outlive the turn. While
//! a turn runs, people answer its agent's questions and steer it through here. It knows no adapter.
//! Pinned by `tests/dispatch.rs`.

mod artifacts;
mod attachments;
mod carrying;
mod caught;
mod census;
mod choices;
mod declined;
mod event;
mod excerpt;
mod hooks;
mod keeping;
mod knobs;
mod leaving;
mod listings;
mod lost;
mod offers;
mod pace;
mod pages;
mod planning;
mod projects;
mod pulse;
mod question;
mod questions;
mod radar;
mod recovery;
mod redelivery;
mod reply;
mod sessions;
mod settings;
mod stage;
mod start;
mod steering;
mod stopping;
mod threads;
mod ticket;
mod tray;
mod veil;
mod view;
mod withdraw;
mod wording;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::task::TaskTracker;

pub use caught::caught;
pub use census::Census;
pub use choices::{Choices, Effective, effective};
pub use declined::Declined;
pub use excerpt::Excerpt;
pub use knobs::Knob;
pub use pages::{Row, conversation, queue_rows, session_rows, status_rows};
pub use projects::Project;
pub use pulse::Pulse;
pub use question::{OpenQuestion, Settlement, Subject};
pub use questions::{AnswerRefusal, Person};
pub use recovery::{Again, AgainRefusal};
pub use reply::{
    Answer, AnswerFile, DeliveryError, Notice, Offer, Opened, Outlet, Reply, Traces, Unseen,
};
pub use sessions::{Conversation, Conversations};
pub use settings::Setting;
pub use steering::{Steered, Underway};
pub use stopping::Stopped;
pub use view::{Glimpse, QueueView, View};
pub use wording::Refusal;

use self::listings::Listings;
use self::lost::Salvage;
use self::pace::Pace;
use self::questions::Questions;
use self::radar::Radar;
use self::steering::Running;
use self::ticket::{Pumping, Ticket};
use crate::event::{Event, Lane, NewEvent, Sequence};
use crate::figures::{self, Outcome};
use crate::queue::{Limits, Queue};
use crate::redact::Redactor;
use crate::turn::recording::Recorder;
use crate::turn::{Backends, Host, Launcher, Links, Lookout};
use crate::vigil;
use crate::workspace::{Journal, Saving, Workspace};

/// What a dispatcher works with.
pub struct Parts {
    /// See [`Choices`].
    pub choices: Choices,
    /// Bounds of the queue.
    pub limits: Limits,
    /// How agents run.
    pub host: Host,
    /// What understands them.
    pub backends: Arc<dyn Backends>,
    /// What starts them.
    pub launcher: Arc<dyn Launcher>,
    /// Where answers go.
    pub outlet: Arc<dyn Outlet>,
    /// Markdown files and bindings.
    pub workspace: Workspace,
    /// Keeps accepted events over the death of the program; none: they live in memory, and what
    /// waits dies with it.
    pub journal: Option<Journal>,
    /// What writes recordings.
    pub recorder: Recorder,
    /// What keeps secrets out of answers.
    pub redactor: Redactor,
    /// A backend that reads worse than the one before is rolled back.
    pub rollback: bool,
}

/// What becomes of an event that was taken.
#[derive(Debug)]
pub struct Accepted {
    /// Its place in the order of acceptance.
    pub sequence: Sequence,
    /// How many events of its lane come before it, the running one included.
    pub ahead: usize,
    saving: Option<Saving>,
}

impl Accepted {
    /// Makes one of an event that needs no keeping.
    #[must_use]
    pub fn unkept(sequence: Sequence, ahead: usize) -> Self {
        Self { sequence, ahead, saving: None }
    }

    /// Waits until the event outlives the program.
    ///
    /// # Errors
    /// [`Refusal::NotSaved`]: it was taken back; whoever asked is told by the outlet.
    pub async fn safe(self) -> Result<Sequence, Refusal> {
        if keeping::safe(self.saving).await { Ok(self.sequence) } else { Err(Refusal::NotSaved) }
    }
}

/// Accepts events and sees each through. Cheap to clone.
#[derive(Clone)]
pub struct Dispatcher {
    inner: Arc<Inner>,
}

struct Inner {
    parts: Parts,
    links: Links,
    /// What agents told of their models and sessions.
    listings: Listings,
    began: Instant,
    queue: Mutex<Queue>,
    pace: Pace,
    /// How to reach the turn of a lane.
    running: Mutex<HashMap<Lane, Running>>,
    /// Signs of life on their way, by the number they wait under.
    pulses: Mutex<HashMap<Sequence, Pulse>>,
    /// Of events that are not known to be on disk yet.
    savings: Mutex<HashMap<Sequence, Saving>>,
    questions: Arc<Questions>,
    radar: Arc<Radar>,
    /// Replies that were lost and come back.
    salvage: Salvage,
    /// The channels of threads.
    parents: Mutex<HashMap<u64, u64>>,
    tasks: TaskTracker,
    /// What is still to be delivered is left to the next life.
    leaving: watch::Sender<bool>,
    /// What was wrong with the files when they were last read.
    warned: Mutex<Vec<String>>,
    /// What was said about settings that are not in force.
    told: Mutex<HashSet<String>>,
    /// Told whenever an event is finished.
    finished: Notify,
}

impl Dispatcher {
    /// Makes one with nothing to do. Must be called within a Tokio runtime, as must
    /// [`Dispatcher::submit`].
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let mut queue = Queue::new(parts.limits);
        queue.count_from(parts.journal.as_ref().map_or(0, Journal::last));
        let queue = Mutex::new(queue);
        let pace = Pace::new(parts.choices.prompts_per_minute);
        let questions =
            Arc::new(Questions::new(parts.choices.approvers.clone(), parts.redactor.clone()));
        let (unasked, said) = mpsc::unbounded_channel();
        let tasks = TaskTracker::new();
        let radar = Radar::new(
            parts.workspace.drift_notes().clone(),
            parts.outlet.clone(),
            parts.backends.clone(),
            parts.redactor.clone(),
            parts.rollback,
            tasks.clone(),
        );
        let looking = radar.clone();
        let lookout: Lookout = Arc::new(move |sighting| looking.saw(sighting));
        let links = Links::new(
            Arc::new(parts.host.clone()),
            parts.launcher.clone(),
            parts.recorder.clone(),
            unasked,
            lookout,
        );
        let inner = Inner {
            parts,
            links,
            listings: Listings::default(),
            began: Instant::now(),
            queue,
            pace,
            running: Mutex::default(),
            pulses: Mutex::default(),
            savings: Mutex::default(),
            questions,
            radar,
            salvage: Salvage::default(),
            parents: Mutex::default(),
            tasks,
            leaving: watch::channel(false).0,
            warned: Mutex::default(),
            told: Mutex::default(),
            finished: Notify::new(),
        };
        let inner = Arc::new(inner);
        vigil::task("unasked answers", event::deliver_unasked(Arc::downgrade(&inner), said));
        Self { inner }
    }

    /// Accepts an event, or says why not. Returns at once; the answer goes to the outlet.
    ///
    /// # Errors
    /// [`Refusal`], in words for the person who asked; nothing was kept.
    pub fn submit(&self, event: NewEvent) -> Result<Accepted, Refusal> {
        let (lane, kind, asker, limit) =
            (event.lane.clone(), event.kind, event.asker, self.inner.parts.choices.prompt_limit);
        let refused = |refusal: Refusal| {
            figures::event(kind, Outcome::Refused);
            tracing::warn!(%lane, ?kind, asker, depth = self.inner.queue.lock().waiting(), "event refused: {refusal}");
            Err(refusal)
        };
        // What is said twice is neither counted nor told twice.
        if self.inner.knows(&event) {
            tracing::debug!(%lane, ?kind, "event was taken before");
            return Err(Refusal::Known);
        }
        if event.prompt.len() > limit {
            return refused(Refusal::TooLong { bytes: event.prompt.len(), limit });
        }
        // Found out before it costs its author anything.
        if self.inner.parts.journal.as_ref().is_some_and(Journal::is_failing) {
            return Err(Refusal::NotSaved);
        }
        if let Err(refusal) = attachments::announced(&event.attached, &self.inner.parts.choices) {
            return refused(refusal);
        }
        // What somebody wrote while we were away came as fast as we come back.
        if let Some(wait) = event
            .asker
            .filter(|_| !event.missed)
            .and_then(|person| self.inner.pace.count(person).err())
        {
            return refused(Refusal::TooFast { seconds: wait.as_secs() + 1 });
        }
        match self.inner.accept(event) {
            Ok((event, ahead, saving)) => {
                figures::event(kind, Outcome::Accepted);
                tracing::info!(event = event.sequence, %lane, ?kind, "event accepted");
                let sequence = event.sequence;
                if event.opens_thread {
                    self.open_thread(event.clone(), saving.clone());
                }
                if let Some(saving) = saving.clone() {
                    self.watch_saving(event, saving);
                }
                self.pump();
                Ok(Accepted { sequence, ahead, saving })
            }
            Err(refusal) => refused(refusal),
        }
    }

    /// Forgets the conversation of a lane, and lets go of the agent's session with what still runs
    /// in it; a turn that still runs will not bring it back. Returns whether there was one.
    ///
    /// # Errors
    /// When the file cannot be written; in words for the person who asked.
    pub async fn reset(&self, lane: &Lane) -> Result<bool, String> {
        let had = self.inner.parts.workspace.bindings().reset(lane).await.map_err(|error| {
            tracing::error!(%lane, %error, "cannot forget the conversation");
            "The conversation could not be forgotten: its file cannot be written. (storage)"
                .to_owned()
        })?;
        // Where a turn runs, the next one finds that the session is not its own.
        if !self.is_busy(lane) {
            self.inner.links.forget(lane);
        }
        Ok(had)
    }

    /// Whether something runs or waits in a lane.
    #[must_use]
    pub fn is_busy(&self, lane: &Lane) -> bool {
        self.inner.queue.lock().lane_busy(lane)
    }

    /// Returns once nothing runs or waits.
    pub async fn idle(&self) {
        loop {
            let finished = self.inner.finished.notified();
            if self.inner.queue.lock().is_idle() {
                return;
            }
            finished.await;
        }
    }

    /// Starts what may start.
    ///
    /// A runtime that goes away drops a task at once, and with it the ticket, which comes back
    /// here: it must not go deeper with every event that waits.
    fn pump(&self) {
        let Some(_alone) = Pumping::begin() else { return };
        loop {
            let Some(event) = self.inner.queue.lock().next() else { return };
            let (stop, stopped) = watch::channel(None);
            let (steers, steered) = mpsc::unbounded_channel();
            self.inner
                .running
                .lock()
                .insert(event.lane.clone(), Running::new(&event, stop, steers));
            let ticket = Ticket {
                dispatcher: self.clone(),
                sequence: event.sequence,
                lane: event.lane.clone(),
            };
            let saving = self.inner.savings.lock().get(&event.sequence).cloned();
            let inner = self.inner.clone();
            self.inner.tasks.spawn(async move {
                let seen = caught(inner.see_through(event.clone(), stopped, steered, saving)).await;
                if seen.is_err() {
                    inner.unhear(&event);
                }
                // The lane goes on, whatever it takes to tell people.
                drop(ticket);
                if seen.is_err() {
                    inner.broke(&event).await;
                }
            });
        }
    }
}

impl Inner {
    /// Tells the author that an accepted event will not be answered.
    async fn refuse(&self, event: &Event, why: &str) {
        figures::event(event.kind, Outcome::Withdrawn);
        tracing::info!(event = event.sequence, lane = %event.lane, why, "event withdrawn before its turn");
        let answer = Answer {
            failure: Some(why.to_owned()),
            ..event::plain_answer(self.parts.choices.backend.clone())
        };
        self.tell(self.parts.outlet.open(event), answer, "a refusal").await;
    }
}
