//! Questions of the host beside the turns.

use aetheel_backend_sdk::json::Value as Json;
use aetheel_backend_sdk::wit::{Action, Failure, FailureKind, Model, Query, QueryAnswer, QueryKind, QueryResult, SessionReady};
use serde_json::json;

use super::{Agent, Call, Live};
use crate::failure::{self, failure};

impl Live {
    pub(super) fn query(&mut self, query: Query, out: &mut Vec<Action>) {
        match query.kind {
            _ if self.agent == Agent::Leaving => {
                answer_failed(query.query, failure(FailureKind::Other, "Droid is leaving; ask again"), out)
            }
            QueryKind::Health | QueryKind::Models => {
                self.session = query.session.unwrap_or(self.session);
                self.queries.push(query);
                self.advance(out);
            }
            QueryKind::Rename(_) | QueryKind::Compact if self.native.is_none() || self.agent != Agent::Up => {
                answer_failed(query.query, failure(FailureKind::Unsupported, "no session is open; begin a turn first"), out);
            }
            QueryKind::Compact if self.turn.is_some() => {
                answer_failed(query.query, failure(FailureKind::Other, "a turn is running; ask again when it is over"), out);
            }
            QueryKind::Rename(_) | QueryKind::Compact => self.ask_droid(query, out),
            QueryKind::Sessions | QueryKind::DeleteSession(_) | QueryKind::Raw(_) => {
                answer_failed(query.query, failure(FailureKind::Unsupported, "Droid has no such thing"), out);
            }
        }
    }

    pub(super) fn ask_droid(&mut self, query: Query, out: &mut Vec<Action>) {
        let key = query.query;
        let (method, params, call) = match query.kind {
            QueryKind::Health => ("droid.list_models", "{}".to_owned(), Call::Health(key)),
            QueryKind::Rename(title) => ("droid.rename_session", json!({ "title": title }).to_string(), Call::Rename(key)),
            QueryKind::Compact => ("droid.compact_session", "{}".to_owned(), Call::Compact(key)),
            _ => ("droid.list_models", "{}".to_owned(), Call::Models(key)),
        };
        self.calls.request(self.proc, method, &params, call, out);
    }

    pub(super) fn query_answered(&mut self, query: u32, call: &Call, result: Result<&Json, &Json>, out: &mut Vec<Action>) {
        let answer = match (call, result) {
            (_, Err(error)) => QueryResult::Failed(failure::of_model(error.text("message").unwrap_or("Droid refused"))),
            (Call::Health(_), Ok(result)) => QueryResult::Health(format!("Droid answers; {} models", models(result).len())),
            (Call::Models(_), Ok(result)) => QueryResult::Models(models(result)),
            (Call::Compact(_), Ok(result)) => {
                // What was compacted is a new session, loaded before the next prompt.
                if let Some(id) = result.text("newSessionId") {
                    self.native = None;
                    self.resume = Some((id.to_owned(), false));
                    let ready = SessionReady { session: self.session, native_id: id.to_owned(), model: None, title: None };
                    out.push(Action::SessionReady(ready));
                }
                QueryResult::Done
            }
            _ => QueryResult::Done,
        };
        out.push(Action::QueryAnswer(QueryAnswer { query, answer }));
        self.advance(out);
    }

    pub(super) fn fail_queries(&mut self, failure: &Failure, out: &mut Vec<Action>) {
        for query in std::mem::take(&mut self.queries) {
            answer_failed(query.query, failure.clone(), out);
        }
    }
}

/// The question a request of ours was for.
pub(super) fn of_call(call: &Call) -> Option<u32> {
    match call {
        Call::Health(query) | Call::Models(query) | Call::Rename(query) | Call::Compact(query) => Some(*query),
        _ => None,
    }
}

pub(super) fn answer_failed(query: u32, failure: Failure, out: &mut Vec<Action>) {
    out.push(Action::QueryAnswer(QueryAnswer { query, answer: QueryResult::Failed(failure) }));
}

fn models(result: &Json) -> Vec<Model> {
    let model = |model: &Json| {
        let id = model.text("id").filter(|_| !model.is_true("disabled"))?;
        let efforts = model.list("supportedReasoningEfforts").iter().filter_map(Json::as_str).map(str::to_owned).collect();
        Some(Model { id: id.to_owned(), label: model.text("displayName").unwrap_or(id).to_owned(), efforts })
    };
    result.list("models").iter().filter_map(model).collect()
}
