//! Agents use only the tools that the operator allows, if they ask before they use a tool. Nothing
//! runs on a backend that cannot enforce that no tool is allowed.

use std::sync::Arc;

use async_trait::async_trait;

use crate::part::{PartOfTurn, Refusal, TurnContext, TurnPart, TurnRefusal};
use crate::plan::TurnPlan;
use crate::turn_feed::TurnFeed;
use aetheel_model::agent::descriptor::Feature;
use aetheel_model::agent::{
    AllowedTools, Ask, AskKind, ToolStart, ToolStatus, allowed_tools_for, permits,
};
use aetheel_model::fold::Transcript;
use aetheel_model::plain::one_line;
use aetheel_recording::Backend;
use aetheel_turn::{ContinuedTurn, NewsKind, TurnNews};

/// The refusal of a tool that the operator does not allow.
pub(super) const NOT_ALLOWED: &str = "The operator does not allow this tool here.";

/// Agents use only the tools that the operator allows.
pub struct AllowedToolsGate;

struct ToolsOfTurn {
    turn: Arc<TurnContext>,
    allowed: AllowedTools,
    /// `None` until the agent begins.
    backend: Option<Arc<dyn Backend>>,
}

#[async_trait]
impl TurnPart for AllowedToolsGate {
    fn name(&self) -> &'static str {
        "allowed-tools"
    }

    fn join(&self, turn: &Arc<TurnContext>) -> Option<Box<dyn PartOfTurn>> {
        let allowed = turn.shared.deps.choices.allowed_tools.clone();
        Some(Box::new(ToolsOfTurn { turn: Arc::clone(turn), allowed, backend: None }))
    }
}

#[async_trait]
impl PartOfTurn for ToolsOfTurn {
    async fn prepare(&mut self, plan: &mut TurnPlan) -> Result<(), TurnRefusal> {
        let descriptor = plan.backend.descriptor();
        if self.allowed != AllowedTools::Only(Vec::new()) || descriptor.has(Feature::AllowedTools) {
            return Ok(());
        }
        tracing::error!(
            backend = descriptor.name,
            "this backend cannot enforce ALLOWED_TOOLS=none; nothing runs on it"
        );
        Err(TurnRefusal(format!(
            "No tools are allowed here, and this agent's own tools cannot be disabled. (tools, {})",
            self.turn.id
        )))
    }

    fn resume_refusal(&self, turn: &ContinuedTurn) -> Option<&'static str> {
        let descriptor = turn.backend.descriptor();
        let differs = match descriptor.has(Feature::AllowedTools) {
            true => {
                turn.start.settings.allowed_tools != allowed_tools_for(&self.allowed, descriptor)
            }
            false => self.allowed == AllowedTools::Only(Vec::new()),
        };
        differs.then_some("the allowed tools")
    }

    async fn begin(&mut self, plan: &TurnPlan, _feed: &TurnFeed) {
        self.backend = Some(Arc::clone(&plan.backend));
    }

    fn on(&mut self, news: &TurnNews, transcript: &Transcript) {
        let NewsKind::Event(event) = &news.kind else { return };
        let Some(end) = event.tool_end().filter(|_| !news.replayed) else { return };
        let start = transcript.tool(&end.id).map(|tool| &tool.start);
        if let Some(start) = start.filter(|_| end.status == ToolStatus::Ok) {
            self.watch(start);
        }
    }

    fn excludes(&self, ask: &Ask) -> bool {
        matches!(&ask.kind, AskKind::Permission(tool) if !self.permits(tool))
    }

    fn refuse(&mut self, ask: &Ask) -> Option<Refusal> {
        let AskKind::Permission(tool) = &ask.kind else { return None };
        if self.permits(tool) {
            return None;
        }
        tracing::warn!(
            tool = one_line(&tool.native_name),
            kind = tool.kind,
            "refused the agent a tool that ALLOWED_TOOLS does not name"
        );
        Some(Refusal { by: "ALLOWED_TOOLS", reason: NOT_ALLOWED.to_owned() })
    }
}

impl ToolsOfTurn {
    fn permits(&self, tool: &ToolStart) -> bool {
        let Some(backend) = &self.backend else { return true };
        let descriptor = backend.descriptor();
        permits(&self.allowed, descriptor, tool, descriptor.has(Feature::AllowedTools))
    }

    /// Logs an error about a tool that was used although it is not allowed.
    fn watch(&self, tool: &ToolStart) {
        let changes = matches!(tool.kind.as_str(), "bash" | "file_write" | "file_edit");
        if changes && !self.permits(tool) {
            let backend = self.backend.as_ref().map(|backend| backend.descriptor().name.as_str());
            tracing::error!(
                tool = one_line(&tool.native_name),
                backend,
                "the agent used a tool without asking that ALLOWED_TOOLS does not name; choose another backend"
            );
        }
    }
}
