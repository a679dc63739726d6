//! Lanes that wait because their backend is paused.
//!
//! A paused backend starts no agents for a while, because it failed too often. The lane's events
//! stay in the queue, in order. The lane continues once its backend starts agents again, or another
//! component or backend serves the lane.

use std::sync::Arc;
use std::time::Duration;

use crate::Shared;
use crate::outlet::messages::PromptRefusal;
use crate::outlet::{Notice, messages};
use crate::recovery::restart::notice_target;
use aetheel_model::event::{Event, EventKind, Lane};
use aetheel_model::supervisor;
use aetheel_turn::Backend;

/// How often a paused lane is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Returns the backend of a lane if no turn can begin there because the backend is paused. A lane
/// whose agent still runs is not affected.
pub(crate) async fn paused_backend(shared: &Shared, lane: &Lane) -> Option<Arc<dyn Backend>> {
    let (name, ..) = shared.channels.resolve_backend(lane).await;
    let backend = shared.deps.backends.get(&name)?;
    let is_paused =
        backend.paused().is_some() && !shared.links.is_open(&backend.descriptor().name, lane);
    is_paused.then_some(backend)
}

/// Notifies the author of an event, once per event, that it waits for its backend.
async fn announce_pause(shared: &Shared, event: &Event) {
    let Some(backend) = paused_backend(shared, &event.lane).await else { return };
    let label = backend.descriptor().label();
    let before = shared.lanes.announced_pauses.lock().insert(event.lane.clone(), event.sequence);
    if before == Some(event.sequence) {
        return;
    }
    tracing::warn!(event = event.sequence, lane = %event.lane, backend = backend.descriptor().name, "event waits: its backend failed too often and is paused");
    if event.kind != EventKind::Message {
        return;
    }
    let (channel, about) = notice_target(event);
    if channel.is_some() {
        let notice = Notice { channel, about, text: messages::paused_message(label), offer: None };
        // This notice is not essential, and the outlet has logged the failure.
        let _ = shared.deps.outlet.notify(notice).await;
    }
}

/// Refuses an event that is not in the journal, so that the next start does not find it.
pub(crate) async fn refuse_unjournaled(shared: &Shared, event: &Event) {
    if shared.durability.journal_entry(event).is_none() {
        shared.delivery.refuse(event, &PromptRefusal::ShuttingDown.to_string()).await;
    }
}

/// Resumes a paused lane once its backend can serve it. Returns at once.
pub(crate) fn resume_when_unpaused(shared: &Arc<Shared>, event: Event) {
    let shared = Arc::downgrade(shared);
    supervisor::spawn_finite("paused lane", async move {
        if let Some(shared) = shared.upgrade() {
            announce_pause(&shared, &event).await;
        }
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let Some(shared) = shared.upgrade() else { return };
            if paused_backend(&shared, &event.lane).await.is_none() {
                shared.lanes.queue.lock().resume(&event.lane);
                return shared.start_waiting();
            }
        }
    });
}
