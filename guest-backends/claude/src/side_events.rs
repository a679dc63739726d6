//! Events in addition to the conversation: sub-agents, background commands, and the usage of the
//! account.

use std::collections::BTreeMap;

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{EventKind, Quota, Task, TaskKind, TaskStatus};
use aetheel_backend_sdk::{Emit, renewal};

/// The tasks that are reported and not over (`task_started`, `task_notification`; 2.1.197).
#[derive(Debug, Default)]
pub(crate) struct Tasks(BTreeMap<String, Task>);

impl Tasks {
    /// Returns the id of the tool use that started a running task.
    pub(crate) fn tool(&self, id: &str) -> Option<&str> {
        self.0.get(id)?.tool.as_deref()
    }

    /// Handles a line about a task.
    pub(crate) fn update(&mut self, line: &Value, emit: &mut Emit) {
        let Some(id) = line.text("task_id") else { return };
        let text = |key: &str| line.text(key).filter(|text| !text.is_empty()).map(str::to_owned);
        let before = self.0.get(id).cloned();
        let known = before.is_some();
        let mut task = before.unwrap_or_else(|| Task {
            id: id.to_owned(),
            kind: TaskKind::Other,
            title: String::new(),
            status: TaskStatus::Running,
            tool: text("tool_use_id"),
            background: false,
            summary: None,
        });
        match line.text("subtype") {
            Some("task_started") => {
                task.title = text("description").unwrap_or_default();
                (task.kind, task.background) = match line.text("task_type") {
                    Some("local_agent") => (TaskKind::Agent, false),
                    Some("local_bash") => (TaskKind::Command, true),
                    _ => (TaskKind::Other, false),
                };
            }
            // The end is reported twice, the second time with a summary.
            Some("task_notification") => {
                task.status = status(line.text("status"));
                task.summary = text("summary");
            }
            _ => return,
        }
        if task.title.is_empty() {
            task.title = task.summary.clone().unwrap_or_else(|| id.to_owned());
        }
        if known && task.status != TaskStatus::Running {
            self.0.remove(id);
        } else {
            self.0.insert(id.to_owned(), task.clone());
        }
        emit.event(EventKind::Task(task));
    }
}

fn status(word: Option<&str>) -> TaskStatus {
    match word {
        Some("completed") => TaskStatus::Done,
        Some("stopped" | "killed") => TaskStatus::Stopped,
        Some("pending" | "running") => TaskStatus::Running,
        _ => TaskStatus::Failed,
    }
}

/// Reports the usage of the account, which subscriptions print in every run (`rate_limit_info` of
/// the SDK 0.3.332; no recording has one). `resetsAt` is in seconds since 1970.
pub(crate) fn rate_limit(info: &Value, emit: &mut Emit) {
    let status = info.text("status").unwrap_or("allowed");
    let id = info.text("rateLimitType").unwrap_or("account");
    let label = match id {
        "five_hour" => "Claude, 5 hours",
        "seven_day" => "Claude, 7 days",
        "seven_day_opus" => "Claude Opus, 7 days",
        "seven_day_sonnet" => "Claude Sonnet, 7 days",
        _ => "Claude account",
    };
    let used_percent =
        info.number("utilization").map(|used| if used <= 1.0 { used * 100.0 } else { used });
    emit.event(EventKind::Quota(vec![Quota {
        id: id.to_owned(),
        label: label.to_owned(),
        // A warning without a number means that the limit is near.
        used_percent: used_percent.or_else(|| (status == "allowed_warning").then_some(90.0)),
        resets: info.number("resetsAt").and_then(renewal::timestamp),
        exhausted: !matches!(status, "allowed" | "allowed_warning"),
    }]));
}
