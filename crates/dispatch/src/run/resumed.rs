//! Resuming a turn whose agent still runs after a restart, if the current settings still allow it.

use std::sync::Arc;

use super::TurnRunner;
use super::attachments::FetchedFiles;
use super::prepare::{PreparedTurn, TurnControls};
use crate::outlet::TurnAnswer;
use crate::outlet::handle::ReplyHandle;
use crate::persistence::EventProgress;
use crate::questions::question_id;
use aetheel_model::agent::descriptor::Feature;
use aetheel_model::agent::{AllowedTools, Mode, allowed_tools_for};
use aetheel_model::event::Event;
use aetheel_store::workspace::LaneSettings;
use aetheel_turn::ContinuedTurn;

impl TurnRunner {
    /// Resumes the turn of an event that a previous process started.
    pub(super) async fn resume(
        &self,
        event: &Event,
        turn: ContinuedTurn,
        control: TurnControls,
        reply: &Arc<ReplyHandle>,
        kept: &EventProgress,
    ) -> TurnAnswer {
        let descriptor = turn.backend.descriptor();
        let name = descriptor.name.clone();
        let (_, lane, _) = self.shared.channels.resolve_backend(&event.lane).await;
        if let Some(why) = self.resume_refusal(event, &turn, &lane).await {
            for (ask, time) in &turn.asks {
                self.shared.deps.outlet.close_question(&question_id(&turn.id, *ask, *time));
            }
            tracing::warn!(why, "a resumed turn is ended: it has more rights than are allowed now");
            return TurnAnswer::failed(
                name,
                format!(
                    "I was restarted, and less is allowed here now ({why}), so I stopped. Please ask again. (restarted, {})",
                    turn.id
                ),
            );
        }
        tracing::info!("the turn continues after the restart");
        let binding = self.shared.deps.workspace.state.bindings.get(&event.lane, &name).await;
        let start = turn.start.clone();
        let begun = PreparedTurn {
            id: turn.id.clone(),
            backend: Arc::clone(&turn.backend),
            planning: start.settings.mode == Mode::Plan,
            files: FetchedFiles::of_resumed(&start.parts),
            start,
            binding,
            continued: Some(turn),
        };
        self.run_prepared(event, begun, &lane, control, reply, kept).await
    }

    /// Returns why a turn may not be resumed, or `None` if it may: it must not have more rights
    /// than a new turn would have.
    async fn resume_refusal(
        &self,
        event: &Event,
        turn: &ContinuedTurn,
        lane: &LaneSettings,
    ) -> Option<&'static str> {
        let (descriptor, settings) = (turn.backend.descriptor(), &turn.start.settings);
        let in_force = self.shared.channels.in_force(&event.lane, lane, descriptor).await;
        if settings.safety > in_force.safety {
            return Some("the level of safety");
        }
        let allowed = &self.shared.deps.choices.allowed_tools;
        let cannot_keep =
            !descriptor.has(Feature::AllowedTools) && *allowed == AllowedTools::Only(Vec::new());
        let other = descriptor.has(Feature::AllowedTools)
            && settings.allowed_tools != allowed_tools_for(allowed, descriptor);
        if cannot_keep || other {
            return Some("the allowed tools");
        }
        (!self.shared.channels.may_choose(&event.lane, lane, &descriptor.name))
            .then_some("the agents")
    }
}
