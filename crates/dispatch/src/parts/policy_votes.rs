//! Policies decide about requests in place of people: components that get each request before people
//! are asked. The operator's settings have refused what they exclude before. Tested by
//! `tests/dispatch/policies.rs`.

use std::sync::Arc;

use async_trait::async_trait;

use crate::part::{PartOfTurn, TurnContext, TurnPart};
use crate::plan::TurnPlan;
use crate::turn_feed::TurnFeed;
use aetheel_model::agent::{Ask, AskDecision, AskKind};
use aetheel_model::fold::Transcript;
use aetheel_model::plain::one_line;
use aetheel_model::policy::{PolicyContext, PolicyEffect, PolicyRequest, PolicyRuling, subject_of};
use aetheel_model::prompt::{Expansion, neutralise};
use aetheel_runtime::figures;
use aetheel_turn::{Judgement, NewsKind, PolicyVerdict, TurnNews};

/// The maximum number of denied requests that the notice names.
const NAMED_LIMIT: usize = 3;
/// The maximum length of each name, in characters.
const NAME_LIMIT: usize = 80;

/// Policies decide about requests in place of people.
pub struct PolicyVotes;

struct VotesOfTurn {
    turn: Arc<TurnContext>,
    /// `None` until the agent begins.
    begun: Option<BegunVotes>,
    /// The denied requests, each with the decision.
    denied: Vec<(String, String)>,
}

#[derive(Clone)]
struct BegunVotes {
    /// The turn as policies see it.
    context: PolicyContext,
    /// The forms that the backend expands in people's messages.
    expansion: Expansion,
    feed: TurnFeed,
}

#[async_trait]
impl TurnPart for PolicyVotes {
    fn name(&self) -> &'static str {
        "policies"
    }

    fn join(&self, turn: &Arc<TurnContext>) -> Option<Box<dyn PartOfTurn>> {
        Some(Box::new(VotesOfTurn { turn: Arc::clone(turn), begun: None, denied: Vec::new() }))
    }
}

#[async_trait]
impl PartOfTurn for VotesOfTurn {
    async fn begin(&mut self, plan: &TurnPlan, feed: &TurnFeed) {
        let event = &self.turn.event;
        let context = PolicyContext {
            backend: plan.backend.descriptor().name.clone(),
            lane: event.lane.to_string(),
            project: plan.lane.project.clone(),
            person: event.asker.map(|person| person.to_string()),
            safety: plan.start.settings.safety,
            cwd: plan.start.cwd.clone(),
        };
        self.begun = Some(BegunVotes { context, expansion: plan.expansion(), feed: feed.clone() });
    }

    fn on(&mut self, news: &TurnNews, _transcript: &Transcript) {
        let NewsKind::Ruled(ask, ruling) = &news.kind else { return };
        if let (AskKind::Permission(tool), PolicyEffect::Deny) = (&ask.kind, ruling.effect) {
            self.denied.push((subject_of(tool), ruling.line().unwrap_or_default()));
        }
        if let Some(begun) = self.begun.as_ref().filter(|_| !news.replayed) {
            begun.feed.policy_decided(ask, ruling);
            self.log(ask, ruling);
        }
    }

    fn judge(&mut self, ask: &Ask, earlier: Option<Judgement>) -> Option<Judgement> {
        let BegunVotes { context, expansion, .. } = self.begun.clone()?;
        let (policies, deps) = (&self.turn.shared.deps.policies, &self.turn.shared.deps);
        if policies.is_empty() {
            return earlier;
        }
        let Some(request) = PolicyRequest::of(context, ask, &deps.redactor) else { return earlier };
        let (policies, redactor) = (Arc::clone(policies), deps.redactor.clone());
        let (key, ceiling) = (ask.ask, deps.choices.policy_allow);
        Some(Box::pin(async move {
            let votes = policies.decide(&request).await;
            let votes = votes.into_iter().map(|vote| vote.bounded(&redactor));
            let ruling = PolicyRuling::of(key, &request, votes.collect(), ceiling);
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

    fn notices(&mut self, notices: &mut Vec<String>) {
        self.denied.dedup();
        let more = self.denied.len().saturating_sub(NAMED_LIMIT);
        self.denied.truncate(NAMED_LIMIT);
        if self.denied.is_empty() {
            return;
        }
        // The text is redacted before it is cut, so that no part of a secret remains.
        let redactor = &self.turn.shared.deps.redactor;
        let named = self.denied.drain(..).map(|(what, line)| {
            let brief: String =
                redactor.redact(what).replace('`', "'").chars().take(NAME_LIMIT).collect();
            format!("`{brief}` was {line}")
        });
        let named: Vec<String> = named.collect();
        let more = match more {
            0 => String::new(),
            more => format!("; {more} more requests were denied"),
        };
        notices.push(format!("{}{more}.", named.join("; ")));
    }
}

impl VotesOfTurn {
    /// Logs and counts a decision.
    fn log(&self, ask: &Ask, ruling: &PolicyRuling) {
        let effect = ruling.effect.word();
        for vote in &ruling.votes {
            figures::policy_decided(
                &vote.policy,
                if vote.failed { "failed" } else { vote.effect.word() },
            );
        }
        let request = self.turn.shared.deps.redactor.redact(one_line(&ask.title));
        let policy = ruling.decisive().map(|vote| vote.policy.as_str());
        let reason = ruling.decisive().map(|vote| vote.reason.as_str());
        let over_ceiling = ruling.over_ceiling.then_some("POLICY_ALLOW");
        tracing::info!(request, effect, policy, reason, over_ceiling, "policies decided");
    }
}
