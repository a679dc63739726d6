//! The hooks around a turn: `agent_begin` before it, and `agent_stop` after its answer was
//! delivered. They run in the event's lane and slot, so they keep the order of the lane.
//!
//! Each hook runs in a new session that is closed afterwards, because lanes run concurrently and
//! cannot share a session. It uses the backend, the directory and the safety level of the event's
//! lane. Its questions are dismissed, because no person could answer them. A failed hook does not
//! affect the turn. Tested by `tests/dispatch/hooks.rs`.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tracing::Instrument as _;

use super::TurnRunner;
use super::redact_stream::StreamRedactor;
use super::start::start_input;
use super::turn_id;
use super::turn_log::{audit_begin, line_of};
use crate::channel::error::LaneDirectoryError;
use crate::outlet::{TurnAnswer, messages};
use crate::turn_feed::TurnFeed;
use aetheel_model::agent::Ask;
use aetheel_model::event::{Event, EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::fold::Transcript;
use aetheel_recording::Ending;
use aetheel_store::workspace::{Hook, HookInstruction, Hooks};
use aetheel_turn::{Answerer, Audience, NewsKind, StopReason, TurnNews, TurnRequest, TurnResult};

/// The reason why a hook failed.
#[derive(Debug, thiserror::Error)]
enum HookError {
    /// The backend with this name is not loaded.
    #[error("backend {0} is not available")]
    NoBackend(String),
    /// No agent can work in the lane.
    #[error(transparent)]
    Directory(#[from] LaneDirectoryError),
    /// The turn did not complete.
    #[error("{0}")]
    Ending(Ending),
}

type StopReceiver = watch::Receiver<Option<StopReason>>;

impl TurnRunner {
    /// Runs the hook after the turn of an event. If a person stopped the turn, the hook still runs.
    pub(super) async fn stop_hook(
        &self,
        hooks: &Hooks,
        event: &Event,
        stop: &StopReceiver,
        failed: bool,
    ) {
        if let Some(running) = self.shared.lanes.running.lock().get(&event.lane) {
            running.stop.send_if_modified(|reason| {
                reason.take_if(|reason| *reason == StopReason::User).is_some()
            });
        }
        self.fire(
            hooks,
            Hook::AgentStop,
            event,
            stop,
            if failed { "ended with a failure" } else { "was answered" },
        )
        .await;
    }

    /// Runs a hook, if the operator wrote one. `what` happens to the event.
    pub(super) async fn fire(
        &self,
        hooks: &Hooks,
        hook: Hook,
        event: &Event,
        stop: &StopReceiver,
        what: &str,
    ) {
        // A hook does not run hooks of its own.
        if event.kind == EventKind::Hook || stop.borrow().is_some() {
            return;
        }
        let name = hook.name();
        let Some(instruction) = hooks.of(hook) else {
            tracing::debug!(hook = name, "hook fired; agents.md has no instruction for it");
            return;
        };
        let id = turn_id();
        // The span has the level `error`, so that log lines of every level have its fields.
        let span = tracing::error_span!("hook", hook = name, turn = id, event = event.sequence, lane = %event.lane);
        async {
            tracing::info!(hook = name, "hook fired");
            let prompt = prompt(hook, instruction, event, what);
            if let Err(error) =
                self.run_hook(hook, &id, instruction, event, prompt, stop.clone()).await
            {
                tracing::warn!(hook = name, fault = %error, "hook failed; the turn continues without it");
            }
        }
        .instrument(span)
        .await;
    }

    async fn run_hook(
        &self,
        hook: Hook,
        id: &str,
        instruction: &HookInstruction,
        event: &Event,
        prompt: String,
        stop: StopReceiver,
    ) -> Result<(), HookError> {
        let (name, settings) = self.shared.channels.backend_of(&event.lane).await;
        let backend = self.shared.deps.backends.get(&name);
        let backend = backend.ok_or_else(|| HookError::NoBackend(name.clone()))?;
        let directory = self.shared.channels.directory_of(&settings).await?;
        let mut asks = event.clone();
        asks.request =
            NewEvent { prompt, author: None, asker: None, attached: Vec::new(), ..asks.request };
        // Questions are dismissed, so the mode of planning needs no refusals here.
        let (channels, choices) = (&self.shared.channels, &self.shared.deps.choices);
        let (mut start, _) =
            start_input(channels, choices, &asks, &*backend, &settings, directory, None).await;
        // A file or a question would reach nobody.
        start.tools.clear();
        // The hook has a separate lane for each lane of events, because hooks of the same name may
        // run concurrently.
        let lane = Lane::Hook(format!("{}:{}", hook.name(), event.lane));
        // The sender is held until the turn ends, because a closed channel would wake the receiver.
        let (_steer, steers) = mpsc::unbounded_channel();
        let label = backend.descriptor().label().to_owned();
        let (by, sequence, blobs) = (Arc::clone(&backend), event.sequence, Vec::new());
        let request = NewEvent { lane: lane.clone(), kind: EventKind::Hook, ..asks.request };
        let fired = Event { accepted_ms: self.shared.deps.clock.now_ms(), request, ..asks };
        audit_begin(&fired, id, &*backend, start.settings.model.as_deref(), false);
        let feed = TurnFeed::of(&self.shared.deps, &fired, id, &name);
        feed.begun(&fired, &settings, &*backend, &start, false);
        let stream = StreamRedactor::new(&self.shared.deps.redactor);
        let mut audience = HookAudience { stream, feed: feed.clone() };
        let request = TurnRequest {
            id: id.to_owned(),
            event: sequence,
            lane: lane.clone(),
            backend,
            start,
            blobs,
            stop,
            steers,
            continued: None,
        };
        let result = aetheel_turn::run(request, &self.shared.links, &mut audience).await;
        feed.ended(&result, messages::failure_detail(&result.ending).as_deref());
        self.shared.links.forget(&lane);
        self.report(&name, &result);
        self.shared.rollout.on_turn_end(&name, id, &result);
        let recordings = self.shared.deps.recorder.folder();
        let turn =
            Some(line_of(&fired, self.shared.now(), id, by.descriptor(), recordings, &result));
        let TurnResult { ending, text, usage, took, .. } = result;
        let named = lane.to_string();
        let (text, notices) = channels.remember(&event.lane, Some(&named), text, Vec::new()).await;
        let answer =
            TurnAnswer { text, notices, usage, took, turn, ..TurnAnswer::from_backend(label) };
        let answer = answer.cleaned(&self.shared.deps.redactor);
        self.note_turn(&fired, &answer, false);
        if !answer.text.trim().is_empty() && ending == Ending::Completed {
            let origin = EventOrigin::Internal { channel: instruction.channel };
            let place = NewEvent::new(EventKind::Hook, lane, origin, "")
                .accepted(event.sequence, event.accepted_ms);
            let reply = self.shared.deps.outlet.open(&place);
            self.shared.delivery.send(reply, answer, "the answer of a hook").await;
        }
        if ending == Ending::Completed { Ok(()) } else { Err(HookError::Ending(ending)) }
    }
}

/// Returns the operator's instruction, with a quoted line about the occasion. The line has no text
/// from people.
fn prompt(hook: Hook, instruction: &HookInstruction, event: &Event, what: &str) -> String {
    let lane: String =
        event.lane.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let kind = format!("{:?}", event.kind).to_lowercase();
    format!(
        "{}\n\n> {}: event {} ({kind}) of {lane} {what}.",
        instruction.text,
        hook.name(),
        event.sequence
    )
}

/// The audience of a turn that only observers watch.
struct HookAudience<'a> {
    stream: StreamRedactor<'a>,
    feed: TurnFeed,
}

impl Audience for HookAudience<'_> {
    fn on(&mut self, news: &TurnNews, _transcript: &Transcript) {
        if let NewsKind::Event(event) = &news.kind {
            self.stream.pass(event, |event| self.feed.agent_event(event));
        }
    }

    fn ask(&mut self, ask: &Ask, _time: u32, answer: Answerer) {
        tracing::warn!(
            title = ask.title.escape_debug().to_string(),
            "dismissed a question of a hook's agent, because nobody can answer it"
        );
        // Dropping it dismisses the question.
        drop(answer);
    }
}
