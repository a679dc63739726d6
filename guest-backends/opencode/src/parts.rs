//! The parts of a turn's messages: text, reasoning, uses of tools, requests to the model.
//!
//! A server tells a part several times, whole each time, and the growth of its text in between; a
//! single run tells it once. Both come here, so that a conversation gives the same events either
//! way.

use std::collections::{BTreeMap, BTreeSet};

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{ToolStart, Usage};

use crate::spent::Spent;
use crate::tool;

/// Parts that say nothing a turn needs: marks of progress, what the user sent, copies of what tools
/// tell better.
const IGNORED: [&str; 8] =
    ["agent", "compaction", "file", "patch", "retry", "snapshot", "step-start", "subtask"];

/// The parts of a turn, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    said: BTreeMap<String, Said>,
    tools: BTreeMap<String, Used>,
    next: u32,
    /// Text parts since the last request to the model began: the answer, if it was the last one.
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
    /// Some of its growth may have been missed: what grows on is told when it is whole.
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
    /// Takes a part as it is now. `parent`: none for the agent itself, `Some` of the tool use it is
    /// nested in for a sub-agent, whose text is not told: it comes back as output of that tool.
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

    /// Notes what a part that is told to nobody used: a summary of the conversation.
    pub(crate) fn aside(&mut self, part: &Value) {
        if part.text("type") == Some("step-finish") {
            self.spent.step(part, false);
        }
    }

    /// Takes a part as it is after events were missed. Of a text that is still written the server
    /// has nothing yet, and what was told of it may have a hole from here on.
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

    /// Adds to the text of a part. One whose beginning is not known is told when it is whole.
    pub(crate) fn delta(&mut self, id: &str, said: &str, emit: &mut Emit) {
        let Some(known) = self.said.get_mut(id).filter(|known| !known.torn) else { return };
        known.text.push_str(said);
        if known.thinking { emit.thinking(known.part, said) } else { emit.text(known.part, said) }
    }

    /// A part is gone.
    pub(crate) fn removed(&mut self, id: &str, emit: &mut Emit) {
        let Some(gone) = self.said.remove(id) else { return };
        self.tail.retain(|part| part != id);
        if gone.thinking {
            emit.whole_thinking(gone.part, "")
        } else {
            emit.whole_text(gone.part, "")
        }
    }

    /// The answer: the text since the last request to the model began. None: the parts in order.
    pub(crate) fn answer(&self) -> Option<String> {
        let text: String = self
            .tail
            .iter()
            .filter_map(|id| self.said.get(id))
            .map(|said| said.text.as_str())
            .collect();
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns the tokens and money of the turn.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.spent.usage()
    }

    /// Returns the start of the tool use with the model's id.
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
        // Nothing but its name is known while the model still writes the input.
        if start != used.start || !known {
            used.start = start.clone();
            emit.tool_start(start);
        }
        // The output so far. A beginning that changed was cut: the end tells all.
        if state.text("status") == Some("running")
            && let Some(output) = state["metadata"].text("output")
            && let Some(more) =
                output.strip_prefix(used.output.as_str()).filter(|more| !more.is_empty())
        {
            emit.tool_output(id, more);
            output.clone_into(&mut used.output);
        }
        if let Some(end) = tool::end(id, name, state) {
            used.ended = true;
            emit.tool_end(end);
        }
    }
}
