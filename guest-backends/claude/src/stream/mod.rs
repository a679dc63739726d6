//! Reads the lines of `claude -p --output-format stream-json`, one JSON object each, the same in
//! both modes.
//!
//! `--output-format json` prints one object of the type `result`, with `--verbose` an array of all
//! messages; both can be read too. [`crate::live`] reads messages of the control protocol,
//! `content` the contents of all others.

mod content;

use std::mem;

use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::one_shot::Agent;
use aetheel_backend_sdk::wit::{
    Failure, Level, Line, Outcome, Pipe, Spawn, StartTurn, ToolEnd, ToolStatus,
};
use aetheel_backend_sdk::{Emit, TurnResult};

use crate::answer::Answer;
use crate::side_events::{self, Tasks};
use crate::spent::Spent;
use crate::todo::Todo;
use crate::{plan, result};

/// Line types that a turn does not need: answers of the control protocol, heartbeats, and hints for
/// a user interface.
const IGNORED_TYPES: [&str; 8] = [
    "auth_status",
    // Progress of our message (2.1.330).
    "command_lifecycle",
    "control_cancel_request",
    "control_response",
    "keep_alive",
    "prompt_suggestion",
    "tool_progress",
    "tool_use_summary",
];
/// `system` lines that a turn does not need: progress that other lines report better, and events of
/// the operator's hooks.
const IGNORED_SYSTEM: [&str; 14] = [
    // 2.1.330; `live` uses it to determine the end of a turn.
    "background_tasks_changed",
    "control_request_progress",
    "files_persisted",
    "hook_progress",
    "hook_response",
    "hook_started",
    "model_refusal_no_fallback",
    "session_state_changed",
    "task_progress",
    "task_updated",
    "thinking_tokens",
    "ui_invalidate",
    "vcs_state_changed",
    "worker_shutting_down",
];
/// `system` lines with a text for users (2.1.330).
const WORDS: [&str; 5] = [
    "informational",
    "model_consent_fallback",
    "model_fallback",
    "model_refusal_fallback",
    "notification",
];
/// Prefix of the result of a successful run. Detects a truncated result: Claude Code 2.1.197 exits
/// before a slow reader has read everything, and the line repeats the whole answer.
const SUCCESS: &str = r#"{"type":"result","subtype":"success","is_error":false,"#;
/// The same for 2.1.330, which prints the second text anywhere before the answer.
const SUCCESS_SINCE: [&str; 2] = [r#"{"duration_api_ms":"#, r#","is_error":false,"#];

/// The state of one turn of Claude Code.
#[derive(Debug, Default)]
pub struct Claude {
    /// The session that the turn should continue.
    resumed: Option<String>,
    session: Option<String>,
    model: Option<String>,
    /// The names of the tools that Claude Code reported.
    tools: Vec<String>,
    /// The last error code that Claude Code printed.
    error: Option<String>,
    /// Tool uses that already ended as denied or cancelled.
    stopped: Vec<String>,
    /// Tool uses that the user refused.
    refused: Vec<String>,
    answer: Answer,
    spent: Spent,
    /// Whether anything besides the model's messages may have used tokens: a sub-agent, a tool that
    /// asks a model, or a retry.
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
        self.handle_line(json::parse(text).ok().as_ref(), text, line.truncated, emit)
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
    /// Begins a turn of a long-lived process. `resumed` is the session that it should be in.
    pub(crate) fn begin(&mut self, resumed: Option<String>) {
        let (todo, mut spent) = (mem::take(&mut self.todo), mem::take(&mut self.spent));
        spent.begin_turn();
        *self = Self { resumed, todo, spent, ..Self::default() };
    }

    /// Returns the state that outlives a turn as JSON, for another instance.
    pub(crate) fn save_state(&self) -> serde_json::Value {
        serde_json::json!({ "spent": self.spent.save_state(), "tasks": self.todo.save_state() })
    }

    /// Reads the state that another instance saved.
    pub(crate) fn restore(saved: &Value) -> Option<Self> {
        Some(Self {
            spent: Spent::restore(&saved["spent"])?,
            todo: Todo::restore(saved.list("tasks")),
            ..Self::default()
        })
    }

    /// Starts counting for a new process. `resumed` is true if it continues a session, whose sums
    /// it may report.
    pub(crate) fn restarted(&mut self, resumed: bool) {
        self.spent = Spent::of_process(resumed);
    }

    /// Returns the session that the agent reported in this turn.
    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Returns the id of the tool use that started a running sub-agent.
    pub(crate) fn tool_of_agent(&self, agent: &str) -> Option<&str> {
        self.tasks.tool(agent)
    }

    /// Records that the user refused a tool use.
    pub(crate) fn refuse(&mut self, tool_use: &str) {
        self.refused.push(tool_use.to_owned());
    }

    /// Handles a line; `message` is its parsed form. Returns a result once there is one.
    pub(crate) fn handle_line(
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
                emit.diagnostic(Level::Warn, "the result of Claude Code is truncated; the answer is complete, but tokens and cost are unknown");
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
            // Sub-agents also print their text whole, in `assistant` lines.
            Some("stream_event") if parent.is_some() => {}
            Some("stream_event") => self.stream(&message["event"], raw, emit),
            Some("assistant") => self.assistant(message, parent, raw, emit),
            Some("user") => self.user(message, raw, emit),
            Some("result") => return Some(self.result(message, raw, emit)),
            Some("rate_limit_event") => side_events::rate_limit(&message["rate_limit_info"], emit),
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
                let tools = message.list("tools").iter().filter_map(Value::as_str);
                self.tools = tools.map(str::to_owned).collect();
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
                if let Some(text) = message
                    .text("content")
                    .or_else(|| message.text("text"))
                    .filter(|text| !text.trim().is_empty())
                {
                    emit.notice(text);
                }
            }
            // Denied by a rule or a mode without a question (2.1.330). The end of the use looks
            // like any other error.
            Some("permission_denied") => match message.text("tool_use_id") {
                Some(tool_use) => self.refuse(tool_use),
                None => emit.unrecognised(
                    "denial without a tool use",
                    Some("tool_use_id".to_owned()),
                    raw,
                ),
            },
            Some("compact_boundary") => {
                self.aside = true;
                let count = |key| message["compact_metadata"].count(key);
                emit.compaction(true, count("pre_tokens"), count("post_tokens"));
            }
            Some("status") if message.text("status") == Some("compacting") => {
                emit.compaction(false, None, None);
            }
            Some("status") => {
                if let Some(error) = message.text("compact_error").filter(|error| !error.is_empty())
                {
                    let text = format!("Claude Code could not shorten the conversation: {error}");
                    emit.notice_with(Level::Warn, None, text);
                }
            }
            Some("task_started" | "task_notification") => self.tasks.update(message, emit),
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
            emit.notice("Claude Code began a new session: the earlier conversation is lost");
        }
        self.session = Some(id.to_owned());
        emit.session_with_tools(id, self.model.clone(), mem::take(&mut self.tools));
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
        // Without an `init` line only the result has the id. A failed resume repeats the id that it
        // did not find.
        if let Some(id) = line.text("session_id")
            && self.session.is_none()
            && !line.is_true("is_error")
        {
            self.session_ready(id, emit);
        }
        // A failed run may have no session, answer or tokens.
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
