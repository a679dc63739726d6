//! Lanes that wait because their backend is paused, their agent reached a usage limit, or a budget is
//! used up.
//!
//! A paused backend starts no agents for a while, because it failed too often. The lane's events
//! stay in the queue, in order. The lane continues once its backend starts agents again or the limit
//! has ended, or another component, backend or model serves the lane. A cap of one person holds only
//! that person's events.
//!
//! People get one notice of each wait. It is edited when the wait ends, also after a restart.

use std::sync::Arc;
use std::time::Duration;

use super::AnnouncedWait;
use crate::Shared;
use crate::budgets::{self, messages as budget_messages, offers};
use crate::lanes::wait_choices::wait_offers;
use crate::limits::{self, messages as limit_messages};
use crate::outlet::{Notice, Offer, WaitTopic, messages};
use crate::recovery::restart::notice_target;
use aetheel_model::budget::AccountUse;
use aetheel_model::event::{Event, EventKind, Lane, Sequence};
use aetheel_model::queue::LaneHold;
use aetheel_recording::Backend;
use aetheel_runtime::supervisor;
use aetheel_store::workspace::LimitNote;

/// How often a paused lane is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The lines below the notice of a wait that ended.
const OVER: &str = "▶️ The wait is over.";
const REMOVED: &str = "🛑 The prompt was removed.";

/// The reason why no turn can begin in a lane.
pub(crate) enum LanePause {
    /// The backend is paused.
    Backend(Arc<dyn Backend>),
    /// The agent reached a usage limit.
    Limit(Arc<dyn Backend>, LimitNote),
    /// A budget is used up.
    Budget {
        used: Box<AccountUse>,
        /// Whether the cap applies to the person who asked, and not to everybody in the lane.
        is_personal: bool,
    },
}

impl LanePause {
    /// Returns the events of the lane that cannot start.
    fn hold(&self, event: &Event) -> LaneHold {
        match (self, event.asker) {
            (Self::Budget { is_personal: true, .. }, Some(asker)) => LaneHold::Person(asker),
            _ => LaneHold::Everybody,
        }
    }

    /// Returns a key that differs between the reasons for which an event waits.
    fn key(&self) -> String {
        match self {
            Self::Backend(_) => "backend".to_owned(),
            Self::Limit(_, note) => note.turn.clone(),
            Self::Budget { used, .. } => offers::mark(used),
        }
    }

    /// Returns the reason in a few words.
    fn reason(&self, shared: &Shared) -> String {
        match self {
            Self::Backend(backend) => messages::paused_reason(backend.descriptor().label()),
            Self::Limit(backend, note) => {
                limit_messages::reason(backend.descriptor().label(), note, shared.now())
            }
            Self::Budget { used, .. } => budget_messages::reason(used),
        }
    }
}

/// Returns the reason why no turn can begin in a lane now. A paused backend does not affect a lane
/// whose agent still runs.
pub(crate) async fn lane_pause(shared: &Shared, lane: &Lane) -> Option<LanePause> {
    let (name, settings, _) = shared.channels.resolve_backend(lane).await;
    let backend = shared.serving(&name, lane)?;
    let descriptor = backend.descriptor();
    if backend.paused().is_some() && !shared.links.is_open(&descriptor.name, lane) {
        return Some(LanePause::Backend(backend));
    }
    // Few lanes have a note, and the settings need files.
    shared.deps.workspace.state.limits.get(lane)?;
    let model = shared.channels.in_force(lane, &settings, descriptor).await.model;
    let note = shared.limits.in_force(lane, &name, model.as_deref(), shared.now())?;
    Some(LanePause::Limit(backend, note))
}

/// Returns the reason why the turn of an event cannot begin now.
pub(super) async fn event_pause(shared: &Shared, event: &Event) -> Option<LanePause> {
    if let Some(pause) = lane_pause(shared, &event.lane).await {
        return Some(pause);
    }
    let subject = budgets::subject_of(shared, event).await;
    let (used, is_personal) = shared.budgets.reached(&subject).await?;
    Some(LanePause::Budget { used: Box::new(used), is_personal })
}

/// Returns the events of a lane that wait together with an event that cannot start.
pub(crate) async fn hold_for(shared: &Shared, event: &Event) -> LaneHold {
    let pause = event_pause(shared, event).await;
    pause.map_or(LaneHold::Everybody, |pause| pause.hold(event))
}

/// Notifies the author of an event that it waits, once per reason.
async fn announce_wait(shared: &Shared, event: &Event, hold: LaneHold, pause: &LanePause) {
    let wait =
        AnnouncedWait { event: event.sequence, key: pause.key(), reason: pause.reason(shared) };
    let before = {
        let mut announced = shared.lanes.announced_waits.lock();
        announced.insert((event.lane.clone(), hold), wait.clone())
    };
    match before {
        Some(before) if before.event == wait.event && before.key == wait.key => return,
        Some(before) if !still_waits(shared, before.event) => {
            shared.deps.outlet.end_wait(&event_topic(before.event), REMOVED);
        }
        _ => {}
    }
    let Some((text, offers)) = notice_of(shared, event, pause).await else { return };
    let (channel, about) = notice_target(event);
    if event.kind == EventKind::Message && (channel.is_some() || event.lane == Lane::Console) {
        let topic = WaitTopic { topic: event_topic(event.sequence), reason: wait.key };
        // This notice is not essential, and the outlet has logged the failure.
        let _ =
            shared.deps.outlet.announce_wait(topic, Notice { channel, about, text, offers }).await;
    }
}

/// Returns the text and the buttons of the notice that an event waits, or `None` if people get none.
async fn notice_of(
    shared: &Shared,
    event: &Event,
    pause: &LanePause,
) -> Option<(String, Vec<Offer>)> {
    let continues = |cause: &str| {
        let key = event.key.as_deref().filter(|_| event.continues.is_some());
        key.is_some_and(|key| key.starts_with(cause))
    };
    match pause {
        LanePause::Backend(backend) => {
            let backend = backend.descriptor();
            tracing::warn!(event = event.sequence, lane = %event.lane, backend = backend.name, "event waits: its backend failed too often and is paused");
            Some((messages::paused_message(backend.label()), Vec::new()))
        }
        LanePause::Limit(backend, note) => {
            tracing::info!(event = event.sequence, lane = %event.lane, backend = note.backend, until = %note.until, "event waits for the end of a usage limit");
            let descriptor = backend.descriptor();
            let text = limit_messages::waits(
                descriptor.label(),
                note,
                continues(limits::CONTINUATION),
                shared.now(),
            )?;
            Some((text, wait_offers(shared, event, note, descriptor).await))
        }
        LanePause::Budget { used, .. } => {
            tracing::info!(event = event.sequence, lane = %event.lane, account = %used.account, until = %used.span.end, "event waits: a budget is used up");
            let offers = offers::buttons(used, Some(event.sequence));
            Some((budget_messages::waits(used, continues(budgets::CONTINUATION)), offers))
        }
    }
}

/// Edits the notice that an event waits, because its turn begins. A previous process may have posted
/// it.
pub(crate) fn end_wait_of(shared: &Shared, event: &Event) {
    shared.deps.outlet.end_wait(&event_topic(event.sequence), OVER);
}

fn event_topic(event: Sequence) -> String {
    format!("event-{event}")
}

/// Refuses an event that is not in the journal, so that the next start does not find it.
pub(crate) async fn refuse_unjournaled(shared: &Shared, event: &Event) {
    if shared.durability.journal_entry(event).is_none() {
        shared.delivery.refuse(event, &messages::shutdown_message(&event.lane)).await;
    }
}

/// Ends a hold of a lane once its events can start. Returns at once.
pub(crate) fn resume_when_unpaused(shared: &Arc<Shared>, lane: Lane, hold: LaneHold) {
    let shared = Arc::downgrade(shared);
    supervisor::spawn_finite("paused lane", async move {
        let mut is_first_check = true;
        loop {
            let Some(shared) = shared.upgrade() else { return };
            if !is_still_held(&shared, &lane, hold, is_first_check).await {
                shared.lanes.queue.lock().resume(&lane, hold);
                return shared.start_waiting();
            }
            is_first_check = false;
            let clock = shared.deps.clock.clone();
            drop(shared);
            clock.sleep(CHECK_INTERVAL).await;
        }
    });
}

/// Checks a hold, and notifies people of its reason or its end.
async fn is_still_held(shared: &Shared, lane: &Lane, hold: LaneHold, is_first_check: bool) -> bool {
    let first = shared.lanes.queue.lock().lanes().first_held(lane, hold).cloned();
    let pause = match &first {
        Some(event) => event_pause(shared, event).await,
        None => None,
    };
    match (&first, &pause) {
        (Some(event), Some(pause)) if pause.hold(event) == hold => {
            announce_wait(shared, event, hold, pause).await;
            return true;
        }
        // It is unknown for a moment what the other nodes of a cluster used.
        (Some(_), None) if is_first_check => return true,
        _ => {}
    }
    let ended = shared.lanes.announced_waits.lock().remove(&(lane.clone(), hold));
    let Some(wait) = ended else { return false };
    let topic = event_topic(wait.event);
    if !still_waits(shared, wait.event) {
        shared.deps.outlet.end_wait(&topic, REMOVED);
    } else if pause.is_none() && first.is_some_and(|event| event.sequence == wait.event) {
        let decision = shared.budget_notices.decision_about(&wait.key);
        shared.deps.outlet.end_wait(&topic, decision.as_deref().unwrap_or(OVER));
    }
    // Otherwise another hold applies from now on, and its notice replaces this one.
    false
}

fn still_waits(shared: &Shared, event: Sequence) -> bool {
    shared.lanes.queue.lock().lanes().position(event).is_some()
}
