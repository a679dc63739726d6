//! Saves the session of a turn, with which the next prompt of the conversation continues.

use crate::part::TurnContext;
use crate::plan::TurnPlan;
use aetheel_model::agent::{FailureKind, SessionId, SessionReady};
use aetheel_model::plain::with_causes;
use aetheel_recording::Ending;
use aetheel_store::workspace::BindingsError;
use aetheel_turn::TurnResult;

/// The session of a turn that has ended.
pub(super) struct EndedSession<'a> {
    pub(super) turn: &'a TurnContext,
    pub(super) plan: &'a TurnPlan,
    pub(super) result: &'a TurnResult,
}

impl EndedSession<'_> {
    /// Saves or forgets the session of the turn. Returns notices about that.
    pub(super) async fn save(&self) -> Vec<String> {
        let Self { turn: TurnContext { event, shared, .. }, plan, result } = self;
        let (backend, binding) = (&plan.backend.descriptor().name, &plan.binding);
        let requested = plan.start.native_id.as_deref();
        let mut notices = result.transcript.notices().to_vec();
        let saved = match (&result.ending, &result.session) {
            (Ending::Agent(failure), _) if failure.kind == FailureKind::SessionUnknown => {
                if let Some(lost) = requested {
                    shared.channels.forget_session(&event.lane, backend, lost).await;
                }
                let bindings = &shared.deps.workspace.state.bindings;
                bindings.set_session_if(&event.lane, backend, None, binding.epoch).await
            }
            (_, Some(ready)) if requested != Some(ready.native_id.as_str()) || binding.fork => {
                self.bind(ready).await
            }
            _ => Ok(true),
        };
        if let Err(error) = saved {
            tracing::error!(error = %with_causes(&error), "cannot save the conversation's session; the next prompt starts a new one");
            notices.push(
                "This conversation could not be saved; the next message may start a new one."
                    .to_owned(),
            );
        }
        notices
    }

    async fn bind(&self, ready: &SessionReady) -> Result<bool, BindingsError> {
        let Self { turn: TurnContext { event, shared, .. }, plan, .. } = self;
        let (backend, binding) = (&plan.backend.descriptor().name, &plan.binding);
        let id = SessionId::new(&ready.native_id)?;
        let (lane, channels) = (&event.lane, &shared.channels);
        let elsewhere = channels.non_default_directory(&plan.directory);
        channels.note_directory(lane, backend, binding, elsewhere.as_ref()).await?;
        let title = ready.title.as_deref();
        // The original of a copy stays in the list.
        let requested = plan.start.native_id.as_deref().filter(|_| !binding.fork);
        channels.note_session(event, backend, id.clone(), requested, title, elsewhere).await;
        let bindings = &shared.deps.workspace.state.bindings;
        bindings.set_session_if(lane, backend, Some(id), binding.epoch).await
    }
}
