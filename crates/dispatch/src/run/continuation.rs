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

use crate::Shared;
use crate::outlet::TurnAnswer;
use crate::persistence::wait_until_saved;
use aetheel_model::event::{Event, EventKind, EventOrigin, NewEvent};

/// Delay before an event that could not be saved is accepted again.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// The turn that an event continues, and the reason why it was interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Continuation {
    /// A usage limit of the agent ended the turn.
    AfterLimit(String),
    /// A budget stopped the turn.
    AfterBudget(String),
}

impl Continuation {
    /// Returns the turn that an event continues, or `None` for any other event.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        event.continues?;
        let (kind, turn) = event.key.as_deref()?.split_once(':')?;
        match kind {
            "limit" => Some(Self::AfterLimit(turn.to_owned())),
            "budget" => Some(Self::AfterBudget(turn.to_owned())),
            _ => None,
        }
    }

    /// Returns the key of the event. The journal keeps it, so that the event is accepted once.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::AfterLimit(turn) => format!("limit:{turn}"),
            Self::AfterBudget(turn) => format!("budget:{turn}"),
        }
    }

    /// Returns what interrupted the turn, for the agent.
    pub(super) fn cause(&self) -> &'static str {
        match self {
            Self::AfterLimit(_) => "a usage limit of the agent",
            Self::AfterBudget(_) => "a budget that was used up",
        }
    }
}

/// Returns whether a conversation can be continued later. The gateway accepts nothing while it shuts
/// down.
pub(crate) fn may_continue(shared: &Shared) -> bool {
    !shared.lanes.queue.lock().is_closed()
}

/// Accepts the event that continues the conversation after a saved answer, unless it was accepted
/// before. Returns `false` if the gateway shuts down. The answer must stay in the journal then, so
/// that the next process accepts the event.
pub(super) async fn accept(shared: &Arc<Shared>, event: &Event, answer: &TurnAnswer) -> bool {
    let Some(key) = &answer.continuation else { return true };
    loop {
        if continue_later(shared, event, key).await {
            return true;
        }
        if !may_continue(shared) {
            return false;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::event::Lane;

    #[test]
    fn the_key_of_a_continuation_names_its_turn_and_its_cause() {
        let event = |key: String, continues| {
            let origin = EventOrigin::Console;
            let event = NewEvent::new(EventKind::Message, Lane::Console, origin, "");
            NewEvent { key: Some(key), continues, ..event }.accepted(2, 0)
        };
        for wanted in [
            Continuation::AfterLimit("ab12".to_owned()),
            Continuation::AfterBudget("cd".to_owned()),
        ] {
            assert_eq!(Continuation::of(&event(wanted.key(), Some(1))), Some(wanted.clone()));
            assert_eq!(Continuation::of(&event(wanted.key(), None)), None, "a key of people");
        }
        assert_eq!(Continuation::of(&event("limits".to_owned(), Some(1))), None);
    }
}
