//! Collects the blocks of an answer. Each block arrives in pieces, and then again as a whole.

use aetheel_backend_sdk::Emit;

/// The content of a block of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Text,
    Thinking,
}

#[derive(Debug)]
struct Block {
    message: String,
    /// The index in the message.
    index: u32,
    part: u32,
    holds: Holds,
    said: String,
    withdrawn: bool,
}

/// The answer of a running turn.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    blocks: Vec<Block>,
    /// The texts of complete messages since the last tool use.
    last: Vec<String>,
}

/// The model's reply when Droid 0.225.2 reminds it of open to-dos. It is not part of the answer.
pub(crate) const REMINDED: &str = "Plan is up-to-date.";

impl Answer {
    /// Adds a piece of a block.
    pub(crate) fn more(
        &mut self,
        message: &str,
        index: u32,
        holds: Holds,
        said: &str,
        emit: &mut Emit,
    ) {
        let block = self.block(message, index, holds);
        block.said.push_str(said);
        match holds {
            Holds::Text => emit.text(block.part, said),
            Holds::Thinking => emit.thinking(block.part, said),
        }
    }

    /// Handles a complete block.
    pub(crate) fn whole(
        &mut self,
        message: &str,
        index: u32,
        holds: Holds,
        said: &str,
        emit: &mut Emit,
    ) {
        let block = self.block(message, index, holds);
        // An empty text does not withdraw the pieces.
        if said.is_empty() {
            return;
        }
        let before = std::mem::replace(&mut block.said, said.to_owned());
        match (said.strip_prefix(before.as_str()), holds) {
            (Some(""), _) => {}
            (Some(rest), Holds::Text) => emit.text(block.part, rest),
            (Some(rest), Holds::Thinking) => emit.thinking(block.part, rest),
            (None, Holds::Text) => emit.whole_text(block.part, said),
            (None, Holds::Thinking) => emit.whole_thinking(block.part, said),
        }
    }

    /// Handles the end of a message. `text` is its whole text, or `None` if the message uses tools
    /// and is not part of the final answer.
    pub(crate) fn message(&mut self, message: &str, text: Option<String>, emit: &mut Emit) {
        match text {
            None => self.last.clear(),
            Some(text) if text.trim() == REMINDED && !self.last.is_empty() => {
                self.retract(message, emit)
            }
            Some(text) => self.last.extend(Some(text).filter(|text| !text.is_empty())),
        }
    }

    /// Withdraws a message. The model is asked again, and the new message may have the same id.
    pub(crate) fn retract(&mut self, message: &str, emit: &mut Emit) {
        for block in
            self.blocks.iter_mut().filter(|block| block.message == message && !block.withdrawn)
        {
            block.withdrawn = true;
            match block.holds {
                Holds::Text => emit.whole_text(block.part, ""),
                Holds::Thinking => emit.whole_thinking(block.part, ""),
            }
        }
    }

    /// Returns whether there is any text.
    pub(crate) fn has_text(&self) -> bool {
        self.blocks
            .iter()
            .any(|block| block.holds == Holds::Text && !block.withdrawn && !block.said.is_empty())
    }

    /// Returns the final answer, or `None` if the answer consists of the parts in order.
    pub(crate) fn last(&mut self) -> Option<String> {
        let said = std::mem::take(&mut self.last);
        (!said.is_empty()).then(|| said.join("\n\n"))
    }

    fn block(&mut self, message: &str, index: u32, holds: Holds) -> &mut Block {
        let same = |block: &Block| {
            block.message == message
                && block.index == index
                && block.holds == holds
                && !block.withdrawn
        };
        let at = match self.blocks.iter().position(same) {
            Some(at) => at,
            None => {
                let part = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
                let said = String::new();
                self.blocks.push(Block {
                    message: message.to_owned(),
                    index,
                    part,
                    holds,
                    said,
                    withdrawn: false,
                });
                self.blocks.len() - 1
            }
        };
        &mut self.blocks[at]
    }
}
