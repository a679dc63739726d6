//! Carries out the calls of host tools whose effect goes beyond their turn.
//!
//! A running turn passes such a call on ([`CallQueue`](super::delegated::CallQueue)). [`later`] saves
//! turns at later times, [`handoff`] hands work over, and [`reading`] reads channels and lists
//! agents. [`claims`](super::claims) reserves files. [`approval`] asks people first where the effect is far-reaching. [`due`] submits the
//! saved turns when their time has come.
//!
//! After a restart of the gateway, a call without a recorded result is carried out again. So each
//! effect has a key that is computed from the turn and the call, and the same key never has a second
//! effect. `docs/host-tools.md` describes all of it. Tested by `tests/dispatch/host_calls.rs`.

mod approval;
pub(crate) mod due;
mod error;
mod handoff;
mod later;
mod limits;
mod reading;

use std::sync::{Arc, Weak};

use tokio::sync::mpsc;
use tracing::Instrument as _;

use self::error::HostCallError;
use super::Shared;
use super::claims::{ClaimAuthor, ClaimDesk};
use super::delegated::{CallingTurn, PendingCall};
use aetheel_turn::{ClaimCall, HostRequest, call_done, call_failed};

pub(crate) use self::handoff::HandOffTimes;

/// Carries out calls until the dispatcher is dropped. Calls do not wait for each other.
pub(crate) async fn carry_out_all(
    shared: Weak<Shared>,
    mut pending: mpsc::UnboundedReceiver<PendingCall>,
) {
    while let Some(call) = pending.recv().await {
        let Some(shared) = shared.upgrade() else { return };
        let span = call.context.span.clone();
        tokio::spawn(carry_out(shared, call).instrument(span));
    }
}

async fn carry_out(shared: Arc<Shared>, mut pending: PendingCall) {
    if let Some((kept, saving)) = pending.saving.take() {
        kept.retry_until_saved(saving).await;
    }
    let (tool, call) = (pending.call.tool.name(), pending.call.call);
    let result = match pending.call.request.clone() {
        HostRequest::Remind(request) => later::remind(&shared, &pending, &request).await,
        HostRequest::SleepUntil(request) => later::sleep(&shared, &pending, &request).await,
        HostRequest::Schedule(request) => later::schedule(&shared, &pending, &request).await,
        HostRequest::HandOff(request) => handoff::hand_off(&shared, &pending, &request).await,
        HostRequest::ReadChannel(request) => reading::read(&shared, &pending, &request).await,
        HostRequest::ListAgents => reading::list(&shared, &pending).await,
        HostRequest::Claim(request) => claim(&shared, &pending, request).await,
    };
    let redact = |text| shared.deps.redactor.redact(text);
    let decision = match result {
        Ok(text) => {
            tracing::info!(tool, call, "a call of a host tool was carried out");
            call_done(redact(text))
        }
        Err(error) => {
            let reason = error.to_string();
            tracing::warn!(tool, call, reason, "a call of a host tool failed");
            call_failed(redact(reason))
        }
    };
    // Fails if the turn is over, which nobody needs to know.
    let _ = pending.answer.decide(decision);
}

/// Reserves or releases files for the conversation.
async fn claim(
    shared: &Arc<Shared>,
    pending: &PendingCall,
    request: ClaimCall,
) -> Result<String, HostCallError> {
    let CallingTurn { event, checkout, .. } = &pending.turn;
    let author =
        ClaimAuthor { lane: event.lane.clone(), person: event.asker, name: event.author.clone() };
    let claims = ClaimDesk::new(Arc::clone(shared));
    Ok(claims.agent_call(author, checkout.clone(), request).await?)
}

/// Returns the key of a call's effect, which is the same after a restart.
fn effect_key(pending: &PendingCall) -> String {
    format!("{}:{}", pending.context.turn, pending.call.call)
}
