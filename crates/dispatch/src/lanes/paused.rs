//! Lanes that wait because their backend is paused, their agent reached a usage limit, or a budget is
//! used up.
//!
//! A paused backend starts no agents for a while, because it failed too often. The lane's events
//! stay in the queue, in order. The lane continues once its backend starts agents again or the limit
//! has ended, or another component, backend or model serves the lane.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use crate::Shared;
use crate::budgets::{self, messages as budget_messages, offers};
use crate::lanes::wait_choices::wait_offers;
use crate::limits::{CONTINUATION, messages as limit_messages};
use crate::outlet::{Notice, messages};
use crate::recovery::restart::notice_target;
use aetheel_model::budget::AccountUse;
use aetheel_model::event::{Event, EventKind, Lane};
use aetheel_model::supervisor;
use aetheel_store::workspace::LimitNote;
use aetheel_turn::Backend;

/// How often a paused lane is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Shorter waits for the end of a usage limit cause no notice.
const SHORT_WAIT: SignedDuration = SignedDuration::from_secs(20);

/// The reason why no turn can begin in a lane.
pub(crate) enum LanePause {
    /// The backend is paused.
    Backend(Arc<dyn Backend>),
    /// The agent reached a usage limit.
    Limit(Arc<dyn Backend>, LimitNote),
    /// A budget is used up.
    Budget(Box<AccountUse>),
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
    shared.deps.workspace.limit_notes().of(lane)?;
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
    let reached = shared.budgets.reached(&subject).await?;
    Some(LanePause::Budget(Box::new(reached)))
}

/// Notifies the author of an event that it waits, once per reason.
async fn announce_pause(shared: &Shared, event: &Event, pause: LanePause) {
    if shared.lanes.queue.lock().position(event.sequence).is_none() {
        // People removed it from the queue.
        return;
    }
    // A limit that a later turn of the event reached has buttons of its own.
    let turn = match &pause {
        LanePause::Backend(_) => None,
        LanePause::Limit(_, note) => Some(note.turn.clone()),
        LanePause::Budget(used) => {
            Some(format!("{} {} {}", used.account, used.span.start, used.cap))
        }
    };
    let reason = (event.sequence, turn);
    let before = shared.lanes.announced_pauses.lock().insert(event.lane.clone(), reason.clone());
    if before == Some(reason) {
        return;
    }
    let (text, offers) = match &pause {
        LanePause::Backend(backend) => {
            let backend = backend.descriptor();
            tracing::warn!(event = event.sequence, lane = %event.lane, backend = backend.name, "event waits: its backend failed too often and is paused");
            (messages::paused_message(backend.label()), Vec::new())
        }
        LanePause::Limit(backend, note) => {
            let now = shared.now();
            tracing::info!(event = event.sequence, lane = %event.lane, backend = note.backend, until = %note.until, "event waits for the end of a usage limit");
            if note.until.duration_since(now) < SHORT_WAIT {
                return;
            }
            let descriptor = backend.descriptor();
            let offers = wait_offers(shared, event, note, descriptor).await;
            let continues = event.key.as_deref().is_some_and(|key| key.starts_with(CONTINUATION));
            let clock = (now, &shared.deps.choices.time_zone);
            (limit_messages::waits(descriptor.label(), note, continues, clock), offers)
        }
        LanePause::Budget(used) => {
            tracing::info!(event = event.sequence, lane = %event.lane, account = %used.account, until = %used.span.end, "event waits: a budget is used up");
            let continues =
                event.key.as_deref().is_some_and(|key| key.starts_with(budgets::CONTINUATION));
            let zone = &shared.deps.choices.time_zone;
            let text = budget_messages::waits(used, continues, zone);
            (text, offers::buttons(used, Some(event.sequence)))
        }
    };
    if event.kind != EventKind::Message {
        return;
    }
    let (channel, about) = notice_target(event);
    if channel.is_some() || event.lane == Lane::Console {
        // This notice is not essential, and the outlet has logged the failure.
        let _ = shared.deps.outlet.notify(Notice { channel, about, text, offers }).await;
    }
}

/// Refuses an event that is not in the journal, so that the next start does not find it.
pub(crate) async fn refuse_unjournaled(shared: &Shared, event: &Event) {
    if shared.durability.journal_entry(event).is_none() {
        shared.delivery.refuse(event, &messages::shutdown_message(&event.lane)).await;
    }
}

/// Resumes a paused lane once it can be served. Returns at once.
pub(crate) fn resume_when_unpaused(shared: &Arc<Shared>, event: Event) {
    let shared = Arc::downgrade(shared);
    supervisor::spawn_finite("paused lane", async move {
        let mut is_first_check = true;
        loop {
            let Some(shared) = shared.upgrade() else { return };
            match event_pause(&shared, &event).await {
                Some(pause) => announce_pause(&shared, &event, pause).await,
                // It is unknown for a moment what the other nodes of a cluster used.
                None if is_first_check => {}
                None => {
                    shared.lanes.queue.lock().resume(&event.lane);
                    return shared.start_waiting();
                }
            }
            is_first_check = false;
            let clock = shared.deps.clock.clone();
            drop(shared);
            clock.sleep(CHECK_INTERVAL).await;
        }
    });
}
