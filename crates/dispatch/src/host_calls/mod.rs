//! Carries out the calls of host tools whose effect goes beyond their turn.
//!
//! A running turn passes such a call on ([`CallQueue`](super::delegated::CallQueue)). Each tool has a
//! file with its [`HostToolEffect`]. [`later`] saves turns at later times for several tools, and
//! [`due`] submits them when their time has come. [`approval`] asks people first where the effect is
//! far-reaching.
//!
//! After a restart of the gateway, a call without a recorded result is carried out again. So each
//! effect has a key that is computed from the turn and the call, and the same key never has a second
//! effect. `docs/host-tools.md` describes all of it. Tested by `tests/dispatch/host_calls.rs`.

mod approval;
mod claim;
pub(crate) mod due;
mod error;
mod handoff;
mod later;
mod limits;
mod list_agents;
mod read_channel;
mod remind;
mod schedule;
mod sleep_until;

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use self::error::HostCallError;
use super::Shared;
use super::delegated::{CallingTurn, PendingCall};
use super::intake::Intake;
use super::outlet::messages::PromptRefusal;
use aetheel_model::access::LanePermissions;
use aetheel_model::event::NewEvent;
use aetheel_model::id::ChannelId;
use aetheel_turn::{DelegatedCall, HostRequest, call_done, call_failed};

pub(crate) use self::handoff::HandOffTimes;

/// The effect of a tool, implemented for the input of its calls.
#[async_trait]
trait HostToolEffect: Send + Sync {
    /// Returns whether people are asked before the call is carried out.
    fn asks_people(&self, _turn: &CallingTurn) -> bool {
        false
    }

    /// Carries the call out. Returns the result for the model.
    async fn carry_out(&self, call: &HostCall) -> Result<String, HostCallError>;
}

/// Returns the effect of a call.
fn effect(request: &HostRequest) -> &dyn HostToolEffect {
    match request {
        HostRequest::Claim(input) => input,
        HostRequest::Remind(input) => input,
        HostRequest::Schedule(input) => input,
        HostRequest::SleepUntil(input) => input,
        HostRequest::ListAgents(input) => input,
        HostRequest::HandOff(input) => input,
        HostRequest::ReadChannel(input) => input,
    }
}

impl CallingTurn {
    /// Returns whether people are asked before a call is carried out.
    pub(crate) fn asks_people(&self, request: &HostRequest) -> bool {
        effect(request).asks_people(self)
    }
}

/// A call that is carried out.
struct HostCall {
    shared: Arc<Shared>,
    pending: PendingCall,
}

impl HostCall {
    /// Returns the key of the call's effect, which is the same after a restart.
    fn effect_key(&self) -> String {
        format!("{}:{}", self.pending.context.turn, self.pending.call.call)
    }

    /// Returns the channel of the turn.
    fn channel(&self) -> Result<ChannelId, HostCallError> {
        let turn = &self.pending.turn;
        turn.channel().ok_or_else(|| HostCallError::NotInAChannel(turn.event.lane.to_string()))
    }

    /// Returns the current permissions of the person who asked in a channel that they see.
    async fn permissions(&self, channel: ChannelId) -> Result<LanePermissions, HostCallError> {
        let asker = self.pending.turn.event.asker.ok_or(HostCallError::NoAsker)?;
        let found = self.shared.deps.outlet.permissions(asker, channel).await;
        let permissions = found.map_err(HostCallError::Unchecked)?;
        Some(permissions).filter(|found| found.sees).ok_or(HostCallError::NoSuchChannel)
    }
}

/// Submits an event for a turn that an agent asked for, and waits until it is saved.
async fn submit(shared: &Arc<Shared>, event: NewEvent) -> Result<(), PromptRefusal> {
    let placed = Intake::new(Arc::clone(shared)).submit_or_route(event).await?;
    placed.wait_until_saved().await.map(drop)
}

/// Carries out calls until the dispatcher is dropped. Calls do not wait for each other.
pub(crate) async fn carry_out_all(
    shared: Weak<Shared>,
    mut pending: mpsc::UnboundedReceiver<PendingCall>,
) {
    while let Some(pending) = pending.recv().await {
        let Some(shared) = shared.upgrade() else { return };
        let span = pending.context.span.clone();
        tokio::spawn(carry_out(HostCall { shared, pending }).instrument(span));
    }
}

async fn carry_out(mut host_call: HostCall) {
    if let Some((kept, saving)) = host_call.pending.saving.take() {
        kept.retry_until_saved(saving).await;
    }
    let DelegatedCall { tool, call, request, .. } = &host_call.pending.call;
    let (tool, call) = (tool.name(), *call);
    let redact = |text| host_call.shared.deps.redactor.redact(text);
    let decision = match effect(request).carry_out(&host_call).await {
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
    let _ = host_call.pending.answer.decide(decision);
}
