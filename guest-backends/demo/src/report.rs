//! The words, tools, files and background work in the lines of the demo agent.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::tool::{self, Tools};
use aetheel_backend_sdk::wit::{
    Artifact, ArtifactBody, PlanEntry, PlanStatus, Task, TaskKind, TaskStatus, ToolEnd, ToolStart,
    Usage,
};
use aetheel_backend_sdk::{Emit, tokens};

const TOOLS: Tools = Tools::new(&[
    ("bash", &["shell"], &["about"]),
    ("file_read", &["read"], &["about"]),
    ("agent_spawn", &["helper"], &["about"]),
]);

/// Reports what the agent says: its answer, its thinking, or the output of a tool.
pub(crate) fn words(said: &Value, line: &str, emit: &mut Emit) {
    let kind = said.text("type").unwrap_or_default();
    let tool = (kind == "tool-output").then(|| emit.required_id(said, "id", line));
    let text = emit.required_text(said, "text", line);
    match (tool, said.text("parent")) {
        (Some(tool), _) => emit.tool_output(tool, text),
        (None, _) if kind == "thinking" => emit.thinking(0, text),
        (None, Some(parent)) => emit.text_of(parent, 0, text),
        (None, None) => emit.text(0, text),
    }
}

/// A tool it begins to use.
pub(crate) fn tool_start(said: &Value) -> ToolStart {
    let start = TOOLS.start(&said.string("id"), &said.string("tool"), said);
    ToolStart { input: "{}".to_owned(), ..start }
}

/// A tool that has ended, with the files it changed.
pub(crate) fn tool_end(said: &Value) -> ToolEnd {
    let diffs = said.list("diffs").iter().map(crate::ask::diff).collect();
    ToolEnd { diffs, ..tool::end(said.string("id"), said.is_true("ok"), None) }
}

/// The tokens it has used.
pub(crate) fn usage(said: &Value) -> Usage {
    tokens(said.count("input").unwrap_or_default(), said.count("output").unwrap_or_default())
}

/// Something it made for people.
pub(crate) fn artifact(said: &Value) -> Artifact {
    let text = |key| said.text(key).map(str::to_owned);
    let body = match (text("base64"), text("link")) {
        (Some(bytes), _) => ArtifactBody::Base64(bytes),
        (None, Some(address)) => ArtifactBody::Link(address),
        (None, None) => ArtifactBody::Text(said.string("text")),
    };
    Artifact { name: text("name"), media_type: said.string("media"), body, tool: None }
}

/// Work beside its own.
pub(crate) fn task(said: &Value) -> Task {
    let status = match said.text("status") {
        Some("done") => TaskStatus::Done,
        Some("failed") => TaskStatus::Failed,
        Some("stopped") => TaskStatus::Stopped,
        _ => TaskStatus::Running,
    };
    Task {
        id: said.string("id"),
        kind: TaskKind::Agent,
        title: said.string("title"),
        status,
        tool: said.text("tool").map(str::to_owned),
        background: said.is_true("background"),
        summary: said.text("summary").map(str::to_owned),
    }
}

/// A step of its plan.
pub(crate) fn step(step: &Value) -> PlanEntry {
    let status = match step.text("status") {
        Some("done") => PlanStatus::Done,
        Some("active") => PlanStatus::Active,
        _ => PlanStatus::Pending,
    };
    PlanEntry { text: step.string("text"), status }
}
