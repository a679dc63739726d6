//! Prepares the turn of an event: backend, directory, files, session and prompt.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::attachments::FetchedFiles;
use super::recap::recap;
use super::switch::OtherAgents;
use super::{TurnRunner, start};
use crate::channel::DIRECTORY;
use crate::outlet::handle::ReplyHandle;
use crate::outlet::{TurnAnswer, messages};
use crate::persistence::EventProgress;
use aetheel_model::agent::descriptor::Feature;
use aetheel_model::agent::{AllowedTools, PromptPart, Safety, StartTurn};
use aetheel_model::event::Event;
use aetheel_model::prompt::Expansion;
use aetheel_recording::Backend;
use aetheel_store::workspace::Binding;
use aetheel_turn::{ContinuedTurn, Steering, StopReason};

/// The receivers for stopping a turn, and for messages that people write to it.
pub(super) type TurnControls =
    (watch::Receiver<Option<StopReason>>, mpsc::UnboundedReceiver<Steering>);

/// A turn that is ready to start or to be resumed.
pub(super) struct PreparedTurn {
    /// The correlation id of the turn.
    pub(super) id: String,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) start: StartTurn,
    /// Whether nothing may be changed.
    pub(super) planning: bool,
    pub(super) files: FetchedFiles,
    pub(super) binding: Binding,
    /// The running turn, if a previous process started it.
    pub(super) continued: Option<ContinuedTurn>,
}

impl TurnRunner {
    /// Prepares and runs the turn of an event, and creates its answer.
    pub(super) async fn answer(
        &self,
        event: &Event,
        id: &str,
        (stop, steers): TurnControls,
        reply: &Arc<ReplyHandle>,
        kept: &EventProgress,
    ) -> TurnAnswer {
        // The turn was stopped while the hook before it ran.
        let stopped = *stop.borrow();
        if let Some(reason) = stopped {
            let timeout = self.shared.deps.host.limits.query_timeout;
            let failure = messages::failure_message(
                &reason.into(),
                Some(&event.lane),
                timeout,
                None,
                false,
                id,
            );
            return TurnAnswer {
                failure,
                ..TurnAnswer::from_backend(self.shared.deps.choices.backend.clone())
            };
        }
        if let Some(turn) = self.shared.links.continued().take(event.sequence, &event.lane) {
            return self.resume(event, turn, (stop, steers), reply, kept).await;
        }
        let bindings = &self.shared.deps.workspace.state.bindings;
        let (name, lane, refused) = self.shared.channels.resolve_backend(&event.lane).await;
        // The operator may have changed the list since a person chose or an agent handed over.
        let chosen = event.choice.as_ref().and_then(|choice| choice.backend.clone());
        let wanted = event.by_agent.as_ref().and_then(|request| request.backend.clone());
        let wanted = chosen.or(wanted);
        let wanted =
            wanted.filter(|name| self.shared.channels.may_choose(&event.lane, &lane, name));
        let name = wanted.unwrap_or(name);
        let Some(backend) = self.shared.serving(&name, &event.lane) else {
            tracing::error!(backend = name, available = ?self.shared.deps.backends.names(), "backend is not loaded; put its file into BACKENDS_DIR");
            return TurnAnswer::failed(
                name,
                format!("The backend is not available. (backend missing, {id})"),
            );
        };
        let directory = match self.shared.channels.directory_of(&lane).await {
            Ok(directory) => directory,
            Err(error) => {
                tracing::error!(
                    backend = name,
                    fault = %error,
                    "nothing runs here until channels.md is corrected"
                );
                return TurnAnswer::failed(
                    name,
                    format!(
                        "The working directory of this channel cannot be used. (directory, {id})"
                    ),
                );
            }
        };
        let allowed = self.shared.deps.choices.allowed_tools.clone();
        if allowed == AllowedTools::Only(Vec::new())
            && !backend.descriptor().has(Feature::AllowedTools)
        {
            tracing::error!(
                backend = name,
                "this backend cannot enforce ALLOWED_TOOLS=none; nothing runs on it"
            );
            return TurnAnswer::failed(
                name,
                format!(
                    "No tools are allowed here, and this agent's own tools cannot be disabled. (tools, {id})"
                ),
            );
        }
        let binding = bindings.get(&event.lane, &name).await;
        // Agents find a session only in the directory where it was created. Some never return if it
        // does not exist.
        let moved = binding.session.is_some()
            && binding.settings.get(DIRECTORY)
                != self.shared.channels.non_default_directory(&directory).as_ref();
        let session = binding.session.clone().filter(|_| !moved);
        let descriptor = backend.descriptor();
        let taken =
            FetchedFiles::fetch(&self.shared.deps, event, descriptor, &directory, stop.clone())
                .await;
        if taken.all_failed(event) && event.quoted.is_none() && event.prompt.trim().is_empty() {
            let mut answer = TurnAnswer::failed(
                name,
                format!("None of the files could be taken. (files, {id})"),
            );
            answer.notices = taken.notices;
            return answer;
        }
        let expansion = Expansion::new(&descriptor.expands, &directory);
        let (choices, cwd) = (&self.shared.deps.choices, directory.clone());
        let (mut start, planning) = start::start_input(
            &self.shared.channels,
            choices,
            event,
            &*backend,
            &lane,
            cwd,
            session,
        )
        .await;
        if self.shared.links.tool_endpoints().are_unavailable() {
            start.tools.clear();
        }
        start.fork = binding.fork && start.native_id.is_some() && descriptor.has(Feature::Fork);
        start.parts.extend(taken.parts.iter().cloned());
        let anew = binding.moved && start.native_id.is_none();
        if anew && let Some(recap) = recap(&self.shared.deps, event, &expansion).await {
            start.parts.insert(0, PromptPart::Text(recap));
        }
        let (last, is_new) =
            (self.shared.lanes.last_backend(&event.lane), start.native_id.is_none());
        let others = match anew || last.is_some_and(|last| last == name) {
            true => None,
            false => OtherAgents::find(&self.shared.deps, event, &name, is_new, &expansion).await,
        };
        if let Some(others) = &others {
            start.parts.insert(0, PromptPart::Text(others.text.clone()));
        }
        let mut begun = PreparedTurn {
            id: id.to_owned(),
            backend,
            start,
            planning,
            files: taken,
            binding,
            continued: None,
        };
        begun.files.notices.extend(self.shared.channels.fallback_notice(
            &event.lane,
            refused.as_deref(),
            begun.backend.descriptor().label(),
        ));
        let (safety, descriptor) = (begun.start.settings.safety, begun.backend.descriptor());
        if descriptor.own_sandbox && safety != Safety::Danger && !self.shared.deps.host.mounts {
            begun.files.notices.push(messages::own_sandbox_fails(descriptor.label()));
        }
        begun.files.notices.extend(event.by_agent.as_deref().map(messages::by_agent));
        if event.late {
            begun.files.notices.push(messages::LATE_NOTICE.to_owned());
        }
        if anew {
            begun.files.notices.push(messages::MOVED_NOTICE.to_owned());
        }
        begun.files.notices.extend(others.map(|others| others.notice));
        if moved {
            begun
                .files
                .notices
                .push("The working directory has changed; this is a new conversation.".to_owned());
        }
        self.run_prepared(event, begun, &lane, (stop, steers), reply, kept).await
    }
}
