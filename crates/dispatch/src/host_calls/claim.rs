//! The tool `aetheel_claim`: reserves or releases files for the conversation.

use std::sync::Arc;

use async_trait::async_trait;

use super::{HostCall, HostCallError, HostToolEffect};
use crate::claims::{ClaimAuthor, ClaimDesk};
use crate::delegated::CallingTurn;
use aetheel_turn::ClaimCall;

#[async_trait]
impl HostToolEffect for ClaimCall {
    async fn carry_out(&self, call: &HostCall) -> Result<String, HostCallError> {
        let CallingTurn { event, checkout, .. } = &call.pending.turn;
        let name = event.author.clone();
        let author = ClaimAuthor { lane: event.lane.clone(), person: event.asker, name };
        let claims = ClaimDesk::new(Arc::clone(&call.shared));
        Ok(claims.agent_call(author, checkout.clone(), self.clone()).await?)
    }
}
