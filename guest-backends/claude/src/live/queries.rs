//! What the host wants to know beside turns: whether Claude Code is well, and which models there are.

use aetheel_backend_sdk::wit::{Action, Failure, FailureKind, Query, QueryAnswer, QueryKind, QueryResult};

use super::agent::{Agent, Phase};
use super::{Live, failure};

impl Live {
    /// Answers a query, now or when there is an agent to ask.
    pub(super) fn query(&mut self, query: Query, out: &mut Vec<Action>) {
        match (&query.kind, &mut self.agent) {
            (QueryKind::Health, Some(agent)) if agent.phase == Phase::Ready && agent.is_probe() => {
                answer(query.query, QueryResult::Health(health(agent)), out);
            }
            (QueryKind::Health, Some(agent)) if agent.phase == Phase::Ready => agent.sign(query.query, out),
            (QueryKind::Models, Some(agent)) if agent.phase == Phase::Ready => {
                answer(query.query, QueryResult::Models(agent.models.clone()), out);
            }
            (QueryKind::Health | QueryKind::Models, _) => self.queries.push(query),
            _ => {
                let failure = failure(FailureKind::Unsupported, "Claude Code has no such thing");
                answer(query.query, QueryResult::Failed(failure), out);
            }
        }
    }

    /// Answers those that wait.
    pub(super) fn fail_queries(&mut self, why: impl Fn() -> Failure, out: &mut Vec<Action>) {
        fail(self.queries.drain(..).map(|query| query.query), why, out);
    }
}

/// Answers queries with a failure.
pub(super) fn fail(queries: impl Iterator<Item = u32>, why: impl Fn() -> Failure, out: &mut Vec<Action>) {
    for query in queries {
        answer(query, QueryResult::Failed(why()), out);
    }
}

/// Says that the agent is well.
pub(super) fn health(agent: &Agent) -> String {
    let version = agent.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    format!("Claude Code{version} answers and offers {} models", agent.models.len())
}

/// Answers a query.
pub(super) fn answer(query: u32, answer: QueryResult, out: &mut Vec<Action>) {
    out.push(Action::QueryAnswer(QueryAnswer { query, answer }));
}
