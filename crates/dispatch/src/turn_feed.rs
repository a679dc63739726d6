//! Passes the events of a turn to observers, without secrets. Tested by
//! `tests/dispatch/observers.rs`.

use std::fmt;
use std::sync::Arc;

use crate::agent_run::{BegunRun, RunName};
use crate::deps::DispatcherDeps;
use aetheel_model::agent::{AgentEventKind, Ask, AskKind};
use aetheel_model::observed::{ObservedEvent, ObservedKind, ObservedTurn, bounded};
use aetheel_model::policy::PolicyRuling;
use aetheel_model::redact::Redactor;
use aetheel_runtime::clock::Clock;
use aetheel_turn::{NoObservers, TurnObservers, TurnResult};

/// The observers of one turn. Cheap to clone.
#[derive(Clone)]
pub struct TurnFeed {
    observers: Arc<dyn TurnObservers>,
    turn: ObservedTurn,
    redactor: Redactor,
    clock: Clock,
}

impl TurnFeed {
    pub(crate) fn of(deps: &DispatcherDeps, turn: RunName<'_>) -> Self {
        let turn = ObservedTurn {
            turn: turn.id.to_owned(),
            lane: turn.event.lane.to_string(),
            backend: turn.backend.to_owned(),
        };
        let (redactor, clock) = (deps.redactor.clone(), deps.clock.clone());
        Self { observers: Arc::clone(&deps.observers), turn, redactor, clock }
    }

    /// Returns the feed of a turn without observers.
    pub(crate) fn silent(deps: &DispatcherDeps, turn: RunName<'_>) -> Self {
        Self { observers: Arc::new(NoObservers), ..Self::of(deps, turn) }
    }

    /// Passes an event to the observers. Returns at once.
    pub(crate) fn send(&self, kind: ObservedKind) {
        if !self.observers.is_empty() {
            let (turn, at_ms) = (self.turn.clone(), self.clock.now_ms());
            self.observers.notify(&ObservedEvent { turn, at_ms, kind });
        }
    }

    pub(crate) fn begun(&self, run: &BegunRun<'_>) {
        let trigger = serde_json::to_value(run.event.kind).ok();
        let trigger = trigger.as_ref().and_then(serde_json::Value::as_str);
        let waited = self.clock.now_ms().saturating_sub(run.event.accepted_ms);
        let waited = Some(waited).filter(|_| !run.is_resumed);
        self.send(ObservedKind::TurnBegun {
            trigger: trigger.unwrap_or_default().to_owned(),
            person: run.event.asker.map(|person| person.to_string()),
            project: run.lane.project.clone(),
            backend_version: run.backend.descriptor().version.clone(),
            model: run.start.settings.model.as_deref().map(|model| self.clean(model)),
            is_resumed: run.is_resumed,
            waited_ms: waited.and_then(|waited| waited.try_into().ok()),
        });
    }

    /// Passes on an event of the agent that has no secrets.
    pub(crate) fn agent_event(&self, event: &AgentEventKind) {
        if let Some(kind) = ObservedKind::of(event) {
            self.send(kind);
        }
    }

    /// Passes on an event from before a restart of the gateway, without secrets.
    pub(crate) fn past_event(&self, event: &AgentEventKind, at_ms: i64) {
        if !self.observers.is_empty()
            && let Some(kind) = ObservedKind::of(event)
        {
            self.observers.restore(&ObservedEvent { turn: self.turn.clone(), at_ms, kind });
        }
    }

    pub(crate) fn policy_decided(&self, ask: &Ask, ruling: &PolicyRuling) {
        let AskKind::Permission(tool) = &ask.kind else { return };
        self.send(ObservedKind::PolicyDecided {
            tool: self.clean(&tool.native_name),
            target: tool.target.as_deref().map(|target| self.clean(target)),
            effect: ruling.effect.word(),
            reason: ruling.line().map(|line| self.clean(&line)),
        });
    }

    pub(crate) fn ended(&self, result: &TurnResult, failure: Option<&str>) {
        let model = result.session.as_ref().and_then(|session| session.model.as_deref());
        self.send(ObservedKind::TurnEnded {
            ending: result.ending.word(),
            failure: failure.map(|failure| self.clean(failure)),
            took_ms: u64::try_from(result.took.as_millis()).unwrap_or(u64::MAX),
            tools: u32::try_from(result.transcript.tools().len()).unwrap_or(u32::MAX),
            model: model.map(|model| self.clean(model)),
            usage: result.usage.clone(),
        });
    }

    /// Returns a text without secrets, short and plain. Secrets are removed first, so that no part
    /// of one remains.
    pub(crate) fn clean(&self, text: &str) -> String {
        bounded(&self.redactor.redact(text.to_owned()))
    }
}

impl fmt::Debug for TurnFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnFeed").field("turn", &self.turn).finish_non_exhaustive()
    }
}
