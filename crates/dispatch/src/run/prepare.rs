//! Prepares the turn of an event: backend, directory, files, session and prompt.

use std::path::PathBuf;
use std::sync::Arc;

use super::EventTurn;
use super::start::start_input;
use crate::attachments::FetchedFiles;
use crate::channel::DIRECTORY;
use crate::outlet::{TurnAnswer, messages};
use crate::part::{TurnContext, TurnRefusal};
use crate::plan::TurnPlan;
use aetheel_model::agent::Safety;
use aetheel_model::agent::descriptor::Feature;
use aetheel_recording::Backend;
use aetheel_store::workspace::LaneSettings;
use aetheel_turn::StopReason;

/// The backend of a turn.
struct ChosenBackend {
    backend: Arc<dyn Backend>,
    lane: LaneSettings,
    /// The backend that people chose, if the operator does not allow it any more.
    refused: Option<String>,
}

impl EventTurn {
    /// Prepares the turn.
    ///
    /// # Errors
    /// The answer of a turn that cannot begin.
    pub(super) async fn prepare(&mut self) -> Result<TurnPlan, TurnAnswer> {
        let turn = self.turn.clone();
        // The turn may be stopped while the hook before it runs.
        if let Some(reason) = turn.stopped() {
            return Err(stopped(&turn, reason));
        }
        let continued = turn.shared.links.continued().take(turn.event.sequence, &turn.event.lane);
        if let Some(continued) = continued {
            return self.resume(continued).await;
        }
        let mut plan = new_plan(&turn).await?;
        for part in &mut self.parts {
            if let Err(TurnRefusal(failure)) = part.prepare(&mut plan).await {
                let name = plan.backend.descriptor().name.clone();
                return Err(TurnAnswer::failed(name, failure));
            }
        }
        Ok(plan)
    }
}

/// Returns the answer of a turn that was stopped before its agent began.
fn stopped(turn: &TurnContext, reason: StopReason) -> TurnAnswer {
    let (deps, lane) = (&turn.shared.deps, Some(&turn.event.lane));
    let timeout = deps.host.limits.query_timeout;
    let failure = messages::failure_message(&reason.into(), lane, timeout, None, false, &turn.id);
    TurnAnswer { failure, ..TurnAnswer::from_backend(deps.choices.backend.clone()) }
}

/// Returns the backend that a person or an agent chose for the event, or else that of the lane.
async fn choose_backend(turn: &TurnContext) -> Result<ChosenBackend, TurnAnswer> {
    let TurnContext { event, shared, .. } = turn;
    let (name, lane, refused) = shared.channels.resolve_backend(&event.lane).await;
    // The operator may have changed the list since a person chose or an agent handed over.
    let chosen = event.choice.as_ref().and_then(|choice| choice.backend.clone());
    let wanted = event.by_agent.as_ref().and_then(|request| request.backend.clone());
    let wanted = chosen.or(wanted);
    let wanted = wanted.filter(|name| shared.channels.may_choose(&event.lane, &lane, name));
    let name = wanted.unwrap_or(name);
    let Some(backend) = shared.serving(&name, &event.lane) else {
        tracing::error!(backend = name, available = ?shared.deps.backends.names(), "backend is not loaded; put its file into BACKENDS_DIR");
        let failure = format!("The backend is not available. (backend missing, {})", turn.id);
        return Err(TurnAnswer::failed(name, failure));
    };
    Ok(ChosenBackend { backend, lane, refused })
}

async fn directory(turn: &TurnContext, chosen: &ChosenBackend) -> Result<PathBuf, TurnAnswer> {
    let found = turn.shared.channels.directory_of(&chosen.lane).await;
    found.map_err(|error| {
        let backend = &chosen.backend.descriptor().name;
        tracing::error!(
            backend,
            fault = %error,
            "nothing runs here until channels.md is corrected"
        );
        let failure = format!(
            "The working directory of this channel cannot be used. (directory, {})",
            turn.id
        );
        TurnAnswer::failed(backend.clone(), failure)
    })
}

/// Returns the plan of a new turn, before parts change it.
async fn new_plan(turn: &TurnContext) -> Result<TurnPlan, TurnAnswer> {
    let TurnContext { event, shared, .. } = turn;
    let chosen = choose_backend(turn).await?;
    let directory = directory(turn, &chosen).await?;
    let ChosenBackend { backend, lane, refused } = chosen;
    let descriptor = backend.descriptor();
    let binding = shared.deps.workspace.state.bindings.get(&event.lane, &descriptor.name).await;
    // Agents find a session only in the directory where it was created. Some never return if it
    // does not exist.
    let has_moved = binding.session.is_some()
        && binding.settings.get(DIRECTORY)
            != shared.channels.non_default_directory(&directory).as_ref();
    let session = binding.session.clone().filter(|_| !has_moved);
    let stop = turn.stop.clone();
    let mut files = FetchedFiles::fetch(&shared.deps, event, descriptor, &directory, stop).await;
    let all_failed = files.all_failed(event);
    let mut notices = std::mem::take(&mut files.notices);
    if all_failed && event.quoted.is_none() && event.prompt.trim().is_empty() {
        let failure = format!("None of the files could be taken. (files, {})", turn.id);
        let answer = TurnAnswer::failed(descriptor.name.clone(), failure);
        return Err(TurnAnswer { notices, ..answer });
    }
    let (choices, channels) = (&shared.deps.choices, &shared.channels);
    let input = start_input(channels, choices, event, &*backend, &lane, directory.clone(), session);
    let (mut start, planning) = input.await;
    start.fork = binding.fork && start.native_id.is_some() && descriptor.has(Feature::Fork);
    start.parts.extend(files.parts.iter().cloned());
    let label = descriptor.label();
    notices.extend(channels.fallback_notice(&event.lane, refused.as_deref(), label));
    let is_confined = start.settings.safety != Safety::Danger;
    let lacks_mounts = descriptor.own_sandbox && is_confined && !shared.deps.host.mounts;
    notices.extend(lacks_mounts.then(|| messages::own_sandbox_fails(label)));
    notices.extend(event.by_agent.as_deref().map(messages::by_agent));
    notices.extend(event.late.then(|| messages::LATE_NOTICE.to_owned()));
    if has_moved {
        notices.push("The working directory has changed; this is a new conversation.".to_owned());
    }
    let continued = None;
    Ok(TurnPlan { backend, start, lane, directory, notices, planning, files, binding, continued })
}
