//! Turns that only plan. Requests of the agent for tools that do more than read are refused,
//! without asking people.
//!
//! The rule is the same for all backends. Tools that an agent uses without a request are limited
//! by its own mode and by its sandbox. Planning ends when a person approves the plan; after that,
//! the agent's safety level applies. Tested by `tests/dispatch/planning.rs`.

use std::sync::Arc;

use async_trait::async_trait;

use crate::part::{PartOfTurn, Refusal, TurnContext, TurnPart};
use crate::plan::TurnPlan;
use crate::turn_feed::TurnFeed;
use aetheel_model::agent::{Ask, AskDecision, AskKind, ToolStart, is_read_only};
use aetheel_model::fold::Transcript;
use aetheel_model::plain::one_line;
use aetheel_turn::{NewsKind, TurnNews};

/// The reason for the refusal, which the agent receives.
pub(super) const REFUSAL: &str = "Only planning is allowed here: do not change anything and do not run commands. Work out a plan and describe it.";
/// The maximum number of refused requests that the notice names.
const NAMED_LIMIT: usize = 3;
/// The maximum length of each name, in characters.
const NAME_LIMIT: usize = 80;

/// Turns that only plan change nothing.
pub struct PlanMode;

struct Planning {
    turn: Arc<TurnContext>,
    is_on: bool,
    /// The refused requests.
    refused: Vec<String>,
}

#[async_trait]
impl TurnPart for PlanMode {
    fn name(&self) -> &'static str {
        "plan-mode"
    }

    fn join(&self, turn: &Arc<TurnContext>) -> Option<Box<dyn PartOfTurn>> {
        Some(Box::new(Planning { turn: Arc::clone(turn), is_on: false, refused: Vec::new() }))
    }
}

#[async_trait]
impl PartOfTurn for Planning {
    async fn begin(&mut self, plan: &TurnPlan, _feed: &TurnFeed) {
        self.is_on = plan.planning;
    }

    fn on(&mut self, news: &TurnNews, _transcript: &Transcript) {
        match &news.kind {
            NewsKind::Answered(ask, decision) if approves_plan(ask, decision) => self.is_on = false,
            _ => {}
        }
    }

    fn excludes(&self, ask: &Ask) -> bool {
        matches!(&ask.kind, AskKind::Permission(tool) if self.refuses(tool))
    }

    fn refuse(&mut self, ask: &Ask) -> Option<Refusal> {
        let AskKind::Permission(tool) = &ask.kind else { return None };
        if !self.refuses(tool) {
            return None;
        }
        let target = tool.target.as_deref().filter(|target| !target.trim().is_empty());
        let named = target.unwrap_or(&tool.title);
        let named = if named.trim().is_empty() { &tool.native_name } else { named };
        self.refused.push(one_line(named));
        tracing::info!(title = one_line(&ask.title), "refused a request of the agent in plan mode");
        Some(Refusal { by: "plan mode", reason: REFUSAL.to_owned() })
    }

    fn notices(&mut self, notices: &mut Vec<String>) {
        self.refused.dedup();
        let more = self.refused.len().saturating_sub(NAMED_LIMIT);
        self.refused.truncate(NAMED_LIMIT);
        if self.refused.is_empty() {
            return;
        }
        // The text is redacted before it is cut, so that no part of a secret remains.
        let redactor = &self.turn.shared.deps.redactor;
        let named = self.refused.drain(..).map(|what| {
            let brief: String =
                redactor.redact(what).replace('`', "'").chars().take(NAME_LIMIT).collect();
            format!("`{brief}`")
        });
        let named: Vec<String> = named.collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        notices.push(format!("Refused in plan mode: {}{more}. `/settings mode:build` ends it, if the operator allows that.", named.join(", ")));
    }
}

impl Planning {
    fn refuses(&self, tool: &ToolStart) -> bool {
        self.is_on && !is_read_only(tool)
    }
}

/// Returns whether a decision approves a plan.
fn approves_plan(ask: &Ask, decision: &AskDecision) -> bool {
    let agreed = match decision {
        AskDecision::AllowOnce | AskDecision::AllowAlways | AskDecision::AllowChanged(_) => true,
        AskDecision::Chosen(id) => {
            ask.options.iter().any(|option| option.id == *id && option.allows)
        }
        _ => false,
    };
    agreed && matches!(ask.kind, AskKind::PlanApproval(_))
}
