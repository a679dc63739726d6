//! Seeing one event through: files, prompt, turn, memory, binding, answer.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use tokio::sync::{mpsc, watch};
use tracing::Instrument as _;

use super::keeping::{Kept, safe};
use super::planning::Planning;
use super::questions::Context;
use super::stage::{Follower, Gate, Stage};
use super::veil::Veil;
use super::{Answer, Inner, wording};
use crate::agent::descriptor::Feature;
use crate::agent::{AllowedTools, FailureKind};
use crate::event::{Event, EventKind, Lane, NewEvent, Origin};
use crate::figures;
use crate::prompt;
use crate::turn::{Ending, Steering, StopReason, TurnRequest, TurnResult, Unasked};
use crate::workspace::{
    Binding, Hook, LaneSettings, LostTurn, Place, Saving, SessionId, memory_place, noted,
};

/// The setting beside a session that says where it was made.
pub(super) const DIRECTORY: &str = "directory";

impl Inner {
    /// Runs the event's turn and delivers its answer.
    pub(super) async fn see_through(
        self: &Arc<Self>,
        event: Event,
        stop: watch::Receiver<Option<StopReason>>,
        steers: mpsc::UnboundedReceiver<Steering>,
        saving: Option<Saving>,
    ) {
        if let Some(pulse) = self.pulse_of(&event) {
            return self.come_through(pulse).await;
        }
        let id = turn_id();
        let unknown = tracing::field::Empty;
        // Of the highest level: lines of every level are to carry its ids.
        let span = tracing::error_span!("turn", turn = id, event = event.sequence, lane = %event.lane, backend = unknown, generation = unknown);
        figures::waited(event.kind, event.accepted_ms);
        async {
            if !safe(saving).await {
                return self.not_saved(&event);
            }
            let kept = self.kept(&event);
            let stage = Stage::new(kept.open(&*self.parts.outlet, &event));
            if let Some(answer) = kept.answer() {
                return self.deliver(&event, &kept, &stage, answer).await;
            }
            if LostTurn::of_key(event.key.as_deref()).is_some() {
                // No agent is ever asked for it.
                tracing::error!("the kept answer of a recovered turn cannot be read; `aetheel recover` makes it anew");
                self.check_off(&event);
                return;
            }
            self.outdo(&event, &kept).await;
            kept.started();
            // Before anything is done in the thread: after a restart nobody else says where it
            // belongs.
            if let (Lane::Channel(channel), Some(parent)) = (&event.lane, event.parent) {
                self.learn(*channel, parent);
            }
            let hooks = self.parts.workspace.hooks().await;
            self.begin_hook(&hooks, &event, &stop).await;
            let answer = self.answer(&event, &id, (stop.clone(), steers), &stage, &kept).await.cleaned(&self.parts.redactor);
            let stopped = answer.failure.is_some() && *stop.borrow() == Some(StopReason::Shutdown);
            if let Some(next) = stopped.then(|| kept.wait_for_next_life()).flatten() {
                return self.put_off(&stage, answer, &id, next).await;
            }
            let failed = answer.failure.is_some();
            kept.answered(&answer).await;
            self.heard_out(&event);
            if hooks.of(Hook::AgentStop).is_none() {
                // Who has the answer has nothing to stop.
                self.running.lock().remove(&event.lane);
            }
            self.deliver(&event, &kept, &stage, answer).await;
            // People have their answer; the lane is held until the hook has ended too.
            self.stop_hook(&hooks, &event, &stop, failed).await;
        }
        .instrument(span)
        .await;
    }

    async fn answer(
        &self,
        event: &Event,
        id: &str,
        (stop, steers): (watch::Receiver<Option<StopReason>>, mpsc::UnboundedReceiver<Steering>),
        stage: &Arc<Stage>,
        kept: &Kept,
    ) -> Answer {
        // Stopped while the hook before the turn ran.
        let stopped = *stop.borrow();
        if let Some(reason) = stopped {
            let failure = wording::failure(&reason.into(), self.parts.host.query_timeout, None, id);
            return Answer { failure, ..plain_answer(self.parts.choices.backend.clone()) };
        }
        let bindings = self.parts.workspace.bindings();
        let (name, lane, refused) = self.answering(&event.lane).await;
        let Some(backend) = self.parts.backends.get(&name) else {
            tracing::error!(backend = name, available = ?self.parts.backends.names(), "backend is not loaded; put its component into BACKENDS_DIR");
            return plain_failure(
                name,
                format!("The backend is not available. (backend missing, {id})"),
            );
        };
        let directory = match self.directory_of(&lane).await {
            Ok(directory) => directory,
            Err(fault) => {
                tracing::error!(
                    backend = name,
                    fault,
                    "nothing runs here until channels.md is mended"
                );
                return plain_failure(
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
                "ALLOWED_TOOLS=none cannot be kept by this backend; nothing runs on it"
            );
            return plain_failure(
                name,
                format!(
                    "No tools are allowed here, and this agent cannot be kept from its own. (tools, {id})"
                ),
            );
        }
        let binding = bindings.get(&event.lane, &name).await;
        // Agents find a session only where it was made; some wait for ever for one that is not
        // there.
        let moved = binding.session.is_some()
            && binding.settings.get(DIRECTORY) != self.elsewhere(&directory).as_ref();
        let session = binding.session.clone().filter(|_| !moved);
        let taken = self.take_files(event, backend.descriptor(), &directory, stop.clone()).await;
        if taken.is_nothing(event) && event.quoted.is_none() && event.prompt.trim().is_empty() {
            let mut answer =
                plain_failure(name, format!("None of the files could be taken. (files, {id})"));
            answer.notices = taken.notices;
            return answer;
        }
        let (mut start, planning) =
            self.start(event, &*backend, &lane, directory.clone(), session).await;
        let planning = Planning::new(planning);
        start.parts.extend(taken.parts.iter().cloned());
        let asked_model = start.settings.model.clone();
        let requested = start.native_id.clone();
        let (label, generation) =
            (backend.descriptor().label().to_owned(), backend.generation().clone());
        tracing::Span::current()
            .record("backend", &name)
            .record("generation", tracing::field::display(&generation));
        tracing::info!(resume = requested.is_some(), "turn begins");
        if let Some(running) = self.running.lock().get_mut(&event.lane) {
            running.backend = Some(backend.clone());
            running.stage = Some(stage.clone());
        }
        let context = Context {
            lane: event.lane.clone(),
            span: tracing::Span::current(),
            asker: event.asker,
            expands: backend.descriptor().expands.clone(),
            planning: planning.clone(),
        };
        let tools = Gate { allowed, backend: backend.clone() };
        let request = TurnRequest {
            id: id.to_owned(),
            event: event.sequence,
            lane: event.lane.clone(),
            backend,
            start,
            blobs: taken.blobs.clone(),
            stop,
            steers,
        };
        let mut follower = Follower {
            veil: Veil::new(&self.parts.redactor),
            stage: stage.clone(),
            questions: self.questions.clone(),
            context,
            asked: HashMap::new(),
            kept: kept.clone(),
            first_tool: None,
            tools,
        };
        let result = crate::turn::run(request, &self.links, &mut follower).await;
        follower.lift(&result.transcript);
        drop(follower);
        let mut notices = taken.notices.clone();
        drop(taken);
        self.report(&name, &result);
        let offer = self.lose(event, id, &name, (&binding, requested.as_deref()), &result).await;
        notices.extend(planning.notice(&self.parts.redactor));
        notices.extend(self.fallen_back(&event.lane, refused.as_deref(), &label));
        notices.extend(
            self.keep(event, &name, &binding, requested.as_deref(), &result, &directory).await,
        );
        if binding.unreadable {
            notices.push(
                "What was kept of this conversation could not be read; this is a new one."
                    .to_owned(),
            );
        }
        if moved {
            notices.push(
                "The working directory here is another one now; this is a new conversation."
                    .to_owned(),
            );
        }
        let (files, left) = self.keep_artifacts(&result.transcript).await;
        notices.extend(left);
        notices.extend(super::artifacts::notices(&result.transcript));
        let (text, notices) = self
            .remember(&event.lane, on_behalf(event).as_deref(), result.text.clone(), notices)
            .await;
        Answer {
            failure: wording::failure(
                &result.ending,
                self.parts.host.query_timeout,
                result.transcript.retry(),
                id,
            ),
            detail: wording::detail(&result.ending),
            text,
            notices,
            backend: label,
            model: result.session.and_then(|session| session.model).or(asked_model),
            usage: result.usage,
            took: result.took,
            files,
            offer,
            ping: event.asker.filter(|_| lane.ping.is_some_and(|after| result.took >= after)),
        }
    }

    /// The log lines of a turn's end and of what its parser did not know, and the radar's share of
    /// it.
    pub(super) fn report(&self, backend: &str, result: &TurnResult) {
        let took_ms = u64::try_from(result.took.as_millis()).unwrap_or(u64::MAX);
        let (ending, recording) = (result.ending.word(), &result.link);
        match wording::detail(&result.ending) {
            None => tracing::info!(recording, ending, took_ms, "turn ended"),
            Some(detail) => tracing::warn!(recording, ending, took_ms, detail, "turn failed"),
        }
        figures::turn_ended(backend, ending, result.took);
        for (what, count) in result.transcript.unrecognised() {
            tracing::debug!(
                what,
                count,
                "the agent said something this backend does not know; a newer backend may"
            );
        }
        self.radar.ended(backend, result);
    }

    /// A working directory other than the usual one.
    pub(super) fn elsewhere(&self, directory: &Path) -> Option<String> {
        (directory != self.parts.host.cwd).then(|| directory.to_string_lossy().into_owned())
    }

    /// Saves or forgets the session; returns what to tell the user about it.
    async fn keep(
        &self,
        event: &Event,
        backend: &str,
        binding: &Binding,
        requested: Option<&str>,
        result: &TurnResult,
        directory: &Path,
    ) -> Vec<String> {
        let bindings = self.parts.workspace.bindings();
        let mut notices = result.transcript.notices().to_vec();
        let saved = match (&result.ending, &result.session) {
            (Ending::Agent(failure), _) if failure.kind == FailureKind::SessionUnknown => {
                if let Some(lost) = requested {
                    self.lost(&event.lane, backend, lost).await;
                }
                bindings.set_session_if(&event.lane, backend, None, binding.epoch).await
            }
            (_, Some(ready)) if requested != Some(ready.native_id.as_str()) => {
                match SessionId::new(&ready.native_id) {
                    Ok(id) => {
                        let elsewhere = self.elsewhere(directory);
                        let noted = if binding.settings.get(DIRECTORY) == elsewhere.as_ref() {
                            Ok(())
                        } else {
                            bindings
                                .set_setting(&event.lane, backend, DIRECTORY, elsewhere.clone())
                                .await
                        };
                        match noted {
                            Ok(()) => {
                                self.noted(
                                    event,
                                    backend,
                                    id.clone(),
                                    requested,
                                    (ready.title.as_deref(), elsewhere),
                                )
                                .await;
                                bindings
                                    .set_session_if(&event.lane, backend, Some(id), binding.epoch)
                                    .await
                            }
                            Err(error) => Err(error),
                        }
                    }
                    Err(error) => Err(error),
                }
            }
            _ => Ok(true),
        };
        if let Err(error) = saved {
            tracing::error!(%error, "cannot save the conversation's session; the next prompt starts a new one");
            notices.push(
                "This conversation could not be saved; the next message may start afresh."
                    .to_owned(),
            );
        }
        notices
    }

    /// Whose memory a lane has.
    pub(super) fn memory_of(&self, lane: &Lane, settings: &LaneSettings) -> Place {
        // A thread has that of its channel.
        memory_place(self.parent_of(lane).as_ref().unwrap_or(lane), settings)
    }

    /// Moves a final memory block of the answer to the memory of the lane; each line says when and
    /// in whose turn.
    pub(super) async fn remember(
        &self,
        lane: &Lane,
        who: Option<&str>,
        text: String,
        mut notices: Vec<String>,
    ) -> (String, Vec<String>) {
        let (visible, memory) = prompt::extract_memory(&text);
        let Some(memory) = memory else { return (text, notices) };
        let (_, settings) = self.backend_of(lane).await;
        let place = self.memory_of(lane, &settings);
        let visible = visible.to_owned();
        let memory = match (&place, lane) {
            (Place::Nowhere, _) => {
                notices.push(
                    "What should be remembered was left out: nothing is noted here.".to_owned(),
                );
                return (visible, notices);
            }
            // The operator's own words in the operator's own file.
            (Place::Operators, Lane::Console) => memory.to_owned(),
            _ => {
                let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
                noted(memory, &prompt::plain_name(who.unwrap_or(&lane.to_string())), &date)
            }
        };
        match self
            .parts
            .workspace
            .append_memory_in(&place, &self.parts.redactor.clean(memory))
            .await
        {
            Ok(()) => (visible, notices),
            Err(error) => {
                tracing::error!(%error, "cannot append to the memory; the block stays in the answer");
                notices.push("What should be remembered could not be saved.".to_owned());
                (text, notices)
            }
        }
    }
}

/// Who an event's turn is for, as memory names them.
pub(super) fn on_behalf(event: &Event) -> Option<String> {
    let name = event.author.as_deref()?;
    Some(event.asker.map_or_else(|| name.to_owned(), |id| format!("{name}, {id}")))
}

/// Delivers what agents say by themselves, until the dispatcher is gone.
pub(super) async fn deliver_unasked(
    inner: Weak<Inner>,
    mut said: mpsc::UnboundedReceiver<Unasked>,
) {
    while let Some(Unasked { lane, backend, text, usage }) = said.recv().await {
        let Some(inner) = inner.upgrade() else { return };
        let now_ms = jiff::Timestamp::now().as_millisecond();
        let event = NewEvent::new(EventKind::Hook, lane, Origin::Internal { channel: None }, "")
            .accepted(0, now_ms);
        let (text, notices) = inner.remember(&event.lane, None, text, Vec::new()).await;
        let answer = Answer { text, notices, usage, ..plain_answer(backend) };
        let reply = inner.parts.outlet.open(&event);
        inner
            .tell(reply, answer.cleaned(&inner.parts.redactor), "what the agent said by itself")
            .await;
    }
}

fn plain_failure(backend: String, failure: String) -> Answer {
    Answer { failure: Some(failure), ..plain_answer(backend) }
}

/// An answer with nothing in it.
pub(super) fn plain_answer(backend: String) -> Answer {
    Answer { backend, ..Answer::default() }
}

/// Eight letters and digits: enough to find one turn in months of logs.
pub(super) fn turn_id() -> String {
    let mut id = uuid::Uuid::new_v4().simple().to_string();
    id.truncate(8);
    id
}
