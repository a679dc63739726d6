//! The agent's plan: tasks that it creates and completes with tools, or a list that it writes as a
//! whole.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{PlanEntry, PlanStatus};

/// The plan so far, and the tool uses that change it once they succeed.
#[derive(Debug, Default)]
pub(crate) struct Todo {
    tasks: Vec<Task>,
    pending: Vec<(String, Change)>,
}

#[derive(Debug)]
struct Task {
    id: String,
    entry: PlanEntry,
}

#[derive(Debug)]
enum Change {
    Create,
    Update(Value<'static>),
}

impl Todo {
    /// Returns the tasks as JSON, for another instance. They do not change between turns.
    pub(crate) fn save_state(&self) -> serde_json::Value {
        let word = |status| match status {
            PlanStatus::Done => "completed",
            PlanStatus::Active => "in_progress",
            PlanStatus::Pending => "pending",
        };
        let task = |task: &Task| serde_json::json!({ "id": task.id, "subject": task.entry.text, "status": word(task.entry.status) });
        self.tasks.iter().map(task).collect()
    }

    /// Reads the tasks that another instance saved.
    pub(crate) fn restore(tasks: &[Value]) -> Self {
        let task = |task: &Value| {
            Some(Task { id: task.text("id")?.to_owned(), entry: entry(task, "subject")? })
        };
        Self { tasks: tasks.iter().filter_map(task).collect(), pending: Vec::new() }
    }

    /// Records the use of a tool. Returns the plan if the use replaces it at once.
    pub(crate) fn used(&mut self, id: &str, tool: &str, input: &Value) -> Option<Vec<PlanEntry>> {
        match tool {
            // Claude Code up to 2.0.
            "TodoWrite" => {
                return Some(
                    input.list("todos").iter().filter_map(|todo| entry(todo, "content")).collect(),
                );
            }
            "TaskCreate" => self.pending.push((id.to_owned(), Change::Create)),
            "TaskUpdate" => self.pending.push((id.to_owned(), Change::Update(input.to_static()))),
            _ => {}
        }
        None
    }

    /// Records the end of a tool use. Returns the plan if it changed.
    pub(crate) fn ended(&mut self, id: &str, ok: bool, result: &Value) -> Option<Vec<PlanEntry>> {
        let at = self.pending.iter().position(|(pending, _)| pending == id)?;
        let (_, change) = self.pending.swap_remove(at);
        if !ok {
            return None;
        }
        match change {
            Change::Create => {
                let task = result.get("task")?;
                self.tasks
                    .push(Task { id: task.text("id")?.to_owned(), entry: entry(task, "subject")? });
            }
            Change::Update(input) => {
                let id = input.text("taskId")?;
                if input.text("status") == Some("deleted") {
                    self.tasks.retain(|task| task.id != id);
                } else {
                    let task = self.tasks.iter_mut().find(|task| task.id == id)?;
                    if let Some(text) = input.text("subject") {
                        text.clone_into(&mut task.entry.text);
                    }
                    if input.get("status").is_some() {
                        task.entry.status = status(&input);
                    }
                }
            }
        }
        Some(self.tasks.iter().map(|task| task.entry.clone()).collect())
    }
}

fn entry(value: &Value, text: &str) -> Option<PlanEntry> {
    Some(PlanEntry { text: value.text(text)?.to_owned(), status: status(value) })
}

fn status(value: &Value) -> PlanStatus {
    match value.text("status") {
        Some("completed") => PlanStatus::Done,
        Some("in_progress") => PlanStatus::Active,
        _ => PlanStatus::Pending,
    }
}
