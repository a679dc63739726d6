//! Answers the host's queries.

use aetheel_backend_sdk::failure;
use aetheel_backend_sdk::json::Value as Json;
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::wit::{
    Action, FailureKind, Model, Query, QueryKind, QueryResult, SessionReady,
};

use super::{Call, Droid};
use crate::failure;

impl Droid {
    pub(super) fn queried(&mut self, query: Query, context: &mut LinkContext) {
        let why = match query.kind {
            _ if context.is_leaving() => {
                failure(FailureKind::Other, "Droid is shutting down; ask again")
            }
            QueryKind::Health | QueryKind::Models if !context.is_ready() => {
                self.session = query.session.unwrap_or(self.session);
                return context.later(query);
            }
            QueryKind::Compact if self.native.is_none() || !context.is_ready() => {
                failure(FailureKind::Unsupported, "no session is open; begin a turn first")
            }
            QueryKind::Compact if context.turn_of(self.session).is_some() => {
                failure(FailureKind::Other, "a turn is running; ask again when it is over")
            }
            QueryKind::Health | QueryKind::Models | QueryKind::Compact => {
                return self.ask_droid(query, context);
            }
            QueryKind::Sessions => {
                failure(FailureKind::Unsupported, "Droid does not support this query")
            }
        };
        context.refuse(query.query, why);
    }

    pub(super) fn ask_droid(&mut self, query: Query, context: &mut LinkContext) {
        let key = query.query;
        let (method, params, call) = match query.kind {
            QueryKind::Health => ("droid.list_models", "{}".to_owned(), Call::Health(key)),
            QueryKind::Compact => ("droid.compact_session", "{}".to_owned(), Call::Compact(key)),
            _ => ("droid.list_models", "{}".to_owned(), Call::Models(key)),
        };
        self.calls.request(context.proc(), method, &params, call, context.out());
    }

    pub(super) fn query_answered(
        &mut self,
        query: u32,
        call: &Call,
        result: Result<&Json, &Json>,
        context: &mut LinkContext,
    ) {
        let answer = match (call, result) {
            (_, Err(error)) => QueryResult::Failed(failure::of_model(
                error.text("message").unwrap_or("Droid refused"),
            )),
            (Call::Health(_), Ok(result)) => {
                QueryResult::Health(format!("Droid answers; {} models", models(result).len()))
            }
            (Call::Models(_), Ok(result)) => QueryResult::Models(models(result)),
            (Call::Compact(_), Ok(result)) => {
                // The compacted conversation is a new session, which is loaded before the next
                // prompt.
                if let Some(id) = result.text("newSessionId") {
                    self.native = None;
                    self.resume = Some((id.to_owned(), false));
                    let ready = SessionReady {
                        session: self.session,
                        native_id: id.to_owned(),
                        model: None,
                        title: None,
                        tools: Vec::new(),
                    };
                    context.action(Action::SessionReady(ready));
                }
                QueryResult::Done
            }
            _ => QueryResult::Done,
        };
        context.answer(query, answer);
    }
}

/// Returns the query that a request belongs to.
pub(super) fn of_call(call: &Call) -> Option<u32> {
    match call {
        Call::Health(query) | Call::Models(query) | Call::Compact(query) => Some(*query),
        _ => None,
    }
}

fn models(result: &Json) -> Vec<Model> {
    let model = |model: &Json| {
        let id = model.text("id").filter(|_| !model.is_true("disabled"))?;
        let efforts = model
            .list("supportedReasoningEfforts")
            .iter()
            .filter_map(Json::as_str)
            .map(str::to_owned)
            .collect();
        Some(Model {
            id: id.to_owned(),
            label: model.text("displayName").unwrap_or(id).to_owned(),
            efforts,
        })
    };
    result.list("models").iter().filter_map(model).collect()
}
