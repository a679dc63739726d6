//! Agents get the turns that they do not know: the last messages of a channel whose conversation was
//! on another machine ([`recap`]), or the turns of other agents in the lane ([`OtherAgents`]).

use std::sync::Arc;

use async_trait::async_trait;

use crate::outlet::messages;
use crate::part::{PartOfTurn, TurnContext, TurnPart, TurnRefusal};
use crate::plan::TurnPlan;
use crate::run::recap::recap;
use crate::run::switch::OtherAgents;
use aetheel_model::agent::PromptPart;

/// Agents get the turns that they do not know.
pub struct Recaps;

struct RecapOfTurn(Arc<TurnContext>);

#[async_trait]
impl TurnPart for Recaps {
    fn name(&self) -> &'static str {
        "recap"
    }

    fn join(&self, turn: &Arc<TurnContext>) -> Option<Box<dyn PartOfTurn>> {
        Some(Box::new(RecapOfTurn(Arc::clone(turn))))
    }
}

#[async_trait]
impl PartOfTurn for RecapOfTurn {
    async fn prepare(&mut self, plan: &mut TurnPlan) -> Result<(), TurnRefusal> {
        let TurnContext { event, shared, .. } = &*self.0;
        let is_new = plan.start.native_id.is_none();
        if plan.binding.moved && is_new {
            let text = recap(&shared.deps, event, &plan.expansion()).await;
            plan.start.parts.splice(0..0, text.map(PromptPart::Text));
            plan.notices.push(messages::MOVED_NOTICE.to_owned());
            return Ok(());
        }
        let name = &plan.backend.descriptor().name;
        if shared.lanes.last_backend(&event.lane).is_some_and(|last| last == *name) {
            return Ok(());
        }
        let others = OtherAgents::find(&shared.deps, event, name, is_new, &plan.expansion()).await;
        if let Some(OtherAgents { text, notice }) = others {
            plan.start.parts.insert(0, PromptPart::Text(text));
            plan.notices.push(notice);
        }
        Ok(())
    }
}
