//! Queries of the host outside turns.

use aetheel_backend_sdk::failure;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::text::one_line;
use aetheel_backend_sdk::wit::{FailureKind, Model, Query, QueryKind, QueryResult, SessionInfo};
use serde_json::json;

use super::{Call, Codex, refusal};

/// Maximum number of listed sessions.
const SESSIONS: u32 = 100;

impl Codex {
    /// Sends a query to the agent, which is ready.
    pub(super) fn ask(&mut self, query: Query, context: &mut LinkContext) {
        let busy = query
            .session
            .and_then(|key| self.sessions.get(&key))
            .is_some_and(|session| session.turn.is_some() || session.compacting.is_some());
        let thread = query.session.and_then(|session| {
            Some(self.sessions.get(&session)?.thread.as_ref()?.id.thread.clone())
        });
        let (method, params) = match (&query.kind, thread) {
            (QueryKind::Health, _) => ("account/read", json!({ "refreshToken": false })),
            (QueryKind::Models, _) => ("model/list", json!({})),
            (QueryKind::Sessions, _) => ("thread/list", json!({ "limit": SESSIONS })),
            (QueryKind::Compact, Some(_)) if busy => {
                return context.refuse(
                    query.query,
                    failure(FailureKind::Other, "the session is busy: try again after its turn"),
                );
            }
            (QueryKind::Compact, Some(thread)) => {
                ("thread/compact/start", json!({ "threadId": thread }))
            }
            (QueryKind::Compact, None) => {
                return context.refuse(
                    query.query,
                    failure(
                        FailureKind::SessionUnknown,
                        "the session has no thread on this link yet",
                    ),
                );
            }
        };
        if let (QueryKind::Compact, Some(session)) =
            (&query.kind, query.session.and_then(|key| self.sessions.get_mut(&key)))
        {
            session.compacting = Some(query.query);
        }
        self.calls.request(
            context.proc(),
            method,
            &params.to_string(),
            Call::Query(query),
            context.out(),
        );
    }

    /// Handles the answer to a query.
    pub(super) fn query_answered(
        &mut self,
        query: Query,
        result: Result<&Value, &Value>,
        context: &mut LinkContext,
    ) {
        let compacting = query.session.filter(|_| query.kind == QueryKind::Compact);
        match (compacting, result) {
            // Codex has only started to compact the thread, see `compacted`.
            (Some(_), Ok(_)) => {}
            (Some(key), Err(_)) => {
                if let Some(session) = self.sessions.get_mut(&key) {
                    session.compacting = None;
                }
                answer(query, result, context);
            }
            (None, _) => answer(query, result, context),
        }
    }

    /// Answers the query that compacted a thread, if there is one.
    pub(super) fn compacted(&mut self, params: &Value, context: &mut LinkContext) {
        let id = params.text("threadId");
        let open = self.sessions.iter_mut().find(|(_, session)| {
            session.compacting.is_some()
                && session.thread.as_ref().map(|thread| thread.id.thread.as_str()) == id
        });
        let Some((_, session)) = open else { return };
        let query = session.compacting.take();
        let turn = &params["turn"];
        let answer = match turn.text("status") {
            Some("completed") => QueryResult::Done,
            _ => QueryResult::Failed(crate::failure::failure(
                turn["error"].text("message").unwrap_or("the conversation was not compacted"),
                &turn["error"]["codexErrorInfo"],
            )),
        };
        if let Some(query) = query {
            context.answer(query, answer);
        }
    }
}

/// Answers a query with the agent's response.
pub(super) fn answer(query: Query, result: Result<&Value, &Value>, context: &mut LinkContext) {
    let answer = match (result, query.kind) {
        (Err(error), _) => QueryResult::Failed(refusal(error)),
        (Ok(result), QueryKind::Health) => health(result),
        (Ok(result), QueryKind::Models) => {
            QueryResult::Models(result.list("data").iter().filter_map(model).collect())
        }
        (Ok(result), QueryKind::Sessions) => {
            QueryResult::Sessions(result.list("data").iter().filter_map(session).collect())
        }
        (Ok(_), _) => QueryResult::Done,
    };
    context.answer(query.query, answer);
}

/// Returns whether Codex is signed in, if its model provider requires that.
fn health(account: &Value) -> QueryResult {
    match account["account"].text("type") {
        Some(kind) => QueryResult::Health(format!("Codex answers, signed in ({kind})")),
        None if account.is_true("requiresOpenaiAuth") => QueryResult::Failed(failure(
            FailureKind::Authentication,
            "Codex answers, but is not signed in: run `codex login --with-api-key`; CODEX_API_KEY is only for one-shot runs",
        )),
        None => {
            QueryResult::Health("Codex answers; its model provider needs no sign-in".to_owned())
        }
    }
}

fn model(entry: &Value) -> Option<Model> {
    let id = entry.text("model").or_else(|| entry.text("id"))?.to_owned();
    let efforts = entry
        .list("supportedReasoningEfforts")
        .iter()
        .filter_map(|effort| effort.text("reasoningEffort"));
    Some(Model {
        label: entry.text("displayName").unwrap_or(&id).to_owned(),
        efforts: efforts.map(str::to_owned).collect(),
        id,
    })
}

fn session(entry: &Value) -> Option<SessionInfo> {
    let title =
        entry.text("name").or_else(|| entry.text("preview")).map(|title| one_line(title, 80));
    Some(SessionInfo {
        native_id: entry.text("id")?.to_owned(),
        title: title.filter(|title| !title.is_empty()),
        cwd: entry.text("cwd").map(str::to_owned),
        updated: entry.number("updatedAt").map(rfc3339),
    })
}

/// Converts seconds since 1970 to RFC 3339. The date is computed with Howard Hinnant's
/// `civil_from_days`, whose years begin in March.
#[allow(clippy::cast_possible_truncation, reason = "`as` saturates, and the year fits")]
fn rfc3339(seconds: f64) -> String {
    let seconds = (seconds.clamp(0.0, 253_402_300_799.0)) as i64;
    let (day, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (
        year_of_era + era * 400 + i64::from(month >= 10),
        if month < 10 { month + 3 } else { month - 9 },
    );
    format!(
        "{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_converted_to_rfc_3339() {
        for (seconds, time) in [
            (0.0, "1970-01-01T00:00:00Z"),
            (951_782_400.0, "2000-02-29T00:00:00Z"),
            (1_795_294_413.0, "2026-11-21T20:53:33Z"),
            (4_107_542_399.5, "2100-02-28T23:59:59Z"),
            (-5.0, "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), time);
        }
    }
}
