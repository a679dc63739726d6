//! Reads text, tools, files and background work from the demo agent's lines.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::tool::{self, Tools};
use aetheel_backend_sdk::wit::{
    Artifact, ArtifactBody, FailureKind, PlanEntry, PlanStatus, Task, TaskKind, TaskStatus,
    ToolEnd, ToolStart, Usage,
};
use aetheel_backend_sdk::{Emit, failure_kind, tokens};

const TOOLS: Tools = Tools::new(&[
    ("bash", &["shell"], &["about"]),
    ("file_read", &["read"], &["about"]),
    ("agent_spawn", &["helper"], &["about"]),
]);

/// Reports text: the answer, the thinking, or the output of a tool.
pub(crate) fn text(fields: &Value, line: &str, emit: &mut Emit) {
    let kind = fields.text("type").unwrap_or_default();
    let tool = (kind == "tool-output").then(|| emit.required_id(fields, "id", line));
    let text = emit.required_text(fields, "text", line);
    match (tool, fields.text("parent")) {
        (Some(tool), _) => emit.tool_output(tool, text),
        (None, _) if kind == "thinking" => emit.thinking(0, text),
        (None, Some(parent)) => emit.text_of(parent, 0, text),
        (None, None) => emit.text(0, text),
    }
}

/// Reads the start of a tool use.
pub(crate) fn tool_start(fields: &Value) -> ToolStart {
    let start = TOOLS.start(&fields.string("id"), &fields.string("tool"), fields);
    ToolStart { input: "{}".to_owned(), ..start }
}

/// Reads the end of a tool use with the changed files.
pub(crate) fn tool_end(fields: &Value) -> ToolEnd {
    let diffs = fields.list("diffs").iter().map(crate::ask::diff).collect();
    ToolEnd { diffs, ..tool::end(fields.string("id"), fields.is_true("ok"), None) }
}

/// Reads the tokens of the turn.
pub(crate) fn usage(fields: &Value) -> Usage {
    tokens(fields.count("input").unwrap_or_default(), fields.count("output").unwrap_or_default())
}

/// Reads an artifact.
pub(crate) fn artifact(fields: &Value) -> Artifact {
    let text = |key| fields.text(key).map(str::to_owned);
    let body = match (text("base64"), text("link")) {
        (Some(bytes), _) => ArtifactBody::Base64(bytes),
        (None, Some(address)) => ArtifactBody::Link(address),
        (None, None) => ArtifactBody::Text(fields.string("text")),
    };
    Artifact { name: text("name"), media_type: fields.string("media"), body, tool: None }
}

/// Reads the state of a background task.
pub(crate) fn task(fields: &Value) -> Task {
    let status = match fields.text("status") {
        Some("done") => TaskStatus::Done,
        Some("failed") => TaskStatus::Failed,
        Some("stopped") => TaskStatus::Stopped,
        _ => TaskStatus::Running,
    };
    Task {
        id: fields.string("id"),
        kind: TaskKind::Agent,
        title: fields.string("title"),
        status,
        tool: fields.text("tool").map(str::to_owned),
        background: fields.is_true("background"),
        summary: fields.text("summary").map(str::to_owned),
    }
}

/// Reads a step of the plan.
pub(crate) fn step(step: &Value) -> PlanEntry {
    let status = match step.text("status") {
        Some("done") => PlanStatus::Done,
        Some("active") => PlanStatus::Active,
        _ => PlanStatus::Pending,
    };
    PlanEntry { text: step.string("text"), status }
}

/// Reports that the agent tries again.
pub fn retry(fields: &Value, emit: &mut Emit) {
    emit.retry(failure_kind_of(fields), fields.string("message"), fields.count("after_ms"))
}

/// Returns the kind of failure that the agent named.
pub fn failure_kind_of(fields: &Value) -> FailureKind {
    failure_kind(fields.text("kind").unwrap_or_default())
}
