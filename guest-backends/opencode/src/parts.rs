//! The parts of a turn's messages: text, reasoning, tool uses, and model requests.
//!
//! A server reports a part several times as a whole, and the growth of its text in between. A
//! one-shot run reports it once. This module handles both, so that both modes emit the same events.

use std::collections::{BTreeMap, BTreeSet};

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{ToolStart, Usage};

use crate::spent::Spent;
use crate::tool;

/// Parts that are not relevant for a turn: progress marks, the user's message, and data that tools
/// also report.
const IGNORED: [&str; 8] =
    ["agent", "compaction", "file", "patch", "retry", "snapshot", "step-start", "subtask"];

/// The known parts of a turn.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    said: BTreeMap<String, Said>,
    tools: BTreeMap<String, Used>,
    next: u32,
    /// The ids of text parts since the start of the last model request. They form the answer if it
    /// is the final request.
    tail: Vec<String>,
    steps: BTreeSet<String>,
    spent: Spent,
}

/// A part with text.
#[derive(Debug)]
struct Said {
    part: u32,
    thinking: bool,
    text: String,
    /// Whether some of its text may be missing. Further text is only reported when the part is
    /// complete.
    torn: bool,
}

/// A use of a tool.
#[derive(Debug)]
struct Used {
    call: String,
    start: ToolStart,
    output: String,
    ended: bool,
}

impl Parts {
    /// Handles the current state of a part. `parent` is `None` for the agent itself. For a
    /// sub-agent, it is the tool use that started it, if known; text of a sub-agent is not
    /// reported, because it is output of that tool.
    pub(crate) fn part(&mut self, part: &Value, parent: Option<Option<&str>>, emit: &mut Emit) {
        let id = match part.text("type") {
            Some("text" | "reasoning" | "tool") => emit.required_id(part, "part.id", part),
            _ => part.text("id").unwrap_or_default(),
        };
        match (part.text("type"), parent) {
            (Some("text" | "reasoning"), Some(_)) => {}
            (Some("text"), None) => {
                let text = emit.required_text(part, "part.text", part);
                self.whole(id, false, text, emit)
            }
            (Some("reasoning"), None) => {
                let text = emit.required_text(part, "part.text", part);
                self.whole(id, true, text, emit)
            }
            (Some("tool"), _) => self.tool(id, part, parent.flatten(), emit),
            (Some("step-finish"), _) => {
                emit.required_object(part, "part.tokens", part);
                self.spent.step(part, parent.is_none());
                if let Some(usage) = self.spent.usage() {
                    emit.usage(usage);
                }
            }
            (Some("step-start"), None) => {
                if self.steps.insert(id.to_owned()) {
                    self.tail.clear();
                }
            }
            (Some(kind), _) if IGNORED.contains(&kind) => {}
            (kind, _) => {
                emit.unrecognised(
                    format!("message part {:?}", kind.unwrap_or("none")),
                    Some("part.type".to_owned()),
                    &part.to_string(),
                );
            }
        }
    }

    /// Counts the usage of a part that is not reported, such as a summary of the conversation.
    pub(crate) fn aside(&mut self, part: &Value) {
        if part.text("type") == Some("step-finish") {
            self.spent.step(part, false);
        }
    }

    /// Handles the current state of a part after events were missed. If its text is still being
    /// written, the server reports it as empty, and the known text may lack a piece from here on.
    pub(crate) fn missed(&mut self, part: &Value, emit: &mut Emit) {
        let text = part.text("text").unwrap_or_default();
        if matches!(part.text("type"), Some("text" | "reasoning")) {
            match self.said.get_mut(part.text("id").unwrap_or_default()) {
                Some(known) if known.text.starts_with(text) => {
                    known.torn = known.text != text;
                    return;
                }
                None if text.is_empty() => return,
                _ => {}
            }
        }
        self.part(part, None, emit);
    }

    /// Adds to the text of a part. If its beginning is unknown, the text is only reported when the
    /// part is complete.
    pub(crate) fn delta(&mut self, id: &str, said: &str, emit: &mut Emit) {
        let Some(known) = self.said.get_mut(id).filter(|known| !known.torn) else { return };
        known.text.push_str(said);
        if known.thinking { emit.thinking(known.part, said) } else { emit.text(known.part, said) }
    }

    /// Withdraws a removed part.
    pub(crate) fn removed(&mut self, id: &str, emit: &mut Emit) {
        let Some(gone) = self.said.remove(id) else { return };
        self.tail.retain(|part| part != id);
        if gone.thinking {
            emit.whole_thinking(gone.part, "")
        } else {
            emit.whole_text(gone.part, "")
        }
    }

    /// Returns the answer, which is the text since the start of the last model request, or `None`
    /// if the answer consists of the parts in order.
    pub(crate) fn answer(&self) -> Option<String> {
        let text: String = self
            .tail
            .iter()
            .filter_map(|id| self.said.get(id))
            .map(|said| said.text.as_str())
            .collect();
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns the token usage and cost of the turn.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.spent.usage()
    }

    /// Returns the start of the tool use with this call id of the model.
    pub(crate) fn used(&self, call: &str) -> Option<&ToolStart> {
        self.tools.values().rev().find(|used| used.call == call).map(|used| &used.start)
    }

    fn whole(&mut self, id: &str, thinking: bool, text: &str, emit: &mut Emit) {
        if !self.said.contains_key(id) {
            self.said.insert(
                id.to_owned(),
                Said { part: self.next, thinking, text: String::new(), torn: false },
            );
            self.next += 1;
            if !thinking {
                self.tail.push(id.to_owned());
            }
        }
        let Some(known) = self.said.get_mut(id) else { return };
        known.torn = false;
        match (text.strip_prefix(known.text.as_str()), known.thinking) {
            (Some(""), _) => {}
            (Some(rest), false) => emit.text(known.part, rest),
            (Some(rest), true) => emit.thinking(known.part, rest),
            (None, false) => emit.whole_text(known.part, text),
            (None, true) => emit.whole_thinking(known.part, text),
        }
        text.clone_into(&mut known.text);
    }

    fn tool(&mut self, id: &str, part: &Value, parent: Option<&str>, emit: &mut Emit) {
        let name = emit.required_id(part, "part.tool", part);
        let state = emit.required_object(part, "part.state", part);
        emit.required_id(state, "part.state.status", part);
        let known = self.tools.contains_key(id);
        let used = self.tools.entry(id.to_owned()).or_insert_with(|| Used {
            call: part.text("callID").unwrap_or_default().to_owned(),
            start: tool::start(id, name, parent, &Value::Null),
            output: String::new(),
            ended: false,
        });
        if used.ended {
            return;
        }
        let start = tool::start(id, name, parent, &state["input"]);
        // While the model writes the input, only the tool's name is known.
        if start != used.start || !known {
            used.start = start.clone();
            emit.tool_start(start);
        }
        // The output so far. Its beginning changes if it was cut.
        if state.text("status") == Some("running")
            && let Some(output) = state["metadata"].text("output")
            && output != used.output
        {
            match output.strip_prefix(used.output.as_str()) {
                Some(more) => emit.tool_output(id, more),
                None => emit.whole_tool_output(id, output),
            }
            output.clone_into(&mut used.output);
        }
        if let Some(end) = tool::end(id, name, state) {
            used.ended = true;
            emit.tool_end(end);
        }
    }
}
