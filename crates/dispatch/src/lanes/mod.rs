//! The events that wait and the turns that run, lane by lane.
//!
//! [`Lanes`] owns the queue and the way to each running turn. [`slot`] frees a turn's place,
//! [`stop`] stops turns, [`paused`] holds lanes whose backend is paused, and [`panics`] keeps a
//! panic to itself.

pub(crate) mod panics;
mod paused;
pub(crate) mod slot;
pub(crate) mod stop;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::outlet::handle::ReplyHandle;
use super::watching::{LiveTurn, Stir};
use aetheel_model::agent::descriptor::Feature;
use aetheel_model::agent::{Part, SteerOutcome};
use aetheel_model::event::{Event, EventKind, Lane, Sequence};
use aetheel_model::plain::short_line;
use aetheel_model::prompt::{self, Expansion};
use aetheel_model::queue::Queue;
use aetheel_store::workspace::LostTurn;
use aetheel_turn::{Backend, Steering, StopReason};

/// Most characters of a prompt that others get to see.
const WORDS_LIMIT: usize = 60;

/// An event as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSummary {
    /// The author, or the source of the event.
    pub who: String,
    /// The first words: one plain line.
    pub words: String,
    /// Since when it waits or runs.
    pub since: Timestamp,
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
        };
        Self {
            who: short_line(&who, WORDS_LIMIT),
            words: short_line(&event.prompt, WORDS_LIMIT),
            since,
        }
    }
}

/// How to reach a turn that runs.
pub(crate) struct Running {
    /// The event it is about.
    pub(crate) event: Sequence,
    pub(crate) stop: watch::Sender<Option<StopReason>>,
    steers: mpsc::UnboundedSender<Steering>,
    /// None until it is known who answers.
    pub(crate) backend: Option<Arc<dyn Backend>>,
    /// What its agent would expand in people's words.
    expansion: Expansion,
    /// The reply that shows it, from then on.
    reply: Option<Arc<ReplyHandle>>,
    /// The correlation id of the turn, from then on.
    pub(crate) turn: Option<String>,
    /// The turn as people may see it, from then on.
    pub(crate) live: Option<Arc<LiveTurn>>,
    /// Its event and its beginning, for people who look.
    pub(crate) summary: EventSummary,
    /// Messages that its agent took in: open in the journal until the outcome of the turn is kept.
    /// None: it is.
    received: Option<Vec<Event>>,
}

/// Whether the running turn of a lane takes a message in.
pub(crate) enum Steerable {
    /// Nothing runs that could take it in now.
    NotNow,
    /// Its backend cannot take messages in.
    Unsupported,
    /// Its turn takes it in.
    Yes,
}

/// The queue, and how to reach the turn of each lane.
pub(crate) struct Lanes {
    pub(crate) queue: Mutex<Queue>,
    pub(crate) running: Mutex<HashMap<Lane, Running>>,
    /// Messages that turns took in which go on from an earlier life, until those begin here.
    carried: Mutex<HashMap<Sequence, Vec<Event>>>,
    /// The last event of each lane whose author was told that it waits for a paused backend.
    announced: Mutex<HashMap<Lane, Sequence>>,
    /// Notified whenever an event is finished.
    pub(crate) finished: Notify,
    /// Told whenever something begins, ends, comes or goes.
    pub(crate) stir: Stir,
    /// Told whenever a turn grows.
    pub(crate) growth: Stir,
}

impl Lanes {
    pub(crate) fn new(queue: Queue, stir: Stir) -> Self {
        Self {
            queue: Mutex::new(queue),
            running: Mutex::default(),
            carried: Mutex::default(),
            announced: Mutex::default(),
            finished: Notify::new(),
            stir,
            growth: Stir::default(),
        }
    }

    /// Whether something runs or waits in a lane.
    pub(crate) fn is_busy(&self, lane: &Lane) -> bool {
        self.queue.lock().lane_busy(lane)
    }

    /// Returns once this holds; it is looked at whenever an event is finished.
    pub(crate) async fn wait_until(&self, holds: impl Fn(&Queue) -> bool) {
        loop {
            let finished = self.finished.notified();
            if holds(&self.queue.lock()) {
                return;
            }
            finished.await;
        }
    }

    /// Keeps a message that a turn took in which goes on from an earlier life of the gateway.
    pub(crate) fn carry(&self, turn: Sequence, message: Event) {
        self.carried.lock().entry(turn).or_default().push(message);
    }

    /// Notes that a turn begins.
    pub(crate) fn begin(
        &self,
        event: &Event,
        stop: watch::Sender<Option<StopReason>>,
        steers: mpsc::UnboundedSender<Steering>,
    ) {
        let running = Running {
            event: event.sequence,
            stop,
            steers,
            backend: None,
            expansion: Expansion::default(),
            reply: None,
            turn: None,
            live: None,
            summary: EventSummary::of(event, Timestamp::now()),
            received: Some(self.carried.lock().remove(&event.sequence).unwrap_or_default()),
        };
        self.running.lock().insert(event.lane.clone(), running);
        self.stir.tell();
    }

    /// It is known who answers in a lane, and what shows it.
    pub(crate) fn answered_by(
        &self,
        lane: &Lane,
        (turn, backend, expansion): (&str, &Arc<dyn Backend>, &Expansion),
        reply: &Arc<ReplyHandle>,
        live: &Arc<LiveTurn>,
    ) {
        if let Some(running) = self.running.lock().get_mut(lane) {
            running.backend = Some(Arc::clone(backend));
            running.expansion = expansion.clone();
            running.reply = Some(Arc::clone(reply));
            running.turn = Some(turn.to_owned());
            running.live = Some(Arc::clone(live));
        }
        self.stir.tell();
    }

    /// An event is finished, or gone.
    pub(crate) fn tell_finished(&self) {
        self.finished.notify_waiters();
        self.stir.tell();
    }

    /// Whether the turn that runs in a lane takes messages in.
    pub(crate) fn steerable(&self, lane: &Lane) -> Steerable {
        let running = self.running.lock();
        match running.get(lane).and_then(|running| running.backend.as_ref()) {
            None => Steerable::NotNow,
            Some(backend) if backend.descriptor().has(Feature::Steer) => Steerable::Yes,
            Some(_) => Steerable::Unsupported,
        }
    }

    /// Sends a message to the running turn of its lane. Returns `None` if no turn can be steered now.
    pub(crate) fn steer(
        &self,
        event: &Event,
    ) -> Option<(Sequence, oneshot::Receiver<SteerOutcome>)> {
        let running = self.running.lock();
        let Running { steers, backend, expansion, event: turn, .. } = running.get(&event.lane)?;
        let descriptor = backend.as_ref()?.descriptor();
        if !descriptor.has(Feature::Steer) {
            return None;
        }
        let text = prompt::neutralise(&event.prompt, expansion, event.author.as_deref());
        let (reply_tx, outcome) = oneshot::channel();
        // Where the turn has just ended, both ends are dropped, which says the same.
        let _ = steers.send(Steering { parts: vec![Part::Text(text)], reply_tx });
        Some((*turn, outcome))
    }

    /// The agent of a turn took a message in, or keeps it for later; `shown`: its reply goes on
    /// below the message. False: the outcome of the turn is kept already.
    pub(crate) fn received(&self, event: &Event, turn: Sequence, shown: bool) -> bool {
        let mut running = self.running.lock();
        let Some(turn) = running.get_mut(&event.lane).filter(|running| running.event == turn)
        else {
            return false;
        };
        if let Some(reply) = turn.reply.as_ref().filter(|_| shown) {
            reply.with(|reply| reply.steered());
        }
        turn.received.as_mut().map(|received| received.push(event.clone())).is_some()
    }

    /// Takes the messages that a turn's agent took in; from now on it takes none.
    pub(crate) fn take_received(&self, turn: &Event) -> Vec<Event> {
        let mut running = self.running.lock();
        let running = running.get_mut(&turn.lane).filter(|running| running.event == turn.sequence);
        running.and_then(|running| running.received.take()).unwrap_or_default()
    }

    /// Has the messages that a turn took in, and did not come to an end with, answered by
    /// themselves.
    pub(crate) fn give_back_received(&self, turn: &Event) {
        for event in self.take_received(turn) {
            self.queue.lock().restore(event);
        }
    }

    /// Stops the turn that runs in a lane; returns the messages that its agent took in, which are
    /// over with it. None: nothing runs there.
    fn stop_turn(&self, lane: &Lane) -> Option<Vec<Event>> {
        let mut running = self.running.lock();
        let turn =
            running.get_mut(lane).filter(|turn| turn.stop.send(Some(StopReason::User)).is_ok())?;
        Some(turn.received.take().unwrap_or_default())
    }

    /// Takes everything out of the queue that waits in a lane and that an agent would be asked for.
    fn cancel_waiting(&self, lane: &Lane) -> Vec<Event> {
        let mut queue = self.queue.lock();
        let (delivered, waiting): (Vec<_>, Vec<_>) = queue
            .cancel_waiting(lane)
            .into_iter()
            .partition(|event| LostTurn::of_key(event.key.as_deref()).is_some());
        delivered.into_iter().for_each(|event| queue.restore(event));
        waiting
    }
}
