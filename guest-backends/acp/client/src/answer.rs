//! Which text belongs to which part of the answer.
//!
//! Agents tell text in pieces, some with the id of the message (claude-agent-acp, codex-acp,
//! OpenCode), some without (Gemini CLI, Droid): a part ends where thinking, another message or a
//! tool begins.

use aetheel_backend_sdk::Emit;

/// Bytes that must be alike before a piece is taken for a second beginning.
const ALIKE: usize = 8;

/// The kind of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Part of the answer.
    Text,
    /// Part of the agent's thinking.
    Thinking,
}

/// The answer of a turn while it takes shape.
#[derive(Debug, Default)]
pub struct Answer {
    parts: u32,
    last: Option<(Holds, Option<String>)>,
    /// The text since the last tool use.
    tail: String,
    /// The text parts since then, the first piece of the first, and when the last piece came.
    shown: Vec<u32>,
    first: String,
    at_ms: f64,
}

impl Answer {
    /// A piece of text arrived, `message` being the id of the message it belongs to.
    pub fn more(&mut self, holds: Holds, message: Option<&str>, text: &str, emit: &mut Emit) {
        if text.is_empty() {
            return;
        }
        let same =
            self.last.as_ref().is_some_and(|(was, id)| *was == holds && id.as_deref() == message);
        if !same {
            self.last = Some((holds, message.map(str::to_owned)));
            self.parts += 1;
        }
        let part = self.parts - 1;
        match holds {
            Holds::Text => {
                if self.tail.is_empty() {
                    text.clone_into(&mut self.first);
                }
                if self.shown.last() != Some(&part) {
                    self.shown.push(part);
                }
                self.tail.push_str(text);
                emit.text(part, text);
            }
            Holds::Thinking => emit.thinking(part, text),
        }
    }

    /// A piece of text is about to come, at a time in milliseconds. Where it begins the answer a
    /// second time after a pause of `gap_ms`, what was said is withdrawn.
    ///
    /// Gemini CLI 0.61.0 asks the model again when the connection breaks, waits a second or more
    /// before it does, and tells the new answer without a word about the old one. A new answer that
    /// begins in other words cannot be told from more of the old.
    pub fn again(&mut self, at_ms: f64, gap_ms: f64, text: &str, emit: &mut Emit) {
        let pause = at_ms - self.at_ms;
        self.at_ms = at_ms;
        let alike = text.starts_with(&self.first) || self.first.starts_with(text);
        if self.tail.is_empty()
            || pause < gap_ms
            || !alike
            || text.len().min(self.first.len()) < ALIKE
        {
            return;
        }
        for part in self.shown.drain(..) {
            emit.whole_text(part, "");
        }
        self.last = None;
        self.tail.clear();
    }

    /// A tool use began: what was said before it is no part of the final answer.
    pub fn tool(&mut self) {
        self.last = None;
        self.tail.clear();
        self.shown.clear();
    }

    /// Returns the final answer; none: the parts in order.
    pub fn finish(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.tail)).filter(|tail| !tail.is_empty())
    }
}
