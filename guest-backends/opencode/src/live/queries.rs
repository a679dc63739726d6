//! Answers the host's queries.
//!
//! Models are listed with `opencode models`, because the server's own lists contain the providers'
//! keys.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::{BESIDE, LinkContext};
use aetheel_backend_sdk::text::stderr_end;
use aetheel_backend_sdk::wit::{
    Action, Exit, Exited, FailureKind, Line, Model, Pipe, Query, QueryKind, QueryResult,
    SessionInfo, Spawn, SpawnFailed, Value as Argument, Variable,
};
use aetheel_backend_sdk::{failure, one_shot};
use serde_json::json;

use super::OpenCode;
use super::compaction::Compaction;
use super::link::{Asked, Purpose, text};
use crate::{failure, prompt};

/// A run of `opencode models`.
#[derive(Debug)]
pub(crate) struct Listing {
    query: u32,
    models: Vec<Model>,
}

impl OpenCode {
    pub(super) fn queried(&mut self, query: Query, context: &mut LinkContext) {
        match query.kind {
            QueryKind::Models => self.list_models(&query, context),
            _ if context.is_ready() => self.ask_server(&query, context),
            _ => context.later(query),
        }
    }

    fn ask_server(&mut self, query: &Query, context: &mut LinkContext) {
        let session = query.session.and_then(|session| self.sessions.get(&session));
        let directory = session.map(|session| session.cwd.clone());
        let directory = directory.as_deref();
        let native = session.and_then(|session| session.native.clone());
        let purpose = |asked| Purpose::Query { query: query.query, asked };
        let unknown =
            || failure(FailureKind::SessionUnknown, "the session is not open: send a prompt first");
        match &query.kind {
            QueryKind::Health => self.link.http(
                ("GET", "/global/health"),
                None,
                Vec::new(),
                purpose(Asked::Health),
                context,
            ),
            QueryKind::Sessions => self.link.http(
                ("GET", "/session"),
                directory,
                Vec::new(),
                purpose(Asked::Sessions),
                context,
            ),
            QueryKind::Compact => match (session, native) {
                (Some(session), _) if context.turn_of(session.key).is_some() => {
                    context.refuse(
                        query.query,
                        failure(
                            FailureKind::Unsupported,
                            "the session is busy: wait for the end of its turn",
                        ),
                    );
                }
                (Some(session), Some(native)) => match &session.model {
                    Some((provider, model)) if session.compaction.is_none() => {
                        let body = text(json!({"providerID": provider, "modelID": model}));
                        let asked = Asked::Compact { session: session.key };
                        let key = session.key;
                        self.link.http(
                            ("POST", &format!("/session/{native}/summarize")),
                            directory,
                            body,
                            purpose(asked),
                            context,
                        );
                        if let Some(session) = self.sessions.get_mut(&key) {
                            session.compaction = Some(Compaction::new(query.query));
                        }
                    }
                    Some(_) => context.refuse(
                        query.query,
                        failure(
                            FailureKind::Unsupported,
                            "the conversation is already being shortened",
                        ),
                    ),
                    None => context.refuse(
                        query.query,
                        failure(FailureKind::Other, "the session has no messages yet"),
                    ),
                },
                _ => context.refuse(query.query, unknown()),
            },
            QueryKind::Models => {}
        }
    }

    pub(super) fn query_answered(
        &mut self,
        query: u32,
        asked: Asked,
        body: &Value,
        context: &mut LinkContext,
    ) {
        let answer = match asked {
            Asked::Health if body.is_true("healthy") => QueryResult::Health(format!(
                "OpenCode {} is healthy",
                body.text("version").unwrap_or("of an unknown version")
            )),
            Asked::Health => {
                QueryResult::Failed(failure(FailureKind::Other, "OpenCode's server is not healthy"))
            }
            Asked::Sessions => QueryResult::Sessions(
                body.as_array().unwrap_or_default().iter().filter_map(session_info).collect(),
            ),
            Asked::Compact { session } => return self.compaction_taken(session, context),
        };
        context.answer(query, answer);
    }

    fn list_models(&mut self, query: &Query, context: &mut LinkContext) {
        let proc = BESIDE | self.link.key();
        self.listings.insert(proc, Listing { query: query.query, models: Vec::new() });
        let environment = vec![Variable {
            name: "OPENCODE_DISABLE_AUTOUPDATE".to_owned(),
            value: Argument::Text("1".to_owned()),
        }];
        let plan = one_shot::spawn("opencode", [Argument::Text("models".to_owned())], Vec::new());
        context.action(Action::Spawn(Spawn { proc, environment, session: query.session, ..plan }));
    }

    /// Handles a line of `opencode models`, which is the id of a model.
    pub(super) fn listed(&mut self, line: &Line) {
        if let Some(listing) =
            self.listings.get_mut(&line.proc).filter(|_| line.pipe == Pipe::Stdout)
            && prompt::model(line.text.trim()).is_ok()
        {
            let id = line.text.trim().to_owned();
            listing.models.push(Model { label: id.clone(), id, efforts: Vec::new() });
        }
    }

    /// Handles a failed start of `opencode models`.
    pub(super) fn not_listed(&mut self, failed: SpawnFailed, context: &mut LinkContext) {
        if let Some(listing) = self.listings.remove(&failed.proc) {
            let kind = if failed.not_found { FailureKind::NotFound } else { FailureKind::Other };
            context.refuse(listing.query, failure(kind, failed.message));
        }
    }

    /// Handles the end of `opencode models`.
    pub(super) fn all_listed(&mut self, exited: &Exited, context: &mut LinkContext) {
        let Some(Listing { query, models }) = self.listings.remove(&exited.proc) else { return };
        if exited.how == Exit::Code(0) || !models.is_empty() {
            return context.answer(query, QueryResult::Models(models));
        }
        let said = stderr_end(&exited.stderr_tail, 5);
        context.refuse(
            query,
            failure::of_words(if said.is_empty() {
                "`opencode models` printed no models"
            } else {
                &said
            }),
        );
    }
}

fn session_info(session: &Value) -> Option<SessionInfo> {
    // Sessions of sub-agents cannot be used.
    if session.text("parentID").is_some() {
        return None;
    }
    Some(SessionInfo {
        native_id: session.text("id")?.to_owned(),
        title: session
            .text("title")
            .filter(|title| super::events::says_something(title))
            .map(str::to_owned),
        cwd: session.text("directory").map(str::to_owned),
        updated: session["time"].number("updated").and_then(rfc3339),
    })
}

/// Formats milliseconds since 1970 as an RFC 3339 time. The conversion of days to dates follows
/// Howard Hinnant's `civil_from_days`.
#[allow(clippy::cast_possible_truncation, reason = "`as` saturates, and the range is checked")]
fn rfc3339(ms: f64) -> Option<String> {
    if !(0.0..253_402_300_800_000.0).contains(&ms) {
        return None;
    }
    let seconds = (ms / 1000.0) as i64;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Some(format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_rfc_3339() {
        for (ms, text) in [
            (0.0, "1970-01-01T00:00:00Z"),
            (951_782_400_000.0, "2000-02-29T00:00:00Z"),
            (1_795_294_757_568.0, "2026-11-21T20:59:17Z"),
            (4_102_444_799_999.0, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(ms).as_deref(), Some(text));
        }
        assert_eq!(rfc3339(f64::NAN), None);
        assert_eq!(rfc3339(-1.0), None);
    }
}
