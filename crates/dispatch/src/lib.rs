//! From an accepted event to a delivered answer.
//!
//! Owns the queue of events and the running turns. [`Dispatcher`] accepts events, runs each in its
//! lane and slot, delivers the answer through the [`Outlet`], and saves the state that must survive
//! a restart. During a turn, people answer its agent's questions and steer it through
//! [`Dispatcher`]. Must not depend on an adapter such as Discord. `tests/dispatch/` tests this
//! crate.
//!
//! | module | content |
//! |---|---|
//! | [`outlet`] | the port to people: answers, questions, messages |
//! | [`deps`] | the operator's settings and the dependencies of a dispatcher |
//! | [`observers`] | observers of lanes and turns |
//! | [`persistence`] | the saved progress of each event |
//! | [`in_flight`] | deliveries in progress |
//! | [`questions`] | questions that wait for people |
//! | [`channel`] | the settings of a lane: backend, directory, memory, sessions |
//! | [`recovery`] | unfinished events after a restart, and replies that could not be read |
//! | [`delivery`] | the delivery of answers |
//! | [`drift`] | output that backends do not recognise |
//! | [`health`] | probes and metrics |
//! | [`lanes`] | the queue and the running turns |
//! | [`run`] | one event, from its files to its answer |
//! | [`intake`] | accepting, steering, withdrawing and rejecting events |
//! | [`status`] | the state of a lane as people see it |
//!
//! A module uses only modules above it in this table. Modules with methods of [`Dispatcher`] or
//! `DispatcherInner` also use this file.

mod channel;
mod delivery;
mod deps;
mod drift;
mod health;
mod in_flight;
mod intake;
mod lanes;
mod observers;
mod outlet;
mod persistence;
mod questions;
mod recovery;
mod run;
mod status;

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;

pub use self::channel::effective::{EffectiveSettings, effective_settings};
pub use self::channel::options::{Setting, SettingOption};
pub use self::channel::projects::ProjectBinding;
pub use self::channel::sessions::{Conversation, Conversations};
pub use self::deps::{Choices, DispatcherDeps, Router};
pub use self::health::{HealthProbe, Stats};
pub use self::intake::router::Placement;
pub use self::intake::{Accepted, PendingSteering, SavedRefusal, SteeringResult};
pub use self::lanes::EventSummary;
pub use self::lanes::panics::catch_panic;
pub use self::lanes::stop::StopResult;
pub use self::observers::TurnWatch;
pub use self::outlet::answer::{AnswerFile, TurnAnswer};
pub use self::outlet::excerpt::Excerpt;
pub use self::outlet::messages::PromptRefusal;
pub use self::outlet::question::{OpenQuestion, Settlement, Subject};
pub use self::outlet::{
    DeliveryError, Notice, Offer, OpenedThread, Outlet, PriorDelivery, QuestionDismissal,
    RECAP_MESSAGES, RecapMessage, Reply,
};
pub use self::questions::{AnswerRefusal, Person};
pub use self::recovery::import::ImportedEvents;
pub use self::recovery::restart::{OfferEffect, OfferRefusal};
pub use self::run::turn_renderer::{RecordedEnd, TurnRenderer};
pub use self::status::backends::BackendView;
pub use self::status::overview::{LaneView, RunningTurn};
pub use self::status::render::{
    StatusRow, conversation_line, queue_rows, session_rows, status_rows,
};
pub use self::status::{LaneStatus, QueueView};

use self::channel::ChannelContext;
use self::channel::listings::Listings;
use self::delivery::AnswerDelivery;
use self::drift::DriftMonitor;
use self::health::DispatcherHealth;
use self::intake::rate_limit::RateLimit;
use self::lanes::LaneRegistry;
use self::lanes::slot::{LaneSlot, PumpGuard};
use self::observers::ChangeSignal;
use self::persistence::EventPersistence;
use self::questions::Questions;
use self::recovery::restart::{OfferReason, TurnFollowUp};
use self::recovery::unread::LostReplies;
use aetheel_model::agent::AskDecision;
use aetheel_model::event::{Event, Lane};
use aetheel_model::plain::with_causes;
use aetheel_model::queue::Queue;
use aetheel_model::supervisor;
use aetheel_turn::{Links, OnUnknown};

/// Accepts events, runs their turns and delivers their answers. Cheap to clone.
#[derive(Clone)]
pub struct Dispatcher {
    inner: Arc<DispatcherInner>,
}

struct DispatcherInner {
    deps: Arc<DispatcherDeps>,
    links: Links,
    listings: Listings,
    lanes: LaneRegistry,
    rate_limit: RateLimit,
    durability: Arc<EventPersistence>,
    delivery: Arc<AnswerDelivery>,
    questions: Arc<Questions>,
    channels: ChannelContext,
    drift: Arc<DriftMonitor>,
    lost_replies: Arc<LostReplies>,
    health: DispatcherHealth,
    tasks: TaskTracker,
}

impl Dispatcher {
    /// Creates a dispatcher with an empty queue. Must be called within a Tokio runtime, as must
    /// [`Dispatcher::submit`].
    #[must_use]
    pub fn new(parts: DispatcherDeps) -> Self {
        let (parts, tasks) = (Arc::new(parts), TaskTracker::new());
        let mut queue = Queue::new(parts.limits);
        let (first, last) = parts
            .journal
            .as_ref()
            .map_or((0, 0), |journal| (journal.block_start(), journal.last()));
        queue.count_from(first, last);
        let (unasked_tx, unasked) = mpsc::unbounded_channel();
        let drift = DriftMonitor::new(parts.clone(), tasks.clone());
        let monitor = drift.clone();
        let on_unknown: OnUnknown = Arc::new(move |unknown| monitor.on_unknown(unknown));
        let links = Links::new(
            Arc::new(parts.host.clone()),
            parts.launcher.clone(),
            parts.recorder.clone(),
            unasked_tx,
            on_unknown,
        );
        let durability = Arc::new(EventPersistence::new(parts.clone()));
        let lost = Arc::new(LostReplies::new(parts.clone()));
        let delivery =
            AnswerDelivery::new(parts.clone(), durability.clone(), lost.clone(), tasks.clone());
        let stir = ChangeSignal::default();
        let (approvers, redactor) = (parts.choices.approvers.clone(), parts.redactor.clone());
        let inner = Arc::new(DispatcherInner {
            listings: Listings::new(links.clone()),
            links,
            lanes: LaneRegistry::new(queue, stir.clone()),
            rate_limit: RateLimit::new(parts.choices.prompts_per_minute),
            durability,
            delivery: Arc::new(delivery),
            questions: Arc::new(Questions::new(approvers, redactor, stir)),
            channels: ChannelContext::new(parts.clone()),
            drift,
            lost_replies: lost,
            health: DispatcherHealth::new(parts.clone()),
            tasks,
            deps: parts,
        });
        supervisor::spawn(
            "unasked answers",
            run::unsolicited::deliver(Arc::downgrade(&inner), unasked),
        );
        Self { inner }
    }

    /// Forgets the conversation of a lane and closes its session on the agent, with everything that
    /// still runs in that session. A turn that still runs does not restore it. Returns whether
    /// there was a conversation.
    ///
    /// # Errors
    /// A message for the person who asked, if the file cannot be written.
    pub async fn reset(&self, lane: &Lane) -> Result<bool, String> {
        let had = self.inner.deps.workspace.bindings().reset(lane).await.map_err(|error| {
            tracing::error!(%lane, error = %with_causes(&error), "cannot forget the conversation");
            "The conversation could not be forgotten: its file cannot be written. (storage)"
                .to_owned()
        })?;
        // A running turn keeps its link. The next turn finds that the session of the link is no
        // longer that of the conversation.
        if !self.is_busy(lane) {
            self.inner.links.forget(lane);
        }
        Ok(had)
    }

    /// Moves the running turns of these backends to the current generation, if replaying a turn
    /// with that generation gives the same actions.
    pub fn upgrade_turns(&self, backends: &[String]) {
        for backend in backends.iter().filter_map(|name| self.inner.deps.backends.get(name)) {
            self.inner.links.renew(&backend);
        }
    }

    /// Returns whether an event runs or waits in a lane.
    #[must_use]
    pub fn is_busy(&self, lane: &Lane) -> bool {
        self.inner.lanes.is_busy(lane)
    }

    /// Returns once no event runs or waits.
    pub async fn idle(&self) {
        self.inner.lanes.wait_until(Queue::is_idle).await;
    }

    /// Returns once no event runs or waits in a lane.
    pub async fn lane_idle(&self, lane: &Lane) {
        self.inner.lanes.wait_until(|queue| !queue.lane_busy(lane)).await;
    }

    /// Applies a person's decision about an agent's question. The first valid decision wins: it is
    /// sent to the agent and shown to everybody who sees the question. Returns at once.
    ///
    /// # Errors
    /// [`AnswerRefusal`], worded for that person. After [`AnswerRefusal::Misfit`] the question is
    /// still open.
    pub fn answer(
        &self,
        question: &str,
        person: &Person,
        decision: AskDecision,
    ) -> Result<(), AnswerRefusal> {
        self.inner.questions.answer(question, person, decision)
    }

    /// Takes a message that a person wrote in a lane as the answer to the question that is open
    /// there. Returns `None` if the message is not an answer. It may be a prompt then.
    #[must_use]
    pub fn answer_from_text(
        &self,
        lane: &Lane,
        person: &Person,
        words: &str,
    ) -> Option<Result<(), AnswerRefusal>> {
        self.inner.questions.answer_in_words(lane, person, words)
    }

    /// Checks whether a person may answer a question, for questions that take several steps. Logs a
    /// refusal.
    ///
    /// # Errors
    /// [`AnswerRefusal`], worded for that person.
    pub fn may_answer(&self, question: &str, person: &Person) -> Result<(), AnswerRefusal> {
        self.inner.questions.may_answer(question, person)
    }

    /// Starts every event that can start now.
    ///
    /// A runtime that shuts down drops a spawned task at once, and with it the task's [`LaneSlot`],
    /// which calls this method again. [`PumpGuard`] keeps that from recursing once per waiting
    /// event.
    fn pump(&self) {
        self.inner.lanes.changes.notify();
        let Some(_alone) = PumpGuard::begin() else { return };
        loop {
            let Some(event) = self.inner.lanes.queue.lock().next() else { return };
            let (stop, stopped) = watch::channel(None);
            let (steers, steered) = mpsc::unbounded_channel();
            self.inner.lanes.begin_turn(&event, stop, steers);
            let slot = LaneSlot {
                dispatcher: self.clone(),
                sequence: event.sequence,
                lane: event.lane.clone(),
            };
            let saving = self.inner.durability.saving_of(event.sequence);
            let inner = self.inner.clone();
            self.inner.tasks.spawn(async move {
                let seen =
                    catch_panic(inner.see_through(event.clone(), stopped, steered, saving)).await;
                if !matches!(seen, Ok(TurnFollowUp::Nothing)) {
                    inner.lanes.requeue_received(&event);
                }
                if let Ok(TurnFollowUp::Rerun) = seen {
                    inner.lanes.queue.lock().restore(event.clone());
                }
                let this = Self { inner: inner.clone() };
                let waits = matches!(seen, Ok(TurnFollowUp::Paused)) && this.pause_lane(&event);
                let asking = !matches!(
                    seen,
                    Ok(TurnFollowUp::Nothing | TurnFollowUp::Rerun | TurnFollowUp::Paused)
                );
                let _in_hand = asking.then(|| inner.delivery.in_flight.track(&event));
                // The lane continues now, however long the delivery takes.
                drop(slot);
                match seen {
                    Ok(TurnFollowUp::Nothing | TurnFollowUp::Rerun) => {}
                    Ok(TurnFollowUp::Paused) if waits => this.resume_when_unpaused(event),
                    Ok(TurnFollowUp::Paused) => this.refuse_unjournaled(&event).await,
                    Ok(TurnFollowUp::AskPeople) => {
                        inner.ask_about(&event, OfferReason::Interrupted).await
                    }
                    Err(_) => inner.handle_panicked_turn(&event).await,
                }
            });
        }
    }
}

impl DispatcherInner {
    /// Handles a panic of the gateway during a turn. If the event is in the journal, asks people
    /// whether to repeat it. Otherwise asks the author to send the prompt again.
    async fn handle_panicked_turn(&self, event: &Event) {
        tracing::error!(event = event.sequence, lane = %event.lane, "a turn panicked; this is a bug of aetheel");
        if self.noted(event).is_some() {
            return self.ask_about(event, OfferReason::Panicked).await;
        }
        self.durability.mark_finished(event);
        let why = "Something inside me broke while I worked on this. Please ask again. (internal)";
        self.delivery.refuse(event, why).await;
    }
}
