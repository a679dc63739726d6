//! Collects the text of the answer, which arrives in pieces and then as a whole.
//!
//! A message of the model arrives as a stream of blocks. Each block is followed by an `assistant`
//! line with the whole block, which is authoritative. When the connection breaks, Claude Code
//! repeats the request without streaming. The pieces of the interrupted message are then withdrawn,
//! so that users do not see them twice.

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::wit::{ToolEnd, ToolStatus};

/// The content of a block of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Text,
    Thinking,
    /// The use of the tool with this id.
    Tool(String),
}

#[derive(Debug)]
struct Block {
    /// Index in the streamed message.
    index: u32,
    /// Number of the part in the turn.
    part: u32,
    holds: Holds,
    text: String,
    whole: bool,
}

/// The answer of the current turn.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    parts: u32,
    message: Option<String>,
    /// Whether the model reported why the message ended, so that it will not be requested again.
    complete: bool,
    blocks: Vec<Block>,
    /// Whole texts since the last tool use; `before` is the length without the current message.
    tail: String,
    before: usize,
}

impl Answer {
    /// Begins a message and withdraws an unfinished one before it.
    pub(crate) fn begin(&mut self, id: Option<&str>, emit: &mut Emit) {
        if !self.complete {
            self.withdraw(emit);
        }
        self.message = id.map(str::to_owned);
        self.complete = false;
        self.blocks.clear();
        self.before = self.tail.len();
    }

    /// Begins a block of the message.
    pub(crate) fn open(&mut self, index: u32, holds: Holds, text: &str, emit: &mut Emit) {
        self.push(index, holds);
        if !text.is_empty() {
            self.more(index, text, emit);
        }
    }

    /// Appends to a block. Returns false if there is no such block.
    pub(crate) fn more(&mut self, index: u32, text: &str, emit: &mut Emit) -> bool {
        let Some(block) =
            self.blocks.iter_mut().rev().find(|block| block.index == index && !block.whole)
        else {
            return false;
        };
        block.text.push_str(text);
        match block.holds {
            Holds::Text => emit.text(block.part, text),
            Holds::Thinking => emit.thinking(block.part, text),
            Holds::Tool(_) => {}
        }
        true
    }

    /// Records that the model reported why the message ended.
    pub(crate) fn complete(&mut self) {
        self.complete = true;
    }

    /// Handles a whole block of the message with this id.
    pub(crate) fn whole(
        &mut self,
        message: Option<&str>,
        holds: Holds,
        text: &str,
        emit: &mut Emit,
    ) {
        if message.is_some() && message != self.message.as_deref() {
            self.begin(message, emit);
            // The message was not streamed, so there is nothing to withdraw.
            self.complete = true;
        }
        match &holds {
            Holds::Text => self.tail.push_str(text),
            Holds::Thinking => {}
            Holds::Tool(_) => {
                self.tail.clear();
                self.before = 0;
            }
        }
        let at = match self.blocks.iter().position(|block| !block.whole && block.holds == holds) {
            Some(at) => at,
            None => self.push(u32::MAX, holds),
        };
        let block = &mut self.blocks[at];
        block.whole = true;
        let rest = text.strip_prefix(block.text.as_str());
        match (&block.holds, rest) {
            (Holds::Tool(_), _) | (_, Some("")) => {}
            // Keep the pieces if the whole text is missing.
            (_, None) if text.is_empty() => {}
            (Holds::Text, Some(rest)) => emit.text(block.part, rest),
            (Holds::Text, None) => emit.whole_text(block.part, text),
            (Holds::Thinking, Some(rest)) => emit.thinking(block.part, rest),
            (Holds::Thinking, None) => emit.whole_thinking(block.part, text),
        }
    }

    /// Adds text that belongs to no message of the model.
    pub(crate) fn aside(&mut self, text: &str, emit: &mut Emit) {
        emit.text(self.parts, text);
        self.parts += 1;
    }

    /// Returns the whole answer, given the text of the agent's result, and begins a new one.
    /// Returns `None` if the answer is the parts in order.
    ///
    /// The result contains only the last block of the last message. A message that reached the
    /// model's output limit was continued in another one, and its text belongs to the answer too.
    pub(crate) fn finish(&mut self, result: &str) -> Option<String> {
        let tail = std::mem::take(&mut self.tail);
        self.before = 0;
        self.complete = true;
        match result {
            "" => None,
            _ if tail.ends_with(result) => Some(tail),
            _ => Some(result.to_owned()),
        }
    }

    /// Returns the whole answer when the text of the result is unknown, and begins a new one.
    /// Returns `None` if the answer is the parts in order.
    pub(crate) fn rest(&mut self) -> Option<String> {
        let tail = self.tail.clone();
        self.finish(&tail)
    }

    fn push(&mut self, index: u32, holds: Holds) -> usize {
        self.blocks.push(Block {
            index,
            part: self.parts,
            holds,
            text: String::new(),
            whole: false,
        });
        self.parts += 1;
        self.blocks.len() - 1
    }

    fn withdraw(&mut self, emit: &mut Emit) {
        self.tail.truncate(self.before);
        for block in self.blocks.drain(..) {
            match block.holds {
                Holds::Text if !block.text.is_empty() || block.whole => {
                    emit.whole_text(block.part, "")
                }
                Holds::Thinking if !block.text.is_empty() || block.whole => {
                    emit.whole_thinking(block.part, "")
                }
                // The use was announced but the whole block never arrived, so the tool did not run.
                Holds::Tool(id) if !block.whole => {
                    emit.tool_end(ToolEnd {
                        id,
                        status: ToolStatus::Cancelled,
                        output: None,
                        exit_code: None,
                        diffs: Vec::new(),
                    });
                }
                _ => {}
            }
        }
    }
}
