//! Reads the lines of `gemini -o stream-json`, one JSON object each.

use aetheel_acp_client::{Answer, Holds, kind_of, kind_of_name, target};
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::one_shot::Agent;
use aetheel_backend_sdk::tool::title;
use aetheel_backend_sdk::wit::{
    Failure, FailureKind, Line, Outcome, Pipe, PlanEntry, PlanStatus, Spawn, StartTurn, ToolEnd,
    ToolStart, ToolStatus, Usage,
};
use aetheel_backend_sdk::{Emit, TurnResult};

use crate::{RETRY_PAUSE_MS, failure, plan};

/// The state of one turn of Gemini CLI.
#[derive(Debug, Default)]
pub struct Gemini {
    /// The session that the turn should continue.
    resumed: Option<String>,
    /// The id and model of a new session without history. Gemini CLI does not save a session whose
    /// first model request fails.
    unsaved: Option<(String, Option<String>)>,
    answer: Answer,
    /// The last error that was printed.
    error: Option<String>,
}

impl Agent for Gemini {
    fn describe() -> String {
        include_str!("descriptor.json").to_owned()
    }

    fn plan(&mut self, start: StartTurn, emit: &mut Emit) -> Result<Spawn, Failure> {
        self.resumed.clone_from(&start.native_id);
        plan::launch(start, emit)
    }

    fn line(&mut self, line: Line, emit: &mut Emit) -> Option<TurnResult> {
        let text = line.text.trim();
        // Printed while the model provider fails, which can take minutes without other output.
        if line.pipe == Pipe::Stderr && text.starts_with("Attempt ") && text.contains(" failed") {
            let what = text.split(". Retrying").next().unwrap_or(text);
            emit.retry(kind_of(text), what, None);
            if let Some(failure) = failure::of_long_pause(text) {
                let outcome = Outcome::Failed(failure);
                return Some(TurnResult { outcome, text: None, usage: None });
            }
        }
        let message = emit.object(&line)?;
        self.message(&message, text, emit)
    }

    fn failure(&mut self, stderr: &str) -> Failure {
        failure::at_exit(None, stderr)
    }
}

impl Gemini {
    fn message(&mut self, message: &Value, raw: &str, emit: &mut Emit) -> Option<TurnResult> {
        match message.text("type") {
            Some("init") => match message.text("session_id") {
                Some(id) => {
                    if self.resumed.as_deref().is_some_and(|resumed| resumed != id) {
                        emit.notice(
                            "Gemini CLI began a new session: the earlier conversation is lost",
                        );
                    }
                    self.unsaved = Some((id.to_owned(), message.text("model").map(str::to_owned)));
                    if self.resumed.is_some() {
                        self.report_session(emit);
                    }
                }
                None => emit.unrecognised(
                    "init line without a session",
                    Some("session_id".to_owned()),
                    raw,
                ),
            },
            Some("message") => match message.text("role") {
                Some("assistant") => {
                    self.report_session(emit);
                    let text = emit.required_text(message, "content", raw);
                    if let Some(at_ms) = message.text("timestamp").and_then(milliseconds) {
                        self.answer.again(at_ms, RETRY_PAUSE_MS, text, emit);
                    }
                    self.answer.more(Holds::Text, None, text, emit);
                }
                // The prompt.
                Some("user") => {}
                role => emit.unrecognised(
                    format!("message of {:?}", role.unwrap_or_default()),
                    Some("role".to_owned()),
                    raw,
                ),
            },
            Some("tool_use") => {
                self.report_session(emit);
                self.tool(message, raw, emit);
            }
            Some("tool_result") => {
                let id = emit.required_id(message, "tool_id", raw);
                emit.required_text(message, "status", raw);
                emit.tool_end(ToolEnd {
                    id: id.to_owned(),
                    status: match message.text("status") {
                        Some("success") => ToolStatus::Ok,
                        Some("error") => ToolStatus::Failed,
                        _ => ToolStatus::Unknown,
                    },
                    output: message
                        .text("output")
                        .or_else(|| message["error"].text("message"))
                        .map(str::to_owned),
                    exit_code: None,
                    diffs: Vec::new(),
                });
            }
            Some("error") => {
                let text = emit.required_text(message, "message", raw);
                self.error = Some(text.to_owned());
                if message.text("severity") == Some("warning") {
                    emit.notice(text);
                }
            }
            Some("result") => {
                if emit.required_text(message, "status", raw) == "success" {
                    emit.required_object(message, "stats", raw);
                    self.report_session(emit);
                }
                return Some(self.result(message));
            }
            Some(kind) => {
                emit.unrecognised(format!("line type {kind:?}"), Some("type".to_owned()), raw)
            }
            None => emit.unrecognised("line without a type", Some("type".to_owned()), raw),
        }
        None
    }

    /// Reports the session once it has history.
    fn report_session(&mut self, emit: &mut Emit) {
        if let Some((id, model)) = self.unsaved.take() {
            emit.session_ready(&id, model);
        }
    }

    fn tool(&mut self, message: &Value, raw: &str, emit: &mut Emit) {
        let id = emit.required_id(message, "tool_id", raw);
        let name = emit.required_id(message, "tool_name", raw);
        let kind = kind_of_name(name).unwrap_or("other");
        let input = &message["parameters"];
        let target = target(input, kind);
        let about = if kind == "bash" {
            input.text("description").or(target.as_deref())
        } else {
            target.as_deref()
        };
        self.answer.tool();
        emit.tool_start(ToolStart {
            id: id.to_owned(),
            parent: None,
            kind: kind.to_owned(),
            native_name: name.to_owned(),
            title: title(about.unwrap_or_default(), name),
            target,
            input: if input.is_null() { "{}".to_owned() } else { input.to_string() },
        });
        if name == "write_todos" {
            for todo in emit.required_list(input, "parameters.todos", raw) {
                emit.required_text(todo, "parameters.todos[].description", raw);
            }
            emit.plan(input.list("todos").iter().map(todo).collect());
        }
    }

    fn result(&mut self, message: &Value) -> TurnResult {
        let usage = usage(&message["stats"]);
        let text = self.answer.finish();
        if message.text("status") == Some("success") {
            return TurnResult { outcome: Outcome::Completed, text, usage };
        }
        let error = &message["error"];
        let text = error
            .text("message")
            .or(self.error.as_deref())
            .unwrap_or("Gemini CLI reported an error without a message");
        let outcome = match error.text("type") {
            Some("FatalTurnLimitedError") => Outcome::Limit(text.to_owned()),
            Some("FatalAuthenticationError") => Outcome::Failed(Failure {
                kind: FailureKind::Authentication,
                ..failure::of_message(text)
            }),
            _ => Outcome::Failed(failure::of_message(text)),
        };
        TurnResult { outcome, text: None, usage }
    }
}

fn usage(stats: &Value) -> Option<Usage> {
    Some(Usage {
        input: stats.count("input")?,
        output: stats.count("output_tokens").unwrap_or_default(),
        cached: stats.count("cached").unwrap_or_default(),
        ..Usage::default()
    })
    .filter(|usage| (usage.input, usage.output, usage.cached) != (0, 0, 0))
}

fn todo(todo: &Value) -> PlanEntry {
    let status = match todo.text("status") {
        Some("in_progress") => PlanStatus::Active,
        Some("completed" | "cancelled") => PlanStatus::Done,
        _ => PlanStatus::Pending,
    };
    PlanEntry { text: todo.text("description").unwrap_or_default().to_owned(), status }
}

/// Returns the time of day of `2026-11-21T21:02:11.350Z` in milliseconds. Pauses over midnight are
/// not recognised.
fn milliseconds(timestamp: &str) -> Option<f64> {
    let mut fields = timestamp
        .get(11..)?
        .trim_end_matches('Z')
        .split(':')
        .map(|field| field.parse::<f64>().ok());
    let (hours, minutes, seconds) = (fields.next()??, fields.next()??, fields.next()??);
    Some(((hours * 60.0 + minutes) * 60.0 + seconds) * 1000.0)
}
