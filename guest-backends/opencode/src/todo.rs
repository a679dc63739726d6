//! Converts the agent's list of todos.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{PlanEntry, PlanStatus};

/// Converts a list of todos into a plan. Cancelled todos are left out.
pub(crate) fn plan(todos: &[Value]) -> Vec<PlanEntry> {
    let entry = |todo: &Value| {
        let status = match todo.text("status") {
            Some("completed") => PlanStatus::Done,
            Some("in_progress") => PlanStatus::Active,
            Some("cancelled") => return None,
            _ => PlanStatus::Pending,
        };
        Some(PlanEntry { text: todo.text("content")?.to_owned(), status })
    };
    todos.iter().filter_map(entry).collect()
}
