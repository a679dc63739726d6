//! Converts the items of a turn into events, the same in both modes.

use std::collections::BTreeMap;

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{Level, PlanEntry, PlanStatus, ToolEnd, ToolStart, ToolStatus};

use crate::answer::Answer;
use crate::tool;

/// Items that are not reported: the prompt, the operator's hooks, waiting, and the activity of
/// sub-agents, which the end of their tool reports.
const KNOWN: [&str; 4] = ["user_message", "hook_prompt", "sleep", "sub_agent_activity"];

/// The items of a turn so far.
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

/// The stage of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemStage {
    Started,
    Updated,
    Completed,
}

impl Story {
    /// Handles an item. Returns whether Codex compacted the conversation, which may have removed
    /// the system prompt.
    pub(crate) fn item(&mut self, item: &Value, stage: ItemStage, emit: &mut Emit) -> bool {
        let name = tool::name(item);
        match name.as_str() {
            "agent_message" | "plan" if stage == ItemStage::Completed => {
                let id = emit.required_id(item, "item.id", item);
                let text = emit.required_text(item, "item.text", item);
                self.answer.whole(id, false, text, emit);
            }
            "reasoning" if stage == ItemStage::Completed => {
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
            // Not fatal: an unknown model, an ignored setting, a long AGENTS.md.
            "error" => {
                let message = emit.required_text(item, "item.message", item);
                warn(message, emit);
            }
            "context_compaction" => {
                emit.compaction(stage == ItemStage::Completed, None, None);
                return stage == ItemStage::Completed;
            }
            name if KNOWN.contains(&name) => {}
            _ => match tool::start(&name, item) {
                Some(start) => {
                    tool::check(&name, item, stage == ItemStage::Completed, emit);
                    let end = (stage == ItemStage::Completed).then(|| tool::end(&name, item));
                    self.tool(start, end, emit);
                }
                None => {
                    let what = item.text("type").map_or_else(
                        || "item without a type".to_owned(),
                        |kind| format!("item type {kind:?}"),
                    );
                    emit.unrecognised(what, Some("item.type".to_owned()), &item.to_string());
                }
            },
        }
        false
    }

    /// Returns the reported start of a running tool.
    pub(crate) fn open_tool(&self, id: &str) -> Option<&ToolStart> {
        self.tools.get(id).filter(|tool| tool.open).map(|tool| &tool.start)
    }

    /// Reports output of a running tool.
    pub(crate) fn output(&self, id: &str, text: &str, emit: &mut Emit) {
        if self.open_tool(id).is_some() {
            emit.tool_output(id, text);
        }
    }

    /// Ends open tools: Codex does not report the end of interrupted ones.
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
            // Repeated after the end.
            Some(tool) if !tool.open => return,
            Some(tool) if tool.start == start => {}
            // The item now has more details, for example the search query.
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

/// Reads `text` of `exec`, or of `app-server` a summary or the thinking itself if the model
/// provides it.
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

/// Reads the plan of `exec`, which only reports whether an entry is done.
fn todo(item: &Value) -> Vec<PlanEntry> {
    let entries = item.list("items").iter();
    entries
        .map(|entry| PlanEntry {
            text: entry.text("text").unwrap_or_default().to_owned(),
            status: if entry.is_true("completed") { PlanStatus::Done } else { PlanStatus::Pending },
        })
        .collect()
}

/// Reads the plan of `app-server` from `turn/plan/updated`.
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

/// Reports a warning of Codex: to the log if it is a hint for the operator, which is repeated in
/// every turn, and otherwise to people.
pub(crate) fn warn(message: &str, emit: &mut Emit) {
    let hint = message.to_ascii_lowercase();
    if ["under-development features", "unstable feature"].iter().any(|words| hint.contains(words)) {
        emit.diagnostic(Level::Info, message);
    } else {
        emit.notice(message);
    }
}
