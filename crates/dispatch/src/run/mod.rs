//! Processes one event: files, prompt, turn, memory, session and answer.
//!
//! [`attachments`] fetches the files of the prompt into a [`temp_dir`], [`start`] creates the input
//! that starts the turn, [`audience`] shows the running turn without secrets ([`redact_stream`]),
//! and [`artifacts`] stores the agent's files. [`hooks`] run before and after the turn, and
//! [`thread`] opens a thread before it. [`continued`] resumes a turn whose agent still runs after a
//! restart, and [`recap`] gives an agent the previous messages of a channel that moved here.
//! [`looking_back`] records the finished turn. [`retelling`] renders a recorded turn as people saw
//! it.

mod artifacts;
pub(crate) mod attachments;
mod audience;
mod continued;
mod hooks;
mod looking_back;
mod recap;
mod redact_stream;
pub(crate) mod retelling;
mod start;
mod temp_dir;
mod thread;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tracing::Instrument as _;

use self::attachments::Taken;
use self::audience::{ToolGate, TurnAudience};
use self::redact_stream::StreamRedactor;
use super::Inner;
use super::channel::DIRECTORY;
use super::durability::{Kept, safe};
use super::outlet::handle::ReplyHandle;
use super::outlet::{Answer, messages};
use super::questions::Context;
use super::questions::planning::Planning;
use super::recovery::restart::Left;
use super::watching::LiveTurn;
use aetheel_model::agent::descriptor::Feature;
use aetheel_model::agent::{AllowedTools, FailureKind, Part, Safety, SessionReady, StartTurn};
use aetheel_model::event::{Event, EventKind, Lane, NewEvent, Origin};
use aetheel_model::figures;
use aetheel_model::prompt::Expansion;
use aetheel_store::workspace::{Binding, BindingsError, Hook, LostTurn, Saving, SessionId};
use aetheel_turn::{
    Backend, ContinuedTurn, Ending, GuestFailure, Steering, StopReason, TurnRequest, TurnResult,
    Unasked,
};

/// The receivers for stopping a turn, and for messages that people write to it.
type Control = (watch::Receiver<Option<StopReason>>, mpsc::UnboundedReceiver<Steering>);

/// A turn that is ready to start or to be resumed.
struct Begun {
    /// The correlation id of the turn.
    id: String,
    backend: Arc<dyn Backend>,
    start: StartTurn,
    /// Whether nothing may be changed.
    planning: bool,
    taken: Taken,
    binding: Binding,
    /// The turn's place on a link, if a previous process started it.
    continued: Option<ContinuedTurn>,
}

impl Inner {
    /// Runs the turn of an event and delivers its answer.
    pub(crate) async fn see_through(
        self: &Arc<Self>,
        event: Event,
        stop: watch::Receiver<Option<StopReason>>,
        steers: mpsc::UnboundedReceiver<Steering>,
        saving: Option<Saving>,
    ) -> Left {
        if let Some(probe) = self.health.probe_of(&event) {
            self.health.complete(probe).await;
            return Left::Nothing;
        }
        let continued = self.links.continued_id(event.sequence, &event.lane);
        let (continues, id) = (continued.is_some(), continued.unwrap_or_else(turn_id));
        let unknown = tracing::field::Empty;
        // At the level `error`, so that lines of every level have its fields.
        let span = tracing::error_span!("turn", turn = id, event = event.sequence, lane = %event.lane, backend = unknown, generation = unknown);
        figures::waited(event.kind, event.accepted_ms);
        async {
            if !safe(saving).await {
                self.durability.not_saved(&event);
                return Left::Nothing;
            }
            let kept = self.durability.kept(&event);
            let (answer, is_lost) = (kept.answer(), LostTurn::of_key(event.key.as_deref()).is_some());
            let needs_agent = answer.is_none() && !is_lost && !continues && stop.borrow().is_none();
            if needs_agent && self.paused_backend(&event.lane).await.is_some() {
                return Left::Paused;
            }
            let reply = ReplyHandle::new(kept.open(&*self.parts.outlet, &event));
            if let Some(answer) = answer {
                self.note_turn_of_earlier(&event, &answer);
                self.delivery.deliver(&event, &kept, &reply, answer).await;
                return Left::Nothing;
            }
            if is_lost {
                // An agent never runs for such an event.
                tracing::error!("the saved answer of a recovered turn cannot be read; `aetheel recover` creates it again");
                self.durability.check_off(&event);
                return Left::Nothing;
            }
            self.lost.supersede(&event, &kept).await;
            if !continues {
                kept.started(&stop).await;
            }
            // Before any work in the thread: after a restart, this is the only record of its
            // channel.
            if let (Lane::Channel(channel), Some(parent)) = (&event.lane, event.parent) {
                self.channels.learn(*channel, parent);
            }
            let hooks = self.parts.workspace.hooks().await;
            if !continues {
                self.begin_hook(&hooks, &event, &stop).await;
            }
            let answer = self.answer(&event, &id, (stop.clone(), steers), &reply, &kept).await.cleaned(&self.parts.redactor);
            let answer = answer.with_line(&event, &id, stop.borrow().is_some());
            let stopped = answer.failure.is_some() && *stop.borrow() == Some(StopReason::Shutdown);
            if let Some(next) = stopped.then(|| kept.wait_for_next_life()).flatten() {
                kept.let_go();
                self.note_turn(&event, &answer);
                self.delivery.put_off(&reply, answer, &id, next).await;
                return Left::Nothing;
            }
            if answer.orphaned
                && answer.failure.is_some()
                && stop.borrow().is_none()
                && let Some(left) = self.orphaned(&event)
            {
                kept.let_go();
                self.note_turn(&event, &answer);
                return left;
            }
            if answer.paused && stop.borrow().is_none() {
                let _ = kept.wait_for_next_life(); // the next start begins it, too
                kept.let_go();
                return Left::Paused;
            }
            let failed = answer.failure.is_some();
            let saved = kept.answered(&answer, &stop).await;
            kept.let_go();
            if !saved {
                return Left::Nothing;
            }
            self.note_turn(&event, &answer);
            for received in self.lanes.take_received(&event) {
                self.durability.check_off(&received);
            }
            if hooks.of(Hook::AgentStop).is_none() {
                // People have the answer, so there is nothing to stop.
                self.lanes.running.lock().remove(&event.lane);
            }
            self.delivery.deliver(&event, &kept, &reply, answer).await;
            // People have their answer, but the lane is occupied until the hook has ended.
            self.stop_hook(&hooks, &event, &stop, failed).await;
            Left::Nothing
        }
        .instrument(span)
        .await
    }

    async fn answer(
        &self,
        event: &Event,
        id: &str,
        (stop, steers): Control,
        reply: &Arc<ReplyHandle>,
        kept: &Kept,
    ) -> Answer {
        // The turn was stopped while the hook before it ran.
        let stopped = *stop.borrow();
        if let Some(reason) = stopped {
            let timeout = self.parts.host.query_timeout;
            let failure = messages::failure(&reason.into(), timeout, None, false, id);
            return Answer { failure, ..Answer::by(self.parts.choices.backend.clone()) };
        }
        if let Some(turn) = self.links.take_continued(event.sequence, &event.lane) {
            return self.go_on(event, turn, (stop, steers), reply, kept).await;
        }
        let bindings = self.parts.workspace.bindings();
        let (name, lane, refused) = self.channels.answering(&event.lane).await;
        let Some(backend) = self.parts.backends.get(&name) else {
            tracing::error!(backend = name, available = ?self.parts.backends.names(), "backend is not loaded; put its component into BACKENDS_DIR");
            return Answer::failed(
                name,
                format!("The backend is not available. (backend missing, {id})"),
            );
        };
        let directory = match self.channels.directory_of(&lane).await {
            Ok(directory) => directory,
            Err(fault) => {
                tracing::error!(
                    backend = name,
                    fault,
                    "nothing runs here until channels.md is corrected"
                );
                return Answer::failed(
                    name,
                    format!(
                        "The working directory of this channel cannot be used. (directory, {id})"
                    ),
                );
            }
        };
        let allowed = self.parts.choices.allowed_tools.clone();
        if allowed == AllowedTools::Only(Vec::new())
            && !backend.descriptor().has(Feature::AllowedTools)
        {
            tracing::error!(
                backend = name,
                "this backend cannot enforce ALLOWED_TOOLS=none; nothing runs on it"
            );
            return Answer::failed(
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
            && binding.settings.get(DIRECTORY) != self.channels.elsewhere(&directory).as_ref();
        let session = binding.session.clone().filter(|_| !moved);
        let descriptor = backend.descriptor();
        let taken = Taken::fetch(&self.parts, event, descriptor, &directory, stop.clone()).await;
        if taken.is_nothing(event) && event.quoted.is_none() && event.prompt.trim().is_empty() {
            let mut answer =
                Answer::failed(name, format!("None of the files could be taken. (files, {id})"));
            answer.notices = taken.notices;
            return answer;
        }
        let expansion = Expansion::new(&descriptor.expands, &directory);
        let (choices, cwd) = (&self.parts.choices, directory.clone());
        let (mut start, planning) =
            start::start(&self.channels, choices, event, &*backend, &lane, cwd, session).await;
        start.parts.extend(taken.parts.iter().cloned());
        let anew = binding.moved && start.native_id.is_none();
        if anew && let Some(recap) = self.recap(event, &expansion).await {
            start.parts.insert(0, Part::Text(recap));
        }
        let mut begun =
            Begun { id: id.to_owned(), backend, start, planning, taken, binding, continued: None };
        begun.taken.notices.extend(self.channels.fallen_back(
            &event.lane,
            refused.as_deref(),
            begun.backend.descriptor().label(),
        ));
        let safety = begun.start.settings.safety;
        if begun.backend.descriptor().own_sandbox
            && safety != Safety::Danger
            && !self.parts.host.mounts
        {
            let label = begun.backend.descriptor().label();
            begun.taken.notices.push(messages::own_sandbox_fails(label));
        }
        if event.late {
            begun.taken.notices.push(messages::LATE.to_owned());
        }
        if anew {
            begun.taken.notices.push(messages::MOVED.to_owned());
        }
        if moved {
            begun
                .taken
                .notices
                .push("The working directory has changed; this is a new conversation.".to_owned());
        }
        self.conclude(event, begun, lane.ping, (stop, steers), reply, kept).await
    }

    /// Runs a prepared turn to its end, and creates its answer.
    async fn conclude(
        &self,
        event: &Event,
        begun: Begun,
        ping: Option<Duration>,
        (stop, steers): Control,
        reply: &Arc<ReplyHandle>,
        kept: &Kept,
    ) -> Answer {
        let Begun { id, backend, start, planning, taken, binding, continued } = begun;
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
        let shown = Arc::new(LiveTurn::new(self.lanes.growth.clone()));
        let expansion = Expansion::new(&backend.descriptor().expands, &directory);
        self.lanes.answered_by(&event.lane, (&id, &backend, &expansion), reply, &shown);
        let context = Context {
            turn: id.to_owned(),
            lane: event.lane.clone(),
            span: tracing::Span::current(),
            asker: event.asker,
            expansion: expansion.clone(),
            planning: planning.clone(),
        };
        let tools = ToolGate {
            allowed: self.parts.choices.allowed_tools.clone(),
            backend: backend.clone(),
        };
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
            stream: StreamRedactor::new(&self.parts.redactor),
            shown,
            reply: reply.clone(),
            questions: self.questions.clone(),
            context,
            asked: HashMap::new(),
            times: HashMap::new(),
            kept: kept.clone(),
            first_tool: None,
            tools,
        };
        let mut result = aetheel_turn::run(request, &self.links, &mut audience).await;
        kept.hold(std::mem::take(&mut result.place));
        audience.flush();
        drop(audience);
        let mut notices = taken.notices.clone();
        drop(taken);
        self.report(&name, &result);
        let offer =
            self.lost.lose(event, &id, &name, (&binding, requested.as_deref()), &result).await;
        notices.extend(planning.notice(&self.parts.redactor));
        notices.extend(
            self.keep(event, &name, &binding, requested.as_deref(), &result, &directory).await,
        );
        if binding.unreadable {
            notices.push(
                "The saved state of this conversation could not be read; this is a new one."
                    .to_owned(),
            );
        }
        let (files, left) = artifacts::keep(&self.parts, &result.transcript).await;
        notices.extend(left);
        notices.extend(artifacts::notices(&result.transcript));
        let (text, notices) = self
            .channels
            .remember(&event.lane, on_behalf(event).as_deref(), result.text.clone(), notices)
            .await;
        let recordings = self.parts.recorder.folder();
        let line = looking_back::line_of(event, &id, by.descriptor(), recordings, &result);
        Answer {
            failure: messages::failure(
                &result.ending,
                self.parts.host.query_timeout,
                result.transcript.retry(),
                offer.is_some(),
                &id,
            ),
            detail: messages::detail(&result.ending),
            orphaned: result.orphaned,
            paused: matches!(result.ending, Ending::Backend(GuestFailure::Paused(_))),
            text,
            notices,
            backend: label,
            model: result.session.and_then(|session| session.model).or(asked_model),
            usage: result.usage,
            took: result.took,
            files,
            offer,
            ping: event.asker.filter(|_| ping.is_some_and(|after| result.took >= after)),
            turn: Some(line),
        }
    }

    /// Logs and counts the result of a turn, and reports it to the drift monitor.
    fn report(&self, backend: &str, result: &TurnResult) {
        let took_ms = u64::try_from(result.took.as_millis()).unwrap_or(u64::MAX);
        let (ending, recording) = (result.ending.word(), &result.link);
        match messages::detail(&result.ending) {
            None => tracing::info!(recording, ending, took_ms, "turn ended"),
            Some(detail) => {
                let confined = self.parts.host.fence.is_some();
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
        self.drift.on_turn_end(backend, result);
    }

    /// Saves or forgets the session of the turn. Returns notices about that.
    async fn keep(
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
                    self.channels.forget_session(&event.lane, backend, lost).await;
                }
                let bindings = self.parts.workspace.bindings();
                bindings.set_session_if(&event.lane, backend, None, binding.epoch).await
            }
            (_, Some(ready)) if requested != Some(ready.native_id.as_str()) => {
                self.keep_session(event, backend, binding, requested, ready, directory).await
            }
            _ => Ok(true),
        };
        if let Err(error) = saved {
            tracing::error!(%error, "cannot save the conversation's session; the next prompt starts a new one");
            notices.push(
                "This conversation could not be saved; the next message may start a new one."
                    .to_owned(),
            );
        }
        notices
    }

    async fn keep_session(
        &self,
        event: &Event,
        backend: &str,
        binding: &Binding,
        requested: Option<&str>,
        ready: &SessionReady,
        directory: &Path,
    ) -> Result<bool, BindingsError> {
        let id = SessionId::new(&ready.native_id)?;
        let (lane, elsewhere) = (&event.lane, self.channels.elsewhere(directory));
        self.channels.note_directory(lane, backend, binding, elsewhere.as_ref()).await?;
        let past = (ready.title.as_deref(), elsewhere);
        self.channels.note_session(event, backend, id.clone(), requested, past).await;
        let bindings = self.parts.workspace.bindings();
        bindings.set_session_if(lane, backend, Some(id), binding.epoch).await
    }
}

/// Returns the name and id of the event's author, as notes in the memory have it.
fn on_behalf(event: &Event) -> Option<String> {
    let name = event.author.as_deref()?;
    Some(event.asker.map_or_else(|| name.to_owned(), |id| format!("{name}, {id}")))
}

/// Delivers texts that agents send outside of turns, until the dispatcher is dropped.
pub(super) async fn deliver_unasked(
    inner: Weak<Inner>,
    mut unasked: mpsc::UnboundedReceiver<Unasked>,
) {
    while let Some(Unasked { lane, backend, text, usage }) = unasked.recv().await {
        let Some(inner) = inner.upgrade() else { return };
        let now_ms = jiff::Timestamp::now().as_millisecond();
        let event = NewEvent::new(EventKind::Hook, lane, Origin::Internal { channel: None }, "")
            .accepted(0, now_ms);
        let (text, notices) = inner.channels.remember(&event.lane, None, text, Vec::new()).await;
        let answer = Answer { text, notices, usage, ..Answer::by(backend) };
        let (reply, answer) =
            (inner.parts.outlet.open(&event), answer.cleaned(&inner.parts.redactor));
        inner.delivery.send(reply, answer, "a text that the agent sent outside of a turn").await;
    }
}

/// Returns a random id of eight characters, which is enough to find a turn in months of logs.
fn turn_id() -> String {
    let mut id = uuid::Uuid::new_v4().simple().to_string();
    id.truncate(8);
    id
}
