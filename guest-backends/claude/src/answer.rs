//! Which text belongs to the answer, told piece by piece and then whole.
//!
//! A model message comes as a stream of blocks, each followed by an `assistant` line with the whole
//! block, which is what counts. When the connection breaks, Claude Code asks again without
//! streaming: the pieces of the broken message are withdrawn then, or people would read them twice.

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
    /// Place in the streamed message.
    index: u32,
    /// Place in the turn.
    part: u32,
    holds: Holds,
    said: String,
    whole: bool,
}

/// The answer while it takes shape.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    parts: u32,
    message: Option<String>,
    /// The model said why the message ended: it will not be asked for again.
    complete: bool,
    blocks: Vec<Block>,
    /// Whole texts since the last tool use, and how long that was before the current message.
    tail: String,
    before: usize,
}

impl Answer {
    /// Begins a message; an unfinished one before it is taken back.
    pub(crate) fn begin(&mut self, id: Option<&str>, emit: &mut Emit) {
        if !self.complete {
            self.withdraw(emit);
        }
        self.message = id.map(str::to_owned);
        self.complete = false;
        self.blocks.clear();
        self.before = self.tail.len();
    }

    /// A block of the message begins.
    pub(crate) fn open(&mut self, index: u32, holds: Holds, said: &str, emit: &mut Emit) {
        self.push(index, holds);
        if !said.is_empty() {
            self.more(index, said, emit);
        }
    }

    /// More of a block arrived. Returns false when there is no such block.
    pub(crate) fn more(&mut self, index: u32, said: &str, emit: &mut Emit) -> bool {
        let Some(block) =
            self.blocks.iter_mut().rev().find(|block| block.index == index && !block.whole)
        else {
            return false;
        };
        block.said.push_str(said);
        match block.holds {
            Holds::Text => emit.text(block.part, said),
            Holds::Thinking => emit.thinking(block.part, said),
            Holds::Tool(_) => {}
        }
        true
    }

    /// The model said why the message ended.
    pub(crate) fn complete(&mut self) {
        self.complete = true;
    }

    /// A block is told whole, as part of the message with this id.
    pub(crate) fn whole(
        &mut self,
        message: Option<&str>,
        holds: Holds,
        said: &str,
        emit: &mut Emit,
    ) {
        if message.is_some() && message != self.message.as_deref() {
            self.begin(message, emit);
            // It came in one piece: there is nothing of it to withdraw.
            self.complete = true;
        }
        match &holds {
            Holds::Text => self.tail.push_str(said),
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
        let rest = said.strip_prefix(block.said.as_str());
        match (&block.holds, rest) {
            (Holds::Tool(_), _) | (_, Some("")) => {}
            // Nothing is withdrawn because the whole text is missing.
            (_, None) if said.is_empty() => {}
            (Holds::Text, Some(rest)) => emit.text(block.part, rest),
            (Holds::Text, None) => emit.whole_text(block.part, said),
            (Holds::Thinking, Some(rest)) => emit.thinking(block.part, rest),
            (Holds::Thinking, None) => emit.whole_thinking(block.part, said),
        }
    }

    /// Tells text that belongs to no model message.
    pub(crate) fn aside(&mut self, said: &str, emit: &mut Emit) {
        emit.text(self.parts, said);
        self.parts += 1;
    }

    /// Returns the whole answer for what the agent calls its result, and begins a new one. None:
    /// the parts in order.
    ///
    /// The result is only the last block of the last message. A message that ran into the model's
    /// output limit was continued in another one, and its text belongs to the answer.
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

    /// Returns the whole answer where its result is not told, and begins a new one. None: the parts
    /// in order.
    pub(crate) fn rest(&mut self) -> Option<String> {
        let tail = self.tail.clone();
        self.finish(&tail)
    }

    fn push(&mut self, index: u32, holds: Holds) -> usize {
        self.blocks.push(Block {
            index,
            part: self.parts,
            holds,
            said: String::new(),
            whole: false,
        });
        self.parts += 1;
        self.blocks.len() - 1
    }

    fn withdraw(&mut self, emit: &mut Emit) {
        self.tail.truncate(self.before);
        for block in self.blocks.drain(..) {
            match block.holds {
                Holds::Text if !block.said.is_empty() || block.whole => {
                    emit.whole_text(block.part, "")
                }
                Holds::Thinking if !block.said.is_empty() || block.whole => {
                    emit.whole_thinking(block.part, "")
                }
                // Announced, but the whole use never came: it did not run.
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
