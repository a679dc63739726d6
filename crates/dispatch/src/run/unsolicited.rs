//! Delivers texts that agents send outside of turns.

use std::sync::Weak;

use tokio::sync::mpsc;

use super::super::Shared;
use super::super::outlet::TurnAnswer;
use aetheel_model::event::{EventKind, EventOrigin, NewEvent};
use aetheel_turn::UnsolicitedTurn;

/// Delivers texts that agents send outside of turns, until the dispatcher is dropped.
pub(crate) async fn deliver(
    shared: Weak<Shared>,
    mut unasked: mpsc::UnboundedReceiver<UnsolicitedTurn>,
) {
    while let Some(UnsolicitedTurn { lane, backend, text, usage }) = unasked.recv().await {
        let Some(shared) = shared.upgrade() else { return };
        let now_ms = shared.deps.clock.now_ms();
        let event =
            NewEvent::new(EventKind::Hook, lane, EventOrigin::Internal { channel: None }, "")
                .accepted(0, now_ms);
        let (text, notices) = shared.channels.remember(&event.lane, None, text, Vec::new()).await;
        let answer = TurnAnswer { text, notices, usage, ..TurnAnswer::from_backend(backend) };
        let (reply, answer) =
            (shared.deps.outlet.open(&event), answer.cleaned(&shared.deps.redactor));
        shared.delivery.send(reply, answer, "a text that the agent sent outside of a turn").await;
    }
}
