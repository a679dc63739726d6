//! Agents call tools of the gateway. The tools and their effects are in
//! [`host_calls`](crate::host_calls).

use std::sync::Arc;

use async_trait::async_trait;

use crate::channel::effective::offered_tools;
use crate::collisions::checkouts::CheckoutPlace;
use crate::delegated::{CallContext, CallingTurn, PendingCall};
use crate::part::{PartOfTurn, TurnContext, TurnPart, TurnRefusal};
use crate::plan::TurnPlan;
use crate::turn_feed::TurnFeed;
use aetheel_model::agent::descriptor::Feature;
use aetheel_model::event::AgentRights;
use aetheel_turn::{Answerer, DelegatedCall, host_tools};

/// Agents call tools of the gateway.
pub struct HostTools;

struct CallsOfTurn {
    turn: Arc<TurnContext>,
    /// The facts that decide what calls may do. `None` until the agent begins.
    calling: Option<CallingTurn>,
}

#[async_trait]
impl TurnPart for HostTools {
    fn name(&self) -> &'static str {
        "host-tools"
    }

    fn join(&self, turn: &Arc<TurnContext>) -> Option<Box<dyn PartOfTurn>> {
        Some(Box::new(CallsOfTurn { turn: Arc::clone(turn), calling: None }))
    }
}

#[async_trait]
impl PartOfTurn for CallsOfTurn {
    async fn prepare(&mut self, plan: &mut TurnPlan) -> Result<(), TurnRefusal> {
        let TurnContext { event, shared, .. } = &*self.turn;
        let is_supported = plan.backend.descriptor().has(Feature::HostTools);
        if is_supported && !shared.links.tool_endpoints().are_unavailable() {
            let rights = event.by_agent.as_ref().and_then(|request| request.rights.as_ref());
            let offered = offered_tools(&shared.deps.choices, &plan.lane, rights);
            plan.start.tools = host_tools(&offered);
        }
        Ok(())
    }

    async fn begin(&mut self, plan: &TurnPlan, _feed: &TurnFeed) {
        let TurnContext { event, shared, .. } = &*self.turn;
        let is_cluster = shared.deps.machine.is_some();
        self.calling = Some(CallingTurn {
            event: event.clone(),
            backend: plan.backend.descriptor().name.clone(),
            rights: AgentRights {
                safety: plan.start.settings.safety,
                planning: plan.planning,
                tools: plan.start.tools.iter().map(|tool| tool.name.clone()).collect(),
            },
            checkout: CheckoutPlace::of(&plan.directory, &plan.lane, is_cluster),
        });
    }

    fn asks_people(&self, call: &DelegatedCall) -> bool {
        self.calling.as_ref().is_some_and(|calling| calling.asks_people(&call.request))
    }

    fn delegate(
        &mut self,
        call: &DelegatedCall,
        answer: Answerer,
        context: &CallContext<'_>,
    ) -> Option<Answerer> {
        let Some(calling) = &self.calling else { return Some(answer) };
        let saving = context.progress.record_tool_use();
        self.turn.shared.calls.send(PendingCall {
            call: call.clone(),
            answer,
            turn: calling.clone(),
            context: context.question.clone(),
            reply: Arc::clone(context.reply),
            saving: saving.map(|saving| (context.progress.clone(), saving)),
        });
        None
    }
}
