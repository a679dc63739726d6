//! What the demo agent makes and works on, as its lines tell it.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{
    Artifact, ArtifactBody, PlanEntry, PlanStatus, Task, TaskKind, TaskStatus,
};

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
