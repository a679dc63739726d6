//! The policies of a turn: components that decide about the agent's requests before people are
//! asked.
//!
//! The operator's settings have refused what they exclude before. Tested by
//! `tests/dispatch/policies.rs`.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::deps::DispatcherDeps;
use aetheel_model::agent::{Ask, AskDecision, AskKind, StartTurn};
use aetheel_model::event::Event;
use aetheel_model::plain::one_line;
use aetheel_model::policy::{
    PolicyCeiling, PolicyContext, PolicyEffect, PolicyRequest, PolicyRuling, subject_of,
};
use aetheel_model::prompt::{Expansion, neutralise};
use aetheel_model::redact::Redactor;
use aetheel_runtime::figures;
use aetheel_store::workspace::LaneSettings;
use aetheel_turn::{Judgement, Policies, PolicyVerdict};

/// The maximum number of denied requests that the notice names.
const NAMED_LIMIT: usize = 3;
/// The maximum length of each name, in characters.
const NAME_LIMIT: usize = 80;

/// The policies for one turn. Cheap to clone; clones share the denied requests.
#[derive(Clone)]
pub(crate) struct PolicyGate {
    policies: Arc<dyn Policies>,
    context: PolicyContext,
    ceiling: PolicyCeiling,
    redactor: Redactor,
    /// The denied requests, each with the decision.
    denied: Arc<Mutex<Vec<(String, String)>>>,
}

impl PolicyGate {
    /// Returns the policies for a turn of an event.
    pub(crate) fn of(
        deps: &DispatcherDeps,
        event: &Event,
        lane: &LaneSettings,
        backend: &str,
        start: &StartTurn,
    ) -> Self {
        let context = PolicyContext {
            backend: backend.to_owned(),
            lane: event.lane.to_string(),
            project: lane.project.clone(),
            person: event.asker.map(|person| person.to_string()),
            safety: start.settings.safety,
            cwd: start.cwd.clone(),
        };
        Self {
            policies: Arc::clone(&deps.policies),
            context,
            ceiling: deps.choices.policy_allow,
            redactor: deps.redactor.clone(),
            denied: Arc::default(),
        }
    }

    /// Begins to decide about a question. `collision` resolves to the reason why people must be asked
    /// about files that another conversation uses. Returns `None` if only people can decide.
    pub(crate) fn judge(
        &self,
        ask: &Ask,
        collision: Option<impl Future<Output = Option<String>> + Send + 'static>,
        expansion: &Expansion,
    ) -> Option<Judgement> {
        let request = || PolicyRequest::of(self.context.clone(), ask, &self.redactor);
        let request = if self.policies.is_empty() { None } else { request() };
        if request.is_none() && collision.is_none() {
            return None;
        }
        let (gate, key, expansion) = (self.clone(), ask.ask, expansion.clone());
        Some(Box::pin(async move {
            let ruling = match request {
                Some(request) => {
                    let votes = gate.policies.decide(&request).await;
                    let votes = votes.into_iter().map(|vote| vote.bounded(&gate.redactor));
                    Some(PolicyRuling::of(key, &request, votes.collect(), gate.ceiling))
                }
                None => None,
            };
            // The other conversation may use the files while the policies decide.
            let collision = match collision {
                Some(collision) => collision.await,
                None => None,
            };
            let ruling = match collision {
                Some(reason) => {
                    let ruling = ruling.unwrap_or_else(|| PolicyRuling::undecided(key));
                    ruling.with_collision(reason, &gate.redactor)
                }
                None => ruling?,
            };
            let answer = match ruling.effect {
                PolicyEffect::Allow => Some(AskDecision::AllowOnce),
                PolicyEffect::Deny => {
                    Some(AskDecision::Deny(Some(neutralise(&ruling.refusal(), &expansion, None))))
                }
                PolicyEffect::Ask | PolicyEffect::Pass => None,
            };
            Some(PolicyVerdict { ruling, answer })
        }))
    }

    /// Logs and counts a decision.
    pub(crate) fn log(&self, ask: &Ask, ruling: &PolicyRuling) {
        let effect = ruling.effect.word();
        for vote in &ruling.votes {
            figures::policy_decided(
                &vote.policy,
                if vote.failed { "failed" } else { vote.effect.word() },
            );
        }
        let request = self.redactor.redact(one_line(&ask.title));
        let policy = ruling.decisive().map(|vote| vote.policy.as_str());
        let reason = ruling.decisive().map(|vote| vote.reason.as_str());
        let over_ceiling = ruling.over_ceiling.then_some("POLICY_ALLOW");
        tracing::info!(request, effect, policy, reason, over_ceiling, "policies decided");
    }

    /// Remembers a denied request for the notice.
    pub(crate) fn note(&self, ask: &Ask, ruling: &PolicyRuling) {
        if let (AskKind::Permission(tool), PolicyEffect::Deny) = (&ask.kind, ruling.effect) {
            let line = ruling.line().unwrap_or_default();
            self.denied.lock().push((subject_of(tool), line));
        }
    }

    /// Returns the notice below the answer, or `None` if nothing was denied.
    pub(crate) fn notice(&self) -> Option<String> {
        let mut denied = self.denied.lock().clone();
        denied.dedup();
        let more = denied.len().saturating_sub(NAMED_LIMIT);
        denied.truncate(NAMED_LIMIT);
        // The text is redacted before it is cut, so that no part of a secret remains.
        let brief = |what: String| -> String {
            self.redactor.redact(what).replace('`', "'").chars().take(NAME_LIMIT).collect()
        };
        let named: Vec<String> = denied
            .into_iter()
            .map(|(what, line)| format!("`{}` was {line}", brief(what)))
            .collect();
        let more =
            if more > 0 { format!("; {more} more requests were denied") } else { String::new() };
        (!named.is_empty()).then(|| format!("{}{more}.", named.join("; ")))
    }
}
