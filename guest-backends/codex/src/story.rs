//! The events of a turn, item by item: the same in both modes.

use std::collections::BTreeMap;

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{Level, PlanEntry, PlanStatus, ToolEnd, ToolStart, ToolStatus};

use crate::answer::Answer;
use crate::tool;

/// Items that say nothing new: the prompt again, hooks of the operator's, waiting, and what
/// sub-agents do by themselves (their end is that of the tool).
const KNOWN: [&str; 4] = ["user_message", "hook_prompt", "sleep", "sub_agent_activity"];

/// A turn as it is told.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) answer: Answer,
    tools: BTreeMap<String, Tool>,
}

#[derive(Debug)]
struct Tool {
    start: ToolStart,
    open: bool,
}

/// Where an item is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Started,
    Updated,
    Completed,
}

impl Story {
    /// Takes an item in. Returns whether the conversation was shortened, which may have lost what
    /// it was told.
    pub(crate) fn item(&mut self, item: &Value, life: Life, emit: &mut Emit) -> bool {
        let name = tool::name(item);
        match name.as_str() {
            "agent_message" | "plan" if life == Life::Completed => {
                let id = emit.required_id(item, "item.id", item);
                let text = emit.required_text(item, "item.text", item);
                self.answer.whole(id, false, text, emit);
            }
            "reasoning" if life == Life::Completed => {
                let id = emit.required_id(item, "item.id", item);
                if !["text", "summary", "content"].iter().any(|key| item.get(key).is_some()) {
                    emit.required_text(item, "item.text", item);
                }
                self.answer.whole(id, true, &reasoning(item), emit)
            }
            "agent_message" | "plan" | "reasoning" => {}
            "todo_list" => {
                let items = emit.required_list(item, "item.items", item);
                for entry in items {
                    emit.required_text(entry, "item.items[].text", item);
                }
                emit.plan(todo(item));
            }
            // Not fatal: an unknown model, an ignored setting, a long AGENTS.md …
            "error" => {
                let message = emit.required_text(item, "item.message", item);
                // A hint for whoever set it up, told in every turn.
                if message.to_ascii_lowercase().contains("unstable feature") {
                    emit.diagnostic(Level::Info, message);
                } else {
                    emit.notice(message);
                }
            }
            "context_compaction" => {
                if life == Life::Completed {
                    emit.notice("The conversation was shortened to fit the model.");
                }
                return life == Life::Completed;
            }
            name if KNOWN.contains(&name) => {}
            _ => match tool::start(&name, item) {
                Some(start) => {
                    tool::check(&name, item, life == Life::Completed, emit);
                    let end = (life == Life::Completed).then(|| tool::end(&name, item));
                    self.tool(start, end, emit);
                }
                None => {
                    let told = item.text("type").map_or_else(
                        || "item without a type".to_owned(),
                        |kind| format!("item type {kind:?}"),
                    );
                    emit.unrecognised(told, Some("item.type".to_owned()), &item.to_string());
                }
            },
        }
        false
    }

    /// The start of a tool that is under way, as it was told.
    pub(crate) fn open_tool(&self, id: &str) -> Option<&ToolStart> {
        self.tools.get(id).filter(|tool| tool.open).map(|tool| &tool.start)
    }

    /// Output of a tool while it runs.
    pub(crate) fn output(&self, id: &str, text: &str, emit: &mut Emit) {
        if self.open_tool(id).is_some() {
            emit.tool_output(id, text);
        }
    }

    /// Ends what is still open: Codex tells no end of what was interrupted.
    pub(crate) fn end(&mut self, emit: &mut Emit) {
        for (id, tool) in std::mem::take(&mut self.tools) {
            if tool.open {
                emit.tool_end(ToolEnd {
                    id,
                    status: ToolStatus::Cancelled,
                    output: None,
                    exit_code: None,
                    diffs: Vec::new(),
                });
            }
        }
    }

    fn tool(&mut self, start: ToolStart, end: Option<ToolEnd>, emit: &mut Emit) {
        let id = start.id.clone();
        match self.tools.get_mut(&id) {
            // Said again after its end.
            Some(tool) if !tool.open => return,
            Some(tool) if tool.start == start => {}
            // It knows more now, for example what it searched for.
            Some(tool) => {
                tool.start = start.clone();
                emit.tool_start(start);
            }
            None => {
                self.tools.insert(id.clone(), Tool { start: start.clone(), open: true });
                emit.tool_start(start);
            }
        }
        if let Some(end) = end {
            emit.tool_end(end);
            if let Some(tool) = self.tools.get_mut(&id) {
                tool.open = false;
            }
        }
    }
}

/// `text` in `exec`; `app-server` tells a summary, or the thoughts themselves where the model gives
/// them.
fn reasoning(item: &Value) -> String {
    let joined = |key: &str| {
        item.list(key).iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n\n")
    };
    match item.text("text") {
        Some(text) => text.to_owned(),
        None => Some(joined("summary"))
            .filter(|summary| !summary.is_empty())
            .unwrap_or_else(|| joined("content")),
    }
}

/// `exec` tells only what is done and what is not.
fn todo(item: &Value) -> Vec<PlanEntry> {
    let entries = item.list("items").iter();
    entries
        .map(|entry| PlanEntry {
            text: entry.text("text").unwrap_or_default().to_owned(),
            status: if entry.is_true("completed") { PlanStatus::Done } else { PlanStatus::Pending },
        })
        .collect()
}

/// Returns the plan that `app-server` tells in `turn/plan/updated`.
pub(crate) fn plan(params: &Value) -> Vec<PlanEntry> {
    let entries = params.list("plan").iter();
    entries
        .map(|entry| PlanEntry {
            text: entry.text("step").unwrap_or_default().to_owned(),
            status: match entry.text("status") {
                Some("completed") => PlanStatus::Done,
                Some("inProgress" | "in_progress") => PlanStatus::Active,
                _ => PlanStatus::Pending,
            },
        })
        .collect()
}
