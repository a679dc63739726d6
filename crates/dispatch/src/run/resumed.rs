//! Resuming a turn whose agent still runs after a restart, if the current settings still allow it.

use std::path::PathBuf;

use super::EventTurn;
use crate::attachments::FetchedFiles;
use crate::outlet::TurnAnswer;
use crate::part::TurnContext;
use crate::plan::TurnPlan;
use crate::questions::question_id;
use aetheel_model::agent::Mode;
use aetheel_store::workspace::LaneSettings;
use aetheel_turn::ContinuedTurn;

impl EventTurn {
    /// Returns the plan of a turn that a previous process began.
    ///
    /// # Errors
    /// The answer of a turn that may not continue.
    pub(super) async fn resume(&mut self, turn: ContinuedTurn) -> Result<TurnPlan, TurnAnswer> {
        let TurnContext { event, shared, .. } = &*self.turn;
        let name = turn.backend.descriptor().name.clone();
        let (_, lane) = shared.channels.backend_of(&event.lane).await;
        if let Some(why) = self.resume_refusal(&turn, &lane).await {
            for (ask, time) in &turn.asks {
                shared.deps.outlet.close_question(&question_id(&turn.id, *ask, *time));
            }
            tracing::warn!(why, "a resumed turn is ended: it has more rights than are allowed now");
            let failure = format!(
                "I was restarted, and less is allowed here now ({why}), so I stopped. Please ask again. (restarted, {})",
                turn.id
            );
            return Err(TurnAnswer::failed(name, failure));
        }
        tracing::info!("the turn continues after the restart");
        let binding = shared.deps.workspace.state.bindings.get(&event.lane, &name).await;
        let start = turn.start.clone();
        Ok(TurnPlan {
            backend: turn.backend.clone(),
            lane,
            directory: PathBuf::from(&start.cwd),
            notices: Vec::new(),
            planning: start.settings.mode == Mode::Plan,
            files: FetchedFiles::of_resumed(&start.parts),
            start,
            binding,
            continued: Some(turn),
        })
    }

    /// Returns why a turn may not be resumed, or `None` if it may: it must not have more rights
    /// than a new turn would have.
    async fn resume_refusal(
        &self,
        turn: &ContinuedTurn,
        lane: &LaneSettings,
    ) -> Option<&'static str> {
        let TurnContext { event, shared, .. } = &*self.turn;
        let descriptor = turn.backend.descriptor();
        let in_force = shared.channels.in_force(&event.lane, lane, descriptor).await;
        if turn.start.settings.safety > in_force.safety {
            return Some("the level of safety");
        }
        if let Some(why) = self.parts.iter().find_map(|part| part.resume_refusal(turn)) {
            return Some(why);
        }
        let may_choose = shared.channels.may_choose(&event.lane, lane, &descriptor.name);
        (!may_choose).then_some("the agents")
    }
}
