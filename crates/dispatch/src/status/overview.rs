//! The state of all lanes at once, and observers of lanes and turns.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tokio::sync::watch;

use super::Observer;
use crate::lanes::EventSummary;
use crate::observers::TurnWatch;
use crate::outlet::question::OpenQuestion;
use aetheel_model::event::{Event, Lane, Sequence};
use aetheel_model::id::ChannelId;

/// A lane with a running turn or waiting events.
#[derive(Clone, Debug)]
pub struct LaneView {
    /// The lane.
    pub lane: Lane,
    /// The running turn of the lane.
    pub running: Option<RunningTurn>,
    /// The waiting events, the next one first, without secrets.
    pub waiting: Vec<EventSummary>,
}

/// A running turn.
#[derive(Clone, Debug)]
pub struct RunningTurn {
    /// The event of the turn.
    pub event: Sequence,
    /// The correlation id of the turn; `None` until its backend is known.
    pub turn: Option<String>,
    /// The author or source, the beginning of the prompt and the start of the turn, without
    /// secrets.
    pub summary: EventSummary,
    /// The label of the backend; `None` until it is known.
    pub backend: Option<String>,
    /// The open questions of the lane, the oldest first.
    pub questions: Vec<OpenQuestion>,
}

impl Observer {
    /// Returns the lanes with running turns or waiting events, sorted. Leaves out the lane of
    /// health probes.
    #[must_use]
    pub fn lanes(&self) -> Vec<LaneView> {
        let shared = &self.shared;
        let clean = |summary: EventSummary| EventSummary {
            who: shared.deps.redactor.redact(summary.who),
            words: shared.deps.redactor.redact(summary.words),
            ..summary
        };
        let mut waiting: BTreeMap<Lane, Vec<EventSummary>> = BTreeMap::new();
        for event in shared.lanes.queue.lock().lanes().waiting() {
            waiting.entry(event.lane.clone()).or_default().push(clean(waiting_summary(event)));
        }
        let mut running: BTreeMap<Lane, RunningTurn> = shared
            .lanes
            .running
            .lock()
            .iter()
            .map(|(lane, turn)| {
                let backend =
                    turn.backend.as_ref().map(|backend| backend.descriptor().label().to_owned());
                let summary = clean(turn.summary.clone());
                let (event, id, questions) = (turn.event, turn.turn_id.clone(), Vec::new());
                (lane.clone(), RunningTurn { event, turn: id, summary, backend, questions })
            })
            .collect();
        let mut lanes: Vec<Lane> = running.keys().chain(waiting.keys()).cloned().collect();
        lanes.sort();
        lanes.dedup();
        lanes.retain(|lane| !shared.health.is_probe_lane(lane));
        let view = |lane: Lane| {
            let mut running = running.remove(&lane);
            if let Some(turn) = &mut running {
                turn.questions = shared.questions.open_in(&lane);
            }
            let waiting = waiting.remove(&lane).unwrap_or_default();
            LaneView { lane, running, waiting }
        };
        lanes.into_iter().map(view).collect()
    }

    /// Returns the channels and threads that were used or that `channels.md` names, the
    /// oldest first.
    pub async fn channels(&self) -> Vec<ChannelId> {
        let workspace = &self.shared.deps.workspace;
        let written = workspace.channels().await;
        let known = workspace.state.bindings.lanes().await.into_iter();
        let busy = self.lanes().into_iter().map(|view| view.lane);
        let all = known.chain(busy).chain(written.lanes().map(|(lane, _)| lane.clone()));
        let mut channels: Vec<ChannelId> = all.filter_map(|lane| lane.channel()).collect();
        channels.sort_unstable();
        channels.dedup();
        channels
    }

    /// Returns the lane and the event of a running turn by its correlation id.
    #[must_use]
    pub fn running_turn(&self, turn: &str) -> Option<(Lane, Sequence)> {
        let running = self.shared.lanes.running.lock();
        let mut found =
            running.iter().filter(|(_, running)| running.turn_id.as_deref() == Some(turn));
        found.next().map(|(lane, running)| (lane.clone(), running.event))
    }

    /// Subscribes to changes of [`Observer::lanes`].
    #[must_use]
    pub fn watch_lanes(&self) -> watch::Receiver<u64> {
        self.shared.lanes.changes.subscribe()
    }

    /// Subscribes to the growth of running turns.
    #[must_use]
    pub fn watch_turn_changes(&self) -> watch::Receiver<u64> {
        self.shared.lanes.turn_changes.subscribe()
    }

    /// Returns the running turn of an event. Returns `None` if it does not run in that lane, or its
    /// backend is not known yet.
    #[must_use]
    pub fn watch_turn(&self, lane: &Lane, event: Sequence) -> Option<TurnWatch> {
        let running = self.shared.lanes.running.lock();
        let turn = running.get(lane).filter(|turn| turn.event == event)?;
        turn.live.clone().map(TurnWatch)
    }
}

fn waiting_summary(event: &Event) -> EventSummary {
    let accepted = Timestamp::from_millisecond(event.accepted_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    EventSummary::of(event, accepted)
}
