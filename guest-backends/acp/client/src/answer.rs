//! Splits an answer into parts.
//!
//! Agents send text in pieces, some with the id of the message (claude-agent-acp, codex-acp,
//! OpenCode), some without (Gemini CLI, Droid). A part ends where thinking, another message or a
//! tool call begins.

use aetheel_backend_sdk::Emit;

/// Minimum length in bytes of the common beginning of a repeated answer.
const ALIKE: usize = 8;

/// The kind of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Part of the answer.
    Text,
    /// Part of the agent's thinking.
    Thinking,
}

/// The answer of a running turn.
#[derive(Debug, Default)]
pub struct Answer {
    parts: u32,
    last: Option<(Holds, Option<String>)>,
    /// The text since the last tool use.
    tail: String,
    /// The indices of the text parts since the last tool use.
    shown: Vec<u32>,
    first: String,
    at_ms: f64,
}

impl Answer {
    /// Adds a piece of text that belongs to the message `message`.
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

    /// Must be called before each piece of text. If the piece repeats the beginning of the answer
    /// after a pause of at least `gap_ms`, the text since the last tool use is withdrawn. `at_ms`
    /// is the current time.
    ///
    /// After a connection error, Gemini CLI 0.61.0 waits for at least a second, asks the model
    /// again, and sends the new answer without withdrawing the old one. If the new answer begins
    /// with other words, it cannot be distinguished from a continuation.
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

    /// Starts a tool use. Text before a tool use is not part of the final answer.
    pub fn tool(&mut self) {
        self.last = None;
        self.tail.clear();
        self.shown.clear();
    }

    /// Returns the final answer, or `None` if the answer consists of the parts in order.
    pub fn finish(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.tail)).filter(|tail| !tail.is_empty())
    }
}
