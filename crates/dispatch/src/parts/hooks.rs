//! The hooks around a turn: `agent_begin` before it, and `agent_stop` after its answer was
//! delivered. They run in the event's lane and slot, so they keep the order of the lane.
//!
//! Each hook runs in a new session that is closed afterwards, because lanes run concurrently and
//! cannot share a session. It uses the backend, the directory and the safety level of the event's
//! lane. Its questions are dismissed, because no person could answer them. A failed hook does not
//! affect the turn. Tested by `tests/dispatch/hooks.rs`.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use crate::agent_run::{BegunRun, EndedRun, RunName};
use crate::channel::error::LaneDirectoryError;
use crate::outlet::TurnAnswer;
use crate::part::{Gateway, PartOfTurn, TurnContext, TurnPart};
use crate::run::redact_stream::StreamRedactor;
use crate::run::start::start_input;
use crate::run::turn_log::{self, line_of};
use crate::run::{report, turn_id};
use crate::turn_feed::TurnFeed;
use aetheel_model::agent::Ask;
use aetheel_model::event::{Event, EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::fold::Transcript;
use aetheel_recording::Ending;
use aetheel_store::workspace::{Hook, HookInstruction, Hooks, TurnLine};
use aetheel_turn::{Answerer, Audience, NewsKind, StopReason, TurnNews, TurnRequest, TurnResult};

/// The operator's instructions before and after a turn.
pub struct TurnHooks;

struct HooksOfTurn {
    turn: Arc<TurnContext>,
    /// The hooks as they were when the turn began.
    hooks: Arc<Hooks>,
}

#[async_trait]
impl TurnPart for TurnHooks {
    fn name(&self) -> &'static str {
        "hooks"
    }

    fn join(&self, turn: &Arc<TurnContext>) -> Option<Box<dyn PartOfTurn>> {
        Some(Box::new(HooksOfTurn { turn: Arc::clone(turn), hooks: Arc::default() }))
    }
}

#[async_trait]
impl PartOfTurn for HooksOfTurn {
    async fn before(&mut self) {
        self.hooks = self.turn.shared.deps.workspace.hooks().await;
        if !self.turn.is_resumed {
            self.fire(Hook::AgentBegin, "is about to be answered").await;
        }
    }

    fn acts_after_delivery(&self) -> bool {
        self.hooks.of(Hook::AgentStop).is_some()
    }

    async fn delivered(&mut self, failed: bool) {
        // If a person stopped the turn, the hook still runs.
        let lane = &self.turn.event.lane;
        if let Some(running) = self.turn.shared.lanes.running.lock().get(lane) {
            running.stop.send_if_modified(|reason| {
                reason.take_if(|reason| *reason == StopReason::User).is_some()
            });
        }
        let what = if failed { "ended with a failure" } else { "was answered" };
        self.fire(Hook::AgentStop, what).await;
    }
}

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

impl HooksOfTurn {
    /// Runs a hook, if the operator wrote one. `what` happens to the event.
    async fn fire(&self, hook: Hook, what: &str) {
        let event = &self.turn.event;
        // A hook does not run hooks of its own.
        if event.kind == EventKind::Hook || self.turn.stopped().is_some() {
            return;
        }
        let name = hook.name();
        let Some(instruction) = self.hooks.of(hook) else {
            tracing::debug!(hook = name, "hook fired; agents.md has no instruction for it");
            return;
        };
        let id = turn_id();
        // The span has the level `error`, so that log lines of every level have its fields.
        let span = tracing::error_span!("hook", hook = name, turn = id, event = event.sequence, lane = %event.lane);
        async {
            tracing::info!(hook = name, "hook fired");
            let prompt = prompt(hook, instruction, event, what);
            if let Err(error) = self.run(hook, &id, instruction, prompt).await {
                tracing::warn!(hook = name, fault = %error, "hook failed; the turn continues without it");
            }
        }
        .instrument(span)
        .await;
    }

    async fn run(
        &self,
        hook: Hook,
        id: &str,
        instruction: &HookInstruction,
        prompt: String,
    ) -> Result<(), HookError> {
        let TurnContext { event, shared, stop, .. } = &*self.turn;
        let (name, settings) = shared.channels.backend_of(&event.lane).await;
        let backend = shared.deps.backends.get(&name);
        let backend = backend.ok_or_else(|| HookError::NoBackend(name.clone()))?;
        let directory = shared.channels.directory_of(&settings).await?;
        let mut asks = event.clone();
        asks.request =
            NewEvent { prompt, author: None, asker: None, attached: Vec::new(), ..asks.request };
        // Questions are dismissed, so the mode of planning needs no refusals here.
        let (channels, choices) = (&shared.channels, &shared.deps.choices);
        let (start, _) =
            start_input(channels, choices, &asks, &*backend, &settings, directory, None).await;
        // The hook has a separate lane for each lane of events, because hooks of the same name may
        // run concurrently.
        let lane = Lane::Hook(format!("{}:{}", hook.name(), event.lane));
        // The sender is held until the turn ends, because a closed channel would wake the receiver.
        let (_steer, steers) = mpsc::unbounded_channel();
        let (by, sequence, blobs) = (Arc::clone(&backend), event.sequence, Vec::new());
        let request = NewEvent { lane: lane.clone(), kind: EventKind::Hook, ..asks.request };
        let fired = Event { accepted_ms: shared.deps.clock.now_ms(), request, ..asks };
        let (gateway, run) = (Gateway { shared }, RunName { event: &fired, id, backend: &name });
        gateway.agent_begins(&BegunRun {
            event: &fired,
            id,
            backend: &*backend,
            start: &start,
            lane: &settings,
            is_resumed: false,
        });
        let stream = StreamRedactor::new(&shared.deps.redactor);
        let mut audience = HookAudience { stream, feed: gateway.feed(run) };
        let request = TurnRequest {
            id: id.to_owned(),
            event: sequence,
            lane: lane.clone(),
            backend,
            start,
            blobs,
            stop: stop.clone(),
            steers,
            continued: None,
        };
        let result = aetheel_turn::run(request, &shared.links, &mut audience).await;
        shared.links.forget(&lane);
        report(&shared.deps, &name, &result);
        gateway.agent_ended(&EndedRun { name: run, result: &result });
        let recordings = shared.deps.recorder.folder();
        let line = line_of(&fired, shared.now(), id, by.descriptor(), recordings, &result);
        self.answer(instruction, &fired, by.descriptor().label(), line, result).await
    }

    /// Saves the line of a hook's turn and delivers its answer.
    async fn answer(
        &self,
        instruction: &HookInstruction,
        fired: &Event,
        label: &str,
        line: Box<TurnLine>,
        result: TurnResult,
    ) -> Result<(), HookError> {
        let TurnContext { event, shared, .. } = &*self.turn;
        let TurnResult { ending, text, usage, took, .. } = result;
        let (lane, named) = (fired.lane.clone(), fired.lane.to_string());
        let (text, notices) =
            shared.channels.remember(&event.lane, Some(&named), text, Vec::new()).await;
        let turn = Some(line);
        let answer =
            TurnAnswer { text, notices, usage, took, turn, ..TurnAnswer::from_backend(label) };
        let answer = answer.cleaned(&shared.deps.redactor);
        turn_log::note(Gateway { shared }, fired, &answer, false);
        if ending != Ending::Completed {
            return Err(HookError::Ending(ending));
        }
        if !answer.text.trim().is_empty() {
            let origin = EventOrigin::Internal { channel: instruction.channel };
            let place = NewEvent::new(EventKind::Hook, lane, origin, "")
                .accepted(event.sequence, event.accepted_ms);
            let reply = shared.deps.outlet.open(&place);
            shared.delivery.send(reply, answer, "the answer of a hook").await;
        }
        Ok(())
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
