//! Processes one event: files, prompt, turn, memory, session and answer.
//!
//! [`attachments`] fetches the files of the prompt into a [`temp_dir`], [`start`] creates the input
//! that starts the turn, [`audience`] shows the running turn without secrets ([`redact_stream`]),
//! and [`artifacts`] stores the agent's files. [`hooks`] run before and after the turn. [`resumed`]
//! resumes a turn whose agent still runs after a restart, and [`session`] saves the session of the
//! turn. [`recap`] gives an agent the previous messages of a channel that moved here, and [`switch`]
//! the turns of other agents. [`renewal`] lets turns continue that a usage limit ended. [`turn_log`]
//! records the finished turn. [`turn_renderer`] renders a recorded turn as people saw it.

mod artifacts;
pub(crate) mod attachments;
pub(crate) mod audience;
mod hooks;
mod recap;
mod redact_stream;
mod renewal;
mod resumed;
mod session;
mod start;
mod switch;
mod temp_dir;
mod turn_log;
pub(crate) mod turn_renderer;
pub(super) mod unsolicited;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tracing::Instrument as _;

use self::attachments::FetchedFiles;
use self::audience::{ToolGate, TurnAudience};
use self::redact_stream::StreamRedactor;
use super::Shared;
use super::channel::DIRECTORY;
use super::lanes::paused::lane_pause;
use super::observers::LiveTurn;
use super::outlet::handle::ReplyHandle;
use super::outlet::limited::LimitedTurn;
use super::outlet::{TurnAnswer, messages};
use super::persistence::{EventProgress, wait_until_saved};
use super::questions::QuestionContext;
use super::questions::planning::Planning;
use super::questions::policies::PolicyGate;
use super::recovery::restart::{TurnFollowUp, follow_up_lost_agent};
use super::turn_feed::TurnFeed;
use aetheel_model::agent::descriptor::Feature;
use aetheel_model::agent::{AllowedTools, PromptPart, Safety, StartTurn};
use aetheel_model::event::{Event, Lane};
use aetheel_model::figures;
use aetheel_model::prompt::Expansion;
use aetheel_store::workspace::{Binding, Hook, LaneSettings, LostTurn, PendingSave};
use aetheel_turn::{
    Backend, ContinuedTurn, Ending, GuestFailure, Steering, StopReason, TurnRequest, TurnResult,
};

/// The receivers for stopping a turn, and for messages that people write to it.
type TurnControls = (watch::Receiver<Option<StopReason>>, mpsc::UnboundedReceiver<Steering>);

/// A turn that is ready to start or to be resumed.
struct PreparedTurn {
    /// The correlation id of the turn.
    id: String,
    backend: Arc<dyn Backend>,
    start: StartTurn,
    /// Whether nothing may be changed.
    planning: bool,
    files: FetchedFiles,
    binding: Binding,
    /// The running turn, if a previous process started it.
    continued: Option<ContinuedTurn>,
}

/// Runs the turns of events and delivers their answers.
pub(crate) struct TurnRunner {
    shared: Arc<Shared>,
}

impl TurnRunner {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Runs the turn of an event and delivers its answer.
    pub(crate) async fn run(
        &self,
        event: Event,
        stop: watch::Receiver<Option<StopReason>>,
        steers: mpsc::UnboundedReceiver<Steering>,
        saving: Option<PendingSave>,
    ) -> TurnFollowUp {
        if let Some(probe) = self.shared.health.take_probe(&event) {
            self.shared.health.complete(probe).await;
            return TurnFollowUp::Nothing;
        }
        let continued = self.shared.links.continued().id(event.sequence, &event.lane);
        let (continues, id) = (continued.is_some(), continued.unwrap_or_else(turn_id));
        let unknown = tracing::field::Empty;
        // The span has the level `error`, so that log lines of every level have its fields.
        let span = tracing::error_span!("turn", turn = id, event = event.sequence, lane = %event.lane, backend = unknown, generation = unknown);
        figures::record_wait(event.kind, event.accepted_ms);
        async {
            if !wait_until_saved(saving).await {
                self.shared.durability.discard_unsaved(&event);
                return TurnFollowUp::Nothing;
            }
            let kept = self.shared.durability.progress_of(&event);
            let (answer, is_lost) = (kept.stored_answer(), LostTurn::of_key(event.key.as_deref()).is_some());
            let needs_agent = answer.is_none() && !is_lost && !continues && stop.borrow().is_none();
            if needs_agent && lane_pause(&self.shared, &event.lane).await.is_some() {
                return TurnFollowUp::Paused;
            }
            let reply = ReplyHandle::new(kept.open_reply(&*self.shared.deps.outlet, &event));
            if let Some(answer) = answer {
                self.note_turn_of_earlier(&event, &answer);
                self.shared.delivery.deliver(&event, &kept, &reply, answer).await;
                return TurnFollowUp::Nothing;
            }
            if is_lost {
                // An agent never runs for such an event.
                tracing::error!("the saved answer of a recovered turn cannot be read; `aetheel recover` creates it again");
                self.shared.durability.mark_finished(&event);
                return TurnFollowUp::Nothing;
            }
            self.shared.lost_replies.supersede(&event, &kept).await;
            if !continues {
                kept.record_start(&stop).await;
            }
            // Recorded before any work in the thread: after a restart, the dispatcher knows the
            // channel of the thread only from here.
            if let (Lane::Channel(channel), Some(parent)) = (&event.lane, event.parent) {
                self.shared.channels.parents.learn(*channel, parent);
            }
            let hooks = self.shared.deps.workspace.hooks().await;
            if !continues {
                self.begin_hook(&hooks, &event, &stop).await;
            }
            let answer = self.answer(&event, &id, (stop.clone(), steers), &reply, &kept).await.cleaned(&self.shared.deps.redactor);
            let mut answer = answer.with_line(&event, &id, stop.borrow().is_some());
            let stopped = answer.failure.is_some() && *stop.borrow() == Some(StopReason::Shutdown);
            if let Some(next) = stopped.then(|| kept.leave_to_next_start()).flatten() {
                kept.release_turn_place();
                self.note_turn(&event, &answer);
                self.shared.delivery.announce_restart(&reply, answer, &id, next).await;
                return TurnFollowUp::Nothing;
            }
            if answer.agent_lost
                && answer.failure.is_some()
                && stop.borrow().is_none()
                && let Some(left) = follow_up_lost_agent(&self.shared.durability, &event)
            {
                kept.release_turn_place();
                self.note_turn(&event, &answer);
                return left;
            }
            if answer.paused && stop.borrow().is_none() {
                let _ = kept.leave_to_next_start(); // the next start begins it, too
                kept.release_turn_place();
                return TurnFollowUp::Paused;
            }
            if stop.borrow().is_none()
                && self.wait_for_renewal(&event, &id, &mut answer, &kept).await
            {
                kept.release_turn_place();
                self.note_turn(&event, &answer);
                return TurnFollowUp::Paused;
            }
            let failed = answer.failure.is_some();
            if !failed {
                self.shared.limits.forget(&event.lane).await;
            }
            let saved = kept.record_answer(&answer, &stop).await;
            kept.release_turn_place();
            if !saved {
                return TurnFollowUp::Nothing;
            }
            self.note_turn(&event, &answer);
            self.shared.lanes.note_backend(&event.lane, answer.turn.as_deref());
            for received in self.shared.lanes.take_received(&event) {
                self.shared.durability.mark_finished(&received);
            }
            if hooks.of(Hook::AgentStop).is_none() {
                // People have the answer, so there is nothing to stop.
                self.shared.lanes.running.lock().remove(&event.lane);
            }
            self.shared.delivery.deliver(&event, &kept, &reply, answer).await;
            // People have their answer, but the lane is occupied until the hook has ended.
            self.stop_hook(&hooks, &event, &stop, failed).await;
            TurnFollowUp::Nothing
        }
        .instrument(span)
        .await
    }

    async fn answer(
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
            let timeout = self.shared.deps.host.query_timeout;
            let failure = messages::failure_message(&reason.into(), timeout, None, false, id);
            return TurnAnswer {
                failure,
                ..TurnAnswer::from_backend(self.shared.deps.choices.backend.clone())
            };
        }
        if let Some(turn) = self.shared.links.continued().take(event.sequence, &event.lane) {
            return self.resume(event, turn, (stop, steers), reply, kept).await;
        }
        let bindings = self.shared.deps.workspace.bindings();
        let (name, lane, refused) = self.shared.channels.resolve_backend(&event.lane).await;
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
        if anew && let Some(recap) = self.recap(event, &expansion).await {
            start.parts.insert(0, PromptPart::Text(recap));
        }
        let others = match anew {
            true => None,
            false => self.other_agents(event, &name, start.native_id.is_none(), &expansion).await,
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

    /// Runs a prepared turn to its end, and creates its answer.
    async fn run_prepared(
        &self,
        event: &Event,
        begun: PreparedTurn,
        lane: &LaneSettings,
        (stop, steers): TurnControls,
        reply: &Arc<ReplyHandle>,
        kept: &EventProgress,
    ) -> TurnAnswer {
        let PreparedTurn { id, backend, start, planning, files: taken, binding, continued } = begun;
        let planning = Planning::new(planning);
        let by = Arc::clone(&backend);
        let (name, directory) = (backend.descriptor().name.clone(), PathBuf::from(&start.cwd));
        let asked_model = start.settings.model.clone();
        let requested = start.native_id.clone();
        let (label, generation) =
            (backend.descriptor().label().to_owned(), backend.generation().clone());
        tracing::Span::current()
            .record("backend", &name)
            .record("generation", tracing::field::display(&generation));
        tracing::info!(resume = requested.is_some(), "turn begins");
        let shown = Arc::new(LiveTurn::new(self.shared.lanes.turn_changes.clone()));
        let expansion = Expansion::new(&backend.descriptor().expands, &directory);
        self.shared.lanes.set_backend(&event.lane, (&id, &backend, &expansion), reply, &shown);
        let feed = TurnFeed::of(&self.shared.deps, event, &id, &name);
        feed.begun(event, lane, &*backend, &start, continued.is_some());
        let context = QuestionContext {
            turn: id.to_owned(),
            lane: event.lane.clone(),
            span: tracing::Span::current(),
            asker: event.asker,
            expansion: expansion.clone(),
            planning: planning.clone(),
            feed: feed.clone(),
        };
        let policies = PolicyGate::of(&self.shared.deps, event, lane, &name, &start);
        let request = TurnRequest {
            id: id.clone(),
            event: event.sequence,
            lane: event.lane.clone(),
            backend,
            start,
            blobs: taken.blobs.clone(),
            stop,
            steers,
            continued,
        };
        let mut audience = TurnAudience {
            stream: StreamRedactor::new(&self.shared.deps.redactor),
            shown,
            reply: reply.clone(),
            questions: self.shared.questions.clone(),
            context,
            asked: HashMap::new(),
            times: HashMap::new(),
            kept: kept.clone(),
            first_tool: None,
            tools: ToolGate::new(&self.shared.deps.choices.allowed_tools, &by),
            policies: policies.clone(),
            files: self.shared.collisions.turn_files(event, &directory),
        };
        let mut result = aetheel_turn::run(request, &self.shared.links, &mut audience).await;
        kept.hold_turn_place(std::mem::take(&mut result.slot));
        audience.flush();
        drop(audience);
        let mut notices = taken.notices.clone();
        drop(taken);
        self.report(&name, &result);
        feed.ended(&result, messages::failure_detail(&result.ending).as_deref());
        let offer = self
            .shared
            .lost_replies
            .keep_unread(event, &id, &name, (&binding, requested.as_deref()), &result)
            .await;
        self.shared.rollout.on_turn_end(&name, &id, &result);
        notices.extend(planning.notice(&self.shared.deps.redactor));
        notices.extend(policies.notice());
        notices.extend(
            self.save_session(event, &name, &binding, requested.as_deref(), &result, &directory)
                .await,
        );
        if binding.unreadable {
            notices.push(
                "The saved state of this conversation could not be read; this is a new one."
                    .to_owned(),
            );
        }
        let (files, left) = artifacts::store_artifacts(&self.shared.deps, &result.transcript).await;
        notices.extend(left);
        notices.extend(artifacts::notices(&result.transcript));
        let (text, notices) = self
            .shared
            .channels
            .remember(&event.lane, on_behalf(event).as_deref(), result.text.clone(), notices)
            .await;
        let limit =
            LimitedTurn::of(&result, by.descriptor(), asked_model.clone(), requested.is_some());
        let recordings = self.shared.deps.recorder.folder();
        let line = turn_log::line_of(event, &id, by.descriptor(), recordings, &result);
        TurnAnswer {
            failure: messages::failure_message(
                &result.ending,
                self.shared.deps.host.query_timeout,
                result.transcript.retry(),
                offer.is_some(),
                &id,
            ),
            detail: messages::failure_detail(&result.ending),
            agent_lost: result.orphaned,
            paused: matches!(result.ending, Ending::Backend(GuestFailure::Paused(_))),
            limit,
            text,
            notices,
            backend: label,
            model: result.session.and_then(|session| session.model).or(asked_model),
            usage: result.usage,
            took: result.took,
            files,
            offer,
            ping: event.asker.filter(|_| lane.ping.is_some_and(|after| result.took >= after)),
            turn: Some(line),
        }
    }

    /// Logs and counts the result of a turn, and reports it to the drift monitor.
    fn report(&self, backend: &str, result: &TurnResult) {
        let took_ms = u64::try_from(result.took.as_millis()).unwrap_or(u64::MAX);
        let (ending, recording) = (result.ending.word(), &result.link);
        match messages::failure_detail(&result.ending) {
            None => tracing::info!(recording, ending, took_ms, "turn ended"),
            Some(detail) => {
                let confined = self.shared.deps.host.reach_policy.is_some();
                let hint = messages::sandbox_hint(&result.ending).filter(|_| confined);
                tracing::warn!(recording, ending, took_ms, detail, hint, "turn failed");
            }
        }
        figures::turn_ended(backend, ending, result.took);
        for (what, count) in result.transcript.unrecognised() {
            tracing::debug!(
                what,
                count,
                "the agent sent output that this backend does not recognise; a newer backend may"
            );
        }
        let is_partial = self.shared.rollout.is_partial(backend, &result.generation);
        self.shared.drift.on_turn_end(backend, result, is_partial);
    }
}

/// Returns the name and id of the event's author, in the form used in the agent's memory.
fn on_behalf(event: &Event) -> Option<String> {
    let name = event.author.as_deref()?;
    Some(event.asker.map_or_else(|| name.to_owned(), |id| format!("{name}, {id}")))
}

/// Returns a random id of eight characters, which is enough to find a turn in months of logs.
fn turn_id() -> String {
    uuid::Uuid::new_v4().simple().to_string().chars().take(8).collect()
}
