//! Saves the session of a turn, with which the next prompt of the conversation continues.

use std::path::Path;

use super::TurnRunner;
use aetheel_model::agent::{FailureKind, SessionId, SessionReady};
use aetheel_model::event::Event;
use aetheel_model::plain::with_causes;
use aetheel_recording::Ending;
use aetheel_store::workspace::{Binding, BindingsError};
use aetheel_turn::TurnResult;

impl TurnRunner {
    /// Saves or forgets the session of the turn. Returns notices about that.
    pub(super) async fn save_session(
        &self,
        event: &Event,
        backend: &str,
        binding: &Binding,
        requested: Option<&str>,
        result: &TurnResult,
        directory: &Path,
    ) -> Vec<String> {
        let mut notices = result.transcript.notices().to_vec();
        let saved = match (&result.ending, &result.session) {
            (Ending::Agent(failure), _) if failure.kind == FailureKind::SessionUnknown => {
                if let Some(lost) = requested {
                    self.shared.channels.forget_session(&event.lane, backend, lost).await;
                }
                let bindings = &self.shared.deps.workspace.state.bindings;
                bindings.set_session_if(&event.lane, backend, None, binding.epoch).await
            }
            (_, Some(ready)) if requested != Some(ready.native_id.as_str()) || binding.fork => {
                self.bind_session(event, backend, binding, requested, ready, directory).await
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

    async fn bind_session(
        &self,
        event: &Event,
        backend: &str,
        binding: &Binding,
        requested: Option<&str>,
        ready: &SessionReady,
        directory: &Path,
    ) -> Result<bool, BindingsError> {
        let id = SessionId::new(&ready.native_id)?;
        let (lane, elsewhere) =
            (&event.lane, self.shared.channels.non_default_directory(directory));
        self.shared.channels.note_directory(lane, backend, binding, elsewhere.as_ref()).await?;
        let title = ready.title.as_deref();
        // The original of a copy stays in the list.
        let requested = requested.filter(|_| !binding.fork);
        let channels = &self.shared.channels;
        channels.note_session(event, backend, id.clone(), requested, title, elsewhere).await;
        let bindings = &self.shared.deps.workspace.state.bindings;
        bindings.set_session_if(lane, backend, Some(id), binding.epoch).await
    }
}
