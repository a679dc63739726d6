//! The lines `claude -p --output-format stream-json` prints, one JSON object each; the same ones in
//! both modes.
//!
//! `--output-format json` prints one object of the type `result`, with `--verbose` an array of all
//! messages: both are read just the same. Messages of the control protocol alone are read in
//! [`crate::live`], the contents of all others in `content`.

mod content;

use std::mem;

use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::one_shot::Agent;
use aetheel_backend_sdk::wit::{
    Failure, Level, Line, Outcome, Pipe, Spawn, StartTurn, ToolEnd, ToolStatus,
};
use aetheel_backend_sdk::{Emit, TurnResult};

use crate::answer::Answer;
use crate::beside::{self, Tasks};
use crate::spent::Spent;
use crate::todo::Todo;
use crate::{plan, result};

/// Lines that say nothing a turn needs: answers of the control protocol, signs of life, hints for a
/// user interface.
const IGNORED_TYPES: [&str; 8] = [
    "auth_status",
    // How far a message of ours is (2.1.330).
    "command_lifecycle",
    "control_cancel_request",
    "control_response",
    "keep_alive",
    "prompt_suggestion",
    "tool_progress",
    "tool_use_summary",
];
/// `system` lines that say nothing a turn needs: progress that other lines tell better, and hooks
/// of the operator.
const IGNORED_SYSTEM: [&str; 15] = [
    // 2.1.330; what it means for the end of a turn is seen to in `live`.
    "background_tasks_changed",
    "control_request_progress",
    "files_persisted",
    "hook_progress",
    "hook_response",
    "hook_started",
    "model_refusal_no_fallback",
    "session_state_changed",
    "status",
    "task_progress",
    "task_updated",
    "thinking_tokens",
    "ui_invalidate",
    "vcs_state_changed",
    "worker_shutting_down",
];
/// `system` lines with words for people (2.1.330).
const WORDS: [&str; 5] = [
    "informational",
    "model_consent_fallback",
    "model_fallback",
    "model_refusal_fallback",
    "notification",
];
/// Begins the result of a run that succeeded, also where the rest is missing: Claude Code 2.1.197
/// exits without waiting until a slow reader has taken everything, and the line repeats the whole
/// answer.
const SUCCESS: &str = r#"{"type":"result","subtype":"success","is_error":false,"#;
/// The same of 2.1.330, which says so somewhere before the answer.
const SUCCESS_SINCE: [&str; 2] = [r#"{"duration_api_ms":"#, r#","is_error":false,"#];

/// Claude Code, as it speaks in one turn.
#[derive(Debug, Default)]
pub struct Claude {
    /// The session that was to be continued.
    resumed: Option<String>,
    session: Option<String>,
    model: Option<String>,
    /// Claude Code's word for the last error it told.
    error: Option<String>,
    /// Tool uses that ended as denied or called off.
    stopped: Vec<String>,
    /// Tool uses people refused when they were asked.
    refused: Vec<String>,
    answer: Answer,
    spent: Spent,
    /// Something beside the messages of the model may have used tokens: a sub-agent, a tool that
    /// asks a model, another attempt.
    aside: bool,
    todo: Todo,
    tasks: Tasks,
}

impl Agent for Claude {
    fn describe() -> String {
        include_str!("../descriptor.json").to_owned()
    }

    fn plan(&mut self, start: StartTurn, emit: &mut Emit) -> Result<Spawn, Failure> {
        self.resumed = start.native_id.clone().filter(|_| !start.fork);
        self.spent = Spent::of_process(start.native_id.is_some());
        plan::launch(start, emit)
    }

    fn line(&mut self, line: Line, emit: &mut Emit) -> Option<TurnResult> {
        let text = line.text.trim();
        if line.pipe == Pipe::Stderr || text.is_empty() {
            return None;
        }
        self.said(json::parse(text).ok().as_ref(), text, line.truncated, emit)
    }

    fn failure(&mut self, stderr: &str) -> Failure {
        Failure {
            kind: result::kind(None, self.error.as_deref(), stderr),
            message: stderr.to_owned(),
            retry_after_ms: None,
        }
    }
}

impl Claude {
    /// Begins a turn of a process that lives on. `resumed` is the session it is expected to be in.
    pub(crate) fn begin(&mut self, resumed: Option<String>) {
        let (todo, mut spent) = (mem::take(&mut self.todo), mem::take(&mut self.spent));
        spent.begin_turn();
        *self = Self { resumed, todo, spent, ..Self::default() };
    }

    /// The state that outlives a turn, as JSON for another instance.
    pub(crate) fn kept(&self) -> serde_json::Value {
        serde_json::json!({ "spent": self.spent.kept(), "tasks": self.todo.kept() })
    }

    /// Reads the state that another instance kept.
    pub(crate) fn taken_over(kept: &Value) -> Option<Self> {
        Some(Self {
            spent: Spent::taken_over(&kept["spent"])?,
            todo: Todo::taken_over(kept.list("tasks")),
            ..Self::default()
        })
    }

    /// Another process tells what follows. `resumed`: it continues a session, whose money and
    /// tokens it may count on from.
    pub(crate) fn restarted(&mut self, resumed: bool) {
        self.spent = Spent::of_process(resumed);
    }

    /// The session it said it is in, in this turn.
    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// A person refused the use of a tool.
    pub(crate) fn refuse(&mut self, tool_use: &str) {
        self.refused.push(tool_use.to_owned());
    }

    /// Takes a line in; `message` is what was parsed from it. Returns a result once there is one.
    pub(crate) fn said(
        &mut self,
        message: Option<&Value>,
        text: &str,
        truncated: bool,
        emit: &mut Emit,
    ) -> Option<TurnResult> {
        match message {
            Some(Value::Array(messages)) => messages
                .iter()
                .filter_map(|message| self.message(message, &message.to_string(), emit))
                .last(),
            Some(message @ Value::Object(_)) => self.message(message, text, emit),
            _ if text.starts_with(SUCCESS)
                || (text.starts_with(SUCCESS_SINCE[0]) && text.contains(SUCCESS_SINCE[1])) =>
            {
                emit.diagnostic(Level::Warn, "the result of Claude Code is cut off; the answer is whole, tokens and cost are not known");
                Some(TurnResult {
                    outcome: Outcome::Completed,
                    text: self.answer.rest(),
                    usage: None,
                })
            }
            _ => {
                let what = if truncated {
                    "line longer than the limit"
                } else {
                    "line that is not a JSON object"
                };
                emit.unrecognised(what, None, text);
                None
            }
        }
    }

    fn message(&mut self, message: &Value, raw: &str, emit: &mut Emit) -> Option<TurnResult> {
        let parent = message.text("parent_tool_use_id");
        match message.text("type") {
            Some("system") => self.system(message, raw, emit),
            // What sub-agents say is told whole in their `assistant` lines.
            Some("stream_event") if parent.is_some() => {}
            Some("stream_event") => self.stream(&message["event"], raw, emit),
            Some("assistant") => self.assistant(message, parent, raw, emit),
            Some("user") => self.user(message, raw, emit),
            Some("result") => return Some(self.result(message, raw, emit)),
            Some("rate_limit_event") => beside::rate_limit(&message["rate_limit_info"], emit),
            Some(kind) if IGNORED_TYPES.contains(&kind) => {}
            Some(kind) => {
                emit.unrecognised(format!("line type {kind:?}"), Some("type".to_owned()), raw)
            }
            None => emit.unrecognised("line without a type", Some("type".to_owned()), raw),
        }
        None
    }

    fn system(&mut self, message: &Value, raw: &str, emit: &mut Emit) {
        match message.text("subtype") {
            Some("init") => {
                self.model = message.text("model").map(str::to_owned);
                match message.text("session_id") {
                    Some(id) => self.session_ready(id, emit),
                    None => emit.unrecognised(
                        "init line without a session",
                        Some("session_id".to_owned()),
                        raw,
                    ),
                }
            }
            Some("api_retry") => {
                let (status, error) = (message.count("error_status"), message.text("error"));
                let count = |key| message.count(key).unwrap_or_default();
                let status_text = status.map(|status| format!(", {status}")).unwrap_or_default();
                let text = format!(
                    "attempt {} of {} ({}{status_text})",
                    count("attempt"),
                    count("max_retries"),
                    error.unwrap_or("unknown error")
                );
                self.aside = true;
                emit.retry(result::kind(status, error, ""), text, message.count("retry_delay_ms"));
            }
            Some(subtype) if WORDS.contains(&subtype) => {
                if let Some(said) = message
                    .text("content")
                    .or_else(|| message.text("text"))
                    .filter(|said| !said.trim().is_empty())
                {
                    emit.notice(said);
                }
            }
            // By a rule or a mode: nobody was asked (2.1.330). The end of the use is told as an
            // error like any other.
            Some("permission_denied") => match message.text("tool_use_id") {
                Some(tool_use) => self.refuse(tool_use),
                None => emit.unrecognised(
                    "denial of no use of a tool",
                    Some("tool_use_id".to_owned()),
                    raw,
                ),
            },
            Some("compact_boundary") => {
                self.aside = true;
                emit.notice("Claude Code shortened the conversation to make room");
            }
            Some("task_started" | "task_notification") => self.tasks.told(message, emit),
            Some(subtype) if IGNORED_SYSTEM.contains(&subtype) => {}
            Some(subtype) => emit.unrecognised(
                format!("system line {subtype:?}"),
                Some("subtype".to_owned()),
                raw,
            ),
            None => {
                emit.unrecognised("system line without a subtype", Some("subtype".to_owned()), raw)
            }
        }
    }

    fn session_ready(&mut self, id: &str, emit: &mut Emit) {
        if self.session.as_deref() == Some(id) {
            return;
        }
        if self.resumed.as_deref().is_some_and(|resumed| resumed != id) {
            emit.notice("Claude Code began a new session: what was said before is lost to it");
        }
        self.session = Some(id.to_owned());
        emit.session_ready(id, self.model.clone());
    }

    fn result(&mut self, line: &Value, raw: &str, emit: &mut Emit) -> TurnResult {
        for denial in line.list("permission_denials") {
            let id = denial.text("tool_use_id").unwrap_or_default();
            if !self.stopped.iter().any(|stopped| stopped == id) {
                self.stopped.push(id.to_owned());
                emit.tool_end(ToolEnd {
                    id: id.to_owned(),
                    status: ToolStatus::Denied,
                    output: None,
                    exit_code: None,
                    diffs: Vec::new(),
                });
            }
        }
        // Without an `init` line the id is only told here. A failed resume echoes the id it did not
        // find.
        if let Some(id) = line.text("session_id")
            && self.session.is_none()
            && !line.is_true("is_error")
        {
            self.session_ready(id, emit);
        }
        // A run that failed need not have a session, an answer or tokens.
        if !line.is_true("is_error") {
            emit.required_id(line, "session_id", raw);
        }
        if line.text("subtype") == Some("success") && !line.is_true("is_error") {
            emit.required_text(line, "result", raw);
            emit.required_object(line, "usage", raw);
        }
        let usage = self.spent.of_result(line, self.model.as_deref(), self.aside, emit);
        result::turn_result(line, self.error.as_deref(), &mut self.answer, usage)
    }
}
