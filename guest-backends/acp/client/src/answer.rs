//! Which text belongs to which part of the answer.
//!
//! Agents tell text in pieces, some with the id of the message (claude-agent-acp, codex-acp, OpenCode), some without
//! (Gemini CLI, Droid): a part ends where thinking, another message or a tool begins.

use aetheel_backend_sdk::Emit;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Text,
    Thinking,
}

/// The answer of a turn while it takes shape.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    parts: u32,
    last: Option<(Holds, Option<String>)>,
    /// What was said since the last tool use.
    tail: String,
}

impl Answer {
    /// A piece of text arrived.
    pub(crate) fn more(&mut self, holds: Holds, message: Option<&str>, text: &str, emit: &mut Emit) {
        if text.is_empty() {
            return;
        }
        let same = self.last.as_ref().is_some_and(|(was, id)| *was == holds && id.as_deref() == message);
        if !same {
            self.last = Some((holds, message.map(str::to_owned)));
            self.parts += 1;
        }
        let part = self.parts - 1;
        match holds {
            Holds::Text => {
                self.tail.push_str(text);
                emit.text(part, text);
            }
            Holds::Thinking => emit.thinking(part, text),
        }
    }

    /// A tool use began: what was said before it is no part of the final answer.
    pub(crate) fn tool(&mut self) {
        self.last = None;
        self.tail.clear();
    }

    /// The final answer; none: the parts in order.
    pub(crate) fn finish(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.tail)).filter(|tail| !tail.is_empty())
    }
}
