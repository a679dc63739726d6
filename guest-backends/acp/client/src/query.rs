//! What the host asks beside turns.

use aetheel_backend_sdk::failure;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{Action, FailureKind, Query, QueryKind, QueryResult, SessionInfo};
use serde_json::json;

use crate::agent::Agent;
use crate::client::{Call, Client, Process, answer};
use crate::failure;

impl<A: Agent> Client<A> {
    /// Answers a question, or asks the agent. May start it.
    pub(crate) fn query(&mut self, query: Query, out: &mut Vec<Action>) {
        match (&query.kind, self.process) {
            (
                QueryKind::Health | QueryKind::Models | QueryKind::Sessions | QueryKind::DeleteSession(_),
                Process::None | Process::Starting(_),
            ) => {
                self.queries.push(query);
                if self.process == Process::None {
                    self.spawn(None, out);
                }
            }
            (QueryKind::Health, Process::Ready(_)) => {
                out.push(answer(query.query, QueryResult::Health(format!("{} answers", self.can.name))))
            }
            (QueryKind::Models, Process::Ready(_)) => {
                let models = self.sessions.values().map(|session| session.config.models()).find(|models| !models.is_empty());
                out.push(match models {
                    Some(models) => answer(query.query, QueryResult::Models(models)),
                    None => unsupported(query.query, "the agent tells its models once a conversation is open"),
                });
            }
            (QueryKind::Sessions, Process::Ready(proc)) if self.can.list => {
                self.calls.request(proc, "session/list", "{}", Call::List(query.query), out);
            }
            (QueryKind::DeleteSession(native), Process::Ready(proc)) if self.can.delete => {
                let params = json!({ "sessionId": native }).to_string();
                self.calls.request(proc, "session/delete", &params, Call::Delete(query.query), out);
            }
            (_, Process::Leaving(..)) => out.push(unsupported(query.query, "the agent is leaving")),
            _ => out.push(unsupported(query.query, "the agent has no such ability")),
        }
    }

    pub(crate) fn listed(&mut self, query: u32, result: Result<&Value, &Value>, out: &mut Vec<Action>) {
        let read = |session: &Value| {
            let text = |key| session.text(key).map(str::to_owned);
            Some(SessionInfo { native_id: text("sessionId")?, title: text("title"), cwd: text("cwd"), updated: text("updatedAt") })
        };
        out.push(answer(
            query,
            match result {
                Ok(result) => QueryResult::Sessions(result.list("sessions").iter().filter_map(read).collect()),
                Err(error) => QueryResult::Failed(failure::failure(error)),
            },
        ));
    }

    pub(crate) fn deleted(&mut self, query: u32, result: Result<&Value, &Value>, out: &mut Vec<Action>) {
        out.push(answer(query, result.map_or_else(|error| QueryResult::Failed(failure::open_failure(error)), |_| QueryResult::Done)));
    }
}

fn unsupported(query: u32, message: &str) -> Action {
    answer(query, QueryResult::Failed(failure(FailureKind::Unsupported, message)))
}
