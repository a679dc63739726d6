//! Events that continue a conversation whose turn a usage limit or a budget ended.
//!
//! The event has the prompt of the interrupted turn and its place in the lane, so it goes before all
//! events that wait there. `run/start` puts the prompt into the words with which the agent continues.
//!
//! The answer of the turn is saved with the key of the event, and the event is accepted afterwards.
//! If the gateway dies in between, the next process accepts the event before it delivers the answer.
//! The key contains the turn's id, so the event is accepted once.

use std::sync::Arc;
use std::time::Duration;

use super::TurnRunner;
use crate::Shared;
use crate::outlet::TurnAnswer;
use crate::persistence::wait_until_saved;
use crate::{budgets, limits};
use aetheel_model::event::{Event, EventKind, EventOrigin, NewEvent};

/// Delay before an event that could not be saved is accepted again.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Returns what interrupted the turn that an event continues, or `None` for any other event.
pub(super) fn interruption(event: &Event) -> Option<&'static str> {
    event.continues?;
    let key = event.key.as_deref()?;
    if key.starts_with(limits::CONTINUATION) {
        return Some("a usage limit of the agent");
    }
    key.starts_with(budgets::CONTINUATION).then_some("a budget that was used up")
}

/// Returns whether a conversation can be continued later. The gateway accepts nothing while it shuts
/// down.
pub(super) fn may_continue(shared: &Shared) -> bool {
    !shared.lanes.queue.lock().is_closed()
}

impl TurnRunner {
    /// Accepts the event that continues the conversation after a saved answer, unless it was
    /// accepted before. Returns `false` if the gateway shuts down. The answer must stay in the
    /// journal then, so that the next process accepts the event.
    pub(super) async fn accept_continuation(&self, event: &Event, answer: &TurnAnswer) -> bool {
        let Some(key) = &answer.continuation else { return true };
        loop {
            if continue_later(&self.shared, event, key).await {
                return true;
            }
            if !may_continue(&self.shared) {
                return false;
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}

/// Accepts the event with this key. Returns whether it is saved.
async fn continue_later(shared: &Arc<Shared>, event: &Event, key: &str) -> bool {
    let origin = match &event.origin {
        // The use of a command expires long before most limits end.
        EventOrigin::Interaction { channel, .. } => {
            EventOrigin::Internal { channel: Some(*channel) }
        }
        origin => origin.clone(),
    };
    let next = NewEvent {
        author: event.author.clone(),
        asker: event.asker,
        parent: event.parent,
        quoted: event.quoted.clone(),
        continues: Some(event.place().of),
        key: Some(key.to_owned()),
        ..NewEvent::new(EventKind::Message, event.lane.clone(), origin, event.prompt.as_str())
    };
    if shared.durability.is_known(&next) {
        return true;
    }
    let saving = {
        let mut queue = shared.lanes.queue.lock();
        if queue.is_closed() {
            return false;
        }
        let next = queue.accept_beyond_limits(next, shared.deps.clock.now_ms());
        tracing::info!(
            event = next.sequence,
            "the conversation continues when its lane no longer waits"
        );
        shared.durability.save_accepted(&next).map(|saving| (next, saving))
    };
    if let Some((next, saving)) = saving.clone() {
        shared.watch_saving(next, saving);
    }
    wait_until_saved(saving.map(|(_, saving)| saving)).await
}
