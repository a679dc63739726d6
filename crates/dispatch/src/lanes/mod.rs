//! The waiting events and the running turns of each lane.
//!
//! [`LaneRegistry`] owns the queue and a handle to each running turn. [`slot`] frees the lane and
//! the slot of a finished turn, [`stop`] stops turns, [`holds`] has the lanes that wait for another
//! reason than a running turn, [`paused`] checks them, [`wait_choices`] has the buttons that end the
//! wait for a limit, [`waits`] lists the lanes that wait, and [`panics`] contains
//! panics.

pub(crate) mod holds;
pub(crate) mod panics;
pub(crate) mod paused;
pub(crate) mod slot;
pub(crate) mod stop;
pub(crate) mod wait_choices;
pub(crate) mod waits;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use self::holds::LaneHolds;
use super::Shared;
use super::observers::{ChangeSignal, LiveTurn};
use super::outlet::handle::ReplyHandle;
use aetheel_model::agent::descriptor::Feature;
use aetheel_model::agent::{PromptPart, SteerOutcome};
use aetheel_model::event::{Event, EventKind, Lane, Sequence};
use aetheel_model::plain::short_line;
use aetheel_model::prompt::{self, Expansion};
use aetheel_model::queue::{LaneHold, Queue};
use aetheel_recording::Backend;
use aetheel_store::workspace::{LostTurn, TurnLine};
use aetheel_turn::{Steering, StopReason};

/// The maximum length of an [`EventSummary`] text, in characters.
const SUMMARY_LIMIT: usize = 60;

/// A short description of an event, for people who may not read all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSummary {
    /// The name of the author, or the source of an event without an author.
    pub who: String,
    /// The beginning of the prompt, on one line without control characters.
    pub words: String,
    /// When the event was accepted, or its turn started.
    pub since: Timestamp,
    /// Why the event waits, if not for a turn of its lane.
    pub wait: Option<String>,
}

impl EventSummary {
    pub(crate) fn of(event: &Event, since: Timestamp) -> Self {
        let who = match (&event.author, event.kind) {
            (Some(author), _) => author.clone(),
            (None, EventKind::Message) => "somebody".to_owned(),
            (None, EventKind::Heartbeat) => "heartbeat".to_owned(),
            (None, EventKind::Cron) => "cron job".to_owned(),
            (None, EventKind::Hook) => "hook".to_owned(),
            (None, EventKind::Webhook) => "webhook".to_owned(),
            (None, EventKind::Agent) => "an agent".to_owned(),
        };
        Self {
            who: short_line(&who, SUMMARY_LIMIT),
            words: short_line(&event.prompt, SUMMARY_LIMIT),
            since,
            wait: None,
        }
    }
}

/// A handle to a running turn.
pub(crate) struct TurnHandle {
    /// The event of the turn.
    pub(crate) event: Sequence,
    pub(crate) stop: watch::Sender<Option<StopReason>>,
    steers: mpsc::UnboundedSender<Steering>,
    /// `None` until the backend of the turn is known.
    pub(crate) backend: Option<Arc<dyn Backend>>,
    /// The forms that the backend expands in people's messages, such as `@path`.
    expansion: Expansion,
    /// The reply that shows the turn. Set together with `backend`.
    reply: Option<Arc<ReplyHandle>>,
    /// The correlation id of the turn. Set together with `backend`.
    pub(crate) turn_id: Option<String>,
    /// The visible part of the turn. Set together with `backend`.
    pub(crate) live: Option<Arc<LiveTurn>>,
    /// The description of the event, with the start of the turn.
    pub(crate) summary: EventSummary,
    /// Messages that the agent accepted during the turn. They are marked as finished in the journal
    /// together with the turn. `None` once the result of the turn is saved.
    received_messages: Option<Vec<Event>>,
}

/// Whether the running turn of a lane accepts messages from people.
pub(crate) enum Steerable {
    /// No turn runs that could accept a message now.
    NotNow,
    /// The backend does not support messages during a turn.
    Unsupported,
    /// The turn accepts messages.
    Yes,
}

/// Stops turns and waits for them. Cheap to clone.
#[derive(Clone)]
pub struct Turns {
    shared: Arc<Shared>,
}

impl Turns {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns whether an event runs or waits in a lane.
    #[must_use]
    pub fn is_busy(&self, lane: &Lane) -> bool {
        self.shared.lanes.is_busy(lane)
    }

    /// Returns once no event runs or waits.
    pub async fn idle(&self) {
        self.shared.lanes.wait_until(Queue::is_idle).await;
    }

    /// Returns once no event runs or waits in a lane.
    pub async fn lane_idle(&self, lane: &Lane) {
        self.shared.lanes.wait_until(|queue| !queue.lanes().is_busy(lane)).await;
    }
}

/// The queue, and a handle to the running turn of each lane.
pub(crate) struct LaneRegistry {
    pub(crate) queue: Mutex<Queue>,
    pub(crate) running: Mutex<HashMap<Lane, TurnHandle>>,
    /// Messages that the agents of resumed turns accepted in a previous process. Moved into the
    /// [`TurnHandle`] of the turn when it starts here.
    carried_messages: Mutex<HashMap<Sequence, Vec<Event>>>,
    /// The backend of the last turn of each lane in this process.
    last_backends: Mutex<HashMap<Lane, String>>,
    pub(crate) holds: LaneHolds,
    /// Notified whenever an event is finished.
    pub(crate) finished: Notify,
    /// Notified whenever an event is accepted or removed, and when a turn starts or ends.
    pub(crate) changes: ChangeSignal,
    /// Notified whenever a turn grows.
    pub(crate) turn_changes: ChangeSignal,
}

impl LaneRegistry {
    pub(crate) fn new(queue: Queue, holds: LaneHolds, changes: ChangeSignal) -> Self {
        Self {
            queue: Mutex::new(queue),
            running: Mutex::default(),
            carried_messages: Mutex::default(),
            last_backends: Mutex::default(),
            holds,
            finished: Notify::new(),
            changes,
            turn_changes: ChangeSignal::default(),
        }
    }

    /// Returns whether an event runs or waits in a lane.
    pub(crate) fn is_busy(&self, lane: &Lane) -> bool {
        self.queue.lock().lanes().is_busy(lane)
    }

    /// Returns once `holds` returns true. `holds` is called each time an event is finished.
    pub(crate) async fn wait_until(&self, holds: impl Fn(&Queue) -> bool) {
        loop {
            let finished = self.finished.notified();
            if holds(&self.queue.lock()) {
                return;
            }
            finished.await;
        }
    }

    /// Keeps a message that the agent of a resumed turn accepted in a previous process.
    pub(crate) fn keep_for_resumed_turn(&self, turn: Sequence, message: Event) {
        self.carried_messages.lock().entry(turn).or_default().push(message);
    }

    /// Puts an event that could not start back into the queue, and holds its lane. Returns false
    /// during a shutdown, which leaves the event to the next start.
    pub(crate) fn pause(&self, event: &Event, hold: LaneHold) -> bool {
        let mut queue = self.queue.lock();
        if queue.is_closed() {
            return false;
        }
        queue.pause(event.clone(), hold);
        self.holds.add(&event.lane, hold);
        true
    }

    /// Returns the reason for which each waiting event of a lane is held, in the order of their
    /// places. `None` if it waits for its turn, or nobody was notified yet.
    pub(crate) fn wait_reasons(&self, queue: &Queue, lane: &Lane) -> Vec<Option<String>> {
        let reason = |event: &Event| self.holds.summary(lane, queue.lanes().hold_of(event)?);
        queue.lanes().waiting_in(lane).map(reason).collect()
    }

    /// Records the backend of a turn that has ended. `turn` is `None` if no agent ran.
    pub(crate) fn note_backend(&self, lane: &Lane, turn: Option<&TurnLine>) {
        if let Some(turn) = turn {
            self.last_backends.lock().insert(lane.clone(), turn.backend.clone());
        }
    }

    /// Returns the backend of the last turn of a lane, if this process ran the turn.
    pub(crate) fn last_backend(&self, lane: &Lane) -> Option<String> {
        self.last_backends.lock().get(lane).cloned()
    }

    /// Registers a turn that starts now.
    pub(crate) fn begin_turn(
        &self,
        event: &Event,
        stop: watch::Sender<Option<StopReason>>,
        steers: mpsc::UnboundedSender<Steering>,
        now: Timestamp,
    ) {
        let running = TurnHandle {
            event: event.sequence,
            stop,
            steers,
            backend: None,
            expansion: Expansion::default(),
            reply: None,
            turn_id: None,
            live: None,
            summary: EventSummary::of(event, now),
            received_messages: Some(
                self.carried_messages.lock().remove(&event.sequence).unwrap_or_default(),
            ),
        };
        self.running.lock().insert(event.lane.clone(), running);
        self.changes.notify();
    }

    /// Records the backend of a lane's turn, and the reply that shows it.
    pub(crate) fn set_backend(
        &self,
        lane: &Lane,
        turn: &str,
        backend: &Arc<dyn Backend>,
        expansion: &Expansion,
        reply: &Arc<ReplyHandle>,
        live: &Arc<LiveTurn>,
    ) {
        if let Some(running) = self.running.lock().get_mut(lane) {
            running.backend = Some(Arc::clone(backend));
            running.expansion = expansion.clone();
            running.reply = Some(Arc::clone(reply));
            running.turn_id = Some(turn.to_owned());
            running.live = Some(Arc::clone(live));
        }
        self.changes.notify();
    }

    /// Notifies waiters and observers that an event is finished or removed.
    pub(crate) fn notify_finished(&self) {
        self.finished.notify_waiters();
        self.holds.on_queue_change();
        self.changes.notify();
    }

    /// Returns whether the running turn of a lane accepts messages.
    pub(crate) fn steerable(&self, lane: &Lane) -> Steerable {
        let running = self.running.lock();
        match running.get(lane).and_then(|running| running.backend.as_ref()) {
            None => Steerable::NotNow,
            Some(backend) if backend.descriptor().has(Feature::Steer) => Steerable::Yes,
            Some(_) => Steerable::Unsupported,
        }
    }

    /// Sends a message to the running turn of its lane. Returns `None` if no turn accepts messages
    /// now.
    pub(crate) fn steer(
        &self,
        event: &Event,
    ) -> Option<(Sequence, oneshot::Receiver<SteerOutcome>)> {
        let running = self.running.lock();
        let TurnHandle { steers, backend, expansion, event: turn, .. } =
            running.get(&event.lane)?;
        let descriptor = backend.as_ref()?.descriptor();
        if !descriptor.has(Feature::Steer) {
            return None;
        }
        let text = prompt::neutralise(&event.prompt, expansion, event.author.as_deref());
        let (reply_tx, outcome) = oneshot::channel();
        // If the turn has just ended, both channel ends are dropped. The receiver reports that as
        // an error.
        let _ = steers.send(Steering { parts: vec![PromptPart::Text(text)], reply_tx });
        Some((*turn, outcome))
    }

    /// Records that the agent of a turn accepted a message, or keeps it for later. With `shown`,
    /// the reply continues below the message. Returns false if the result of the turn is already
    /// saved.
    pub(crate) fn add_received(&self, event: &Event, turn: Sequence, shown: bool) -> bool {
        let mut running = self.running.lock();
        let Some(turn) = running.get_mut(&event.lane).filter(|running| running.event == turn)
        else {
            return false;
        };
        if let Some(reply) = turn.reply.as_ref().filter(|_| shown) {
            reply.with(|reply| reply.steered());
        }
        turn.received_messages.as_mut().map(|received| received.push(event.clone())).is_some()
    }

    /// Takes the messages that the agent of a turn accepted. The turn accepts no more messages
    /// after this.
    pub(crate) fn take_received(&self, turn: &Event) -> Vec<Event> {
        let mut running = self.running.lock();
        let running = running.get_mut(&turn.lane).filter(|running| running.event == turn.sequence);
        running.and_then(|running| running.received_messages.take()).unwrap_or_default()
    }

    /// Puts the messages that an unfinished turn accepted back into the queue, as prompts of their
    /// own.
    pub(crate) fn requeue_received(&self, turn: &Event) {
        for event in self.take_received(turn) {
            self.queue.lock().restore(event);
        }
    }

    /// Stops the running turn of a lane. Returns the messages that its agent accepted, which end
    /// with it, or `None` if no turn runs there.
    fn stop_turn(&self, lane: &Lane) -> Option<Vec<Event>> {
        let mut running = self.running.lock();
        let turn =
            running.get_mut(lane).filter(|turn| turn.stop.send(Some(StopReason::User)).is_ok())?;
        Some(turn.received_messages.take().unwrap_or_default())
    }

    /// Returns the events of these running turns that nobody has stopped.
    pub(crate) fn events_of(&self, turns: &[String]) -> Vec<Sequence> {
        let running = self.running.lock();
        let is_wanted = |turn: &&TurnHandle| {
            turn.turn_id.as_ref().is_some_and(|id| turns.contains(id))
                && turn.stop.borrow().is_none()
        };
        running.values().filter(is_wanted).map(|turn| turn.event).collect()
    }

    /// Stops the running turn of an event because a budget is used up, unless it is stopped already.
    pub(crate) fn cut_off(&self, event: Sequence) {
        let running = self.running.lock();
        let Some((lane, turn)) = running.iter().find(|(_, turn)| turn.event == event) else {
            return;
        };
        let stops = turn.stop.send_if_modified(|reason| {
            reason.is_none() && reason.replace(StopReason::Budget).is_none()
        });
        if stops {
            tracing::warn!(%lane, turn = turn.turn_id, "a budget is used up; the turn is stopped");
        }
    }

    /// Removes the waiting events of a lane from the queue, except those that only deliver a
    /// recovered answer.
    fn cancel_waiting(&self, lane: &Lane) -> Vec<Event> {
        let mut queue = self.queue.lock();
        let (delivered, waiting): (Vec<_>, Vec<_>) = queue
            .cancel_waiting(lane)
            .into_iter()
            .partition(|event| LostTurn::of_key(event.key.as_deref()).is_some());
        delivered.into_iter().for_each(|event| queue.restore(event));
        self.holds.on_queue_change();
        waiting
    }
}
