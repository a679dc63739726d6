//! Lanes that wait because their backend is paused, their agent reached a usage limit, or a budget is
//! used up.
//!
//! A paused backend starts no agents for a while, because it failed too often. The lane's events
//! stay in the queue, in order. The lane continues once its backend starts agents again or the limit
//! has ended, or another component, backend or model serves the lane. A cap of one person holds only
//! that person's events.
//!
//! People get one notice of each wait. It is edited when the wait ends, also after a restart.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::holds::{AnnouncedWait, HeldLane, HoldState};
use crate::Shared;
use crate::outlet::{Notice, WaitTopic, messages};
use crate::part::{Gateway, NextTurn, Wait};
use crate::recovery::restart::notice_target;
use aetheel_model::event::{Event, EventKind, Lane, Sequence};
use aetheel_model::queue::LaneHold;
use aetheel_runtime::clock::Clock;

/// The longest sleep of the watch. The wall clock may be set in the meantime.
const MAX_REST: SignedDuration = SignedDuration::from_secs(5);
/// The shortest time between two checks of a hold without a change.
const MIN_REST: SignedDuration = SignedDuration::from_millis(500);
/// How long the watch waits for the notices of one pass. They are posted in the background then.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(1);
/// The lines below the notice of a wait that ended.
const OVER: &str = "▶️ The wait is over.";
const REMOVED: &str = "🛑 The prompt was removed.";

/// Returns the reason why the turn of an event cannot begin now.
pub(crate) async fn event_wait(shared: &Arc<Shared>, event: &Event) -> Option<Wait> {
    let next = NextTurn { lane: &event.lane, event: Some(event) };
    Gateway { shared }.wait(next).await
}

/// Returns the events of a lane that wait together with an event that cannot start.
pub(crate) async fn hold_for(shared: &Arc<Shared>, event: &Event) -> LaneHold {
    event_wait(shared, event).await.map_or(LaneHold::Everybody, |wait| wait.hold)
}

/// Watches the holds until the dispatcher is dropped. A hold is checked when it is new, when its time
/// has come, and when something changed that it waits for.
pub(crate) async fn watch(shared: Weak<Shared>, mut woken: mpsc::Receiver<()>, clock: Clock) {
    let mut rest = None;
    loop {
        tokio::select! {
            woken = woken.recv() => if woken.is_none() { return },
            () = sleep(&clock, rest) => {}
        }
        let Some(shared) = shared.upgrade() else { return };
        let due = {
            let queue = shared.lanes.queue.lock();
            shared.lanes.holds.due(&queue, shared.now())
        };
        let mut notices = Vec::new();
        for (held, state) in due {
            let notice = check(&shared, held, state).await;
            notices.extend(notice.map(|notice| shared.tasks.spawn(notice)));
        }
        let posted = async {
            for notice in notices {
                let _ = notice.await;
            }
        };
        let _ = timeout(NOTICE_TIMEOUT, posted).await;
        rest = shared.lanes.holds.next_check().map(|at| at.duration_since(shared.now()));
    }
}

/// Sleeps for a time, or until the caller stops to wait.
async fn sleep(clock: &Clock, rest: Option<SignedDuration>) {
    match rest {
        Some(rest) => {
            clock.sleep(rest.clamp(SignedDuration::ZERO, MAX_REST).unsigned_abs()).await;
        }
        None => std::future::pending().await,
    }
}

/// Checks a hold, and ends it if its events can start. Returns the notice to post, if there is one.
async fn check(
    shared: &Arc<Shared>,
    held: HeldLane,
    state: HoldState,
) -> Option<impl Future<Output = ()> + use<>> {
    let ((lane, hold), is_new) = (&held, state.is_new());
    let first = shared.lanes.queue.lock().lanes().first_held(lane, *hold).cloned();
    let wait = match &first {
        Some(event) => event_wait(shared, event).await,
        None => None,
    };
    let is_over = wait.is_none();
    let soonest = shared.now() + MIN_REST;
    match (&first, wait) {
        (Some(event), Some(wait)) if wait.hold == *hold => {
            let announced = AnnouncedWait::of(event, &wait);
            let check_at = wait.until.unwrap_or(Timestamp::MAX).max(soonest);
            let is_known =
                state.announced.as_ref().is_some_and(|before| before.is_same(&announced));
            let before = state.announced.filter(|_| !is_known);
            if let Some(before) = before.filter(|before| !still_waits(shared, before.event)) {
                shared.wait_notices.end(shared, before.event, REMOVED);
            }
            shared.lanes.holds.keep(&held, event.sequence, Some(announced), check_at);
            return (!is_known).then(|| announce(shared.clone(), event.clone(), wait));
        }
        // It is unknown for a moment what the other nodes of a cluster used.
        (Some(event), None) if is_new => {
            shared.lanes.holds.keep(&held, event.sequence, state.announced, soonest);
            return None;
        }
        _ => {}
    }
    if let Some(wait) = state.announced {
        if !still_waits(shared, wait.event) {
            shared.wait_notices.end(shared, wait.event, REMOVED);
        } else if is_over && first.is_some_and(|event| event.sequence == wait.event) {
            let decision = shared.budget_notices.decision_about(&wait.key);
            shared.wait_notices.end(shared, wait.event, decision.as_deref().unwrap_or(OVER));
        }
        // Otherwise another hold applies from now on, and its notice replaces this one.
    }
    shared.lanes.holds.remove(&held);
    shared.lanes.queue.lock().resume(lane, *hold);
    shared.start_waiting();
    None
}

/// Notifies the author of an event that it waits.
async fn announce(shared: Arc<Shared>, event: Event, wait: Wait) {
    let until = wait.until.map(tracing::field::display);
    tracing::info!(event = event.sequence, lane = %event.lane, wait = wait.key, until, "{}", wait.log_line);
    let Some(text) = wait.notice else { return };
    let (channel, about) = notice_target(&event);
    if event.kind == EventKind::Message && (channel.is_some() || event.lane == Lane::Console) {
        let topic = WaitTopic { topic: event_topic(event.sequence), reason: wait.key };
        let notice = Notice { channel, about, text, offers: wait.offers };
        shared.wait_notices.post(&shared, event.sequence, topic, notice).await;
    }
}

/// The notices of waits that are being posted.
#[derive(Default)]
pub(crate) struct WaitNotices {
    /// The events, each with the line that ends its notice once it is posted.
    posting: Mutex<HashMap<Sequence, Option<String>>>,
}

impl WaitNotices {
    async fn post(&self, shared: &Shared, event: Sequence, topic: WaitTopic, notice: Notice) {
        self.posting.lock().insert(event, None);
        // This notice is not essential, and the outlet has logged the failure.
        let _ = shared.deps.outlet.announce_wait(topic, notice).await;
        if let Some(Some(line)) = self.posting.lock().remove(&event) {
            shared.deps.outlet.end_wait(&event_topic(event), &line);
        }
    }

    /// Edits the notice of an event, at the latest when it is posted.
    fn end(&self, shared: &Shared, event: Sequence, line: &str) {
        match self.posting.lock().get_mut(&event) {
            Some(end) => *end = Some(line.to_owned()),
            None => shared.deps.outlet.end_wait(&event_topic(event), line),
        }
    }
}

/// Edits the notice that an event waits, because its turn begins. A previous process may have posted
/// it.
pub(crate) fn end_wait_of(shared: &Shared, event: &Event) {
    shared.wait_notices.end(shared, event.sequence, OVER);
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

fn still_waits(shared: &Shared, event: Sequence) -> bool {
    shared.lanes.queue.lock().lanes().position(event).is_some()
}
