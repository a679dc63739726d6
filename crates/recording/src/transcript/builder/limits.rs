//! Adds blocks and texts to a transcript within the limits of its size.

use super::TranscriptBuilder;
use crate::transcript::{Block, BlockKind, BoundedText, ToolBlock};

/// Maximum number of blocks of a turn. Further blocks are only counted.
pub(super) const MAX_BLOCKS: usize = 4_000;
/// Maximum size of one text, in bytes.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// Maximum size of all texts of a turn together, in bytes.
pub(super) const MAX_TOTAL_BYTES: usize = 24 << 20;

impl TranscriptBuilder {
    /// Adds a block and returns its index, or `None` if there are too many blocks.
    pub(super) fn push(&mut self, at_ms: u64, what: BlockKind) -> Option<usize> {
        self.open = None;
        if self.transcript.blocks.len() >= MAX_BLOCKS || self.kept >= MAX_TOTAL_BYTES {
            self.transcript.blocks_left_out += 1;
            return None;
        }
        if what.words().is_none() && !matches!(what, BlockKind::Tool(_) | BlockKind::Steered(_)) {
            self.kept += self.line;
        }
        self.transcript.blocks.push(Block { at_ms, kind: what });
        Some(self.transcript.blocks.len() - 1)
    }

    /// Appends to a text as much as the limits allow.
    pub(super) fn add_to(&mut self, words: &mut BoundedText, text: &str) {
        let room = MAX_TEXT_BYTES
            .saturating_sub(words.text.len())
            .min(MAX_TOTAL_BYTES.saturating_sub(self.kept));
        // After a gap nothing may be appended, because it would look contiguous.
        let room = if words.bytes_left_out > 0 { 0 } else { room };
        let taken = text.floor_char_boundary(room);
        words.text.push_str(&text[..taken]);
        words.bytes_left_out += (text.len() - taken) as u64;
        self.kept += taken;
    }

    /// Replaces a text with as much of another one as the limits allow.
    pub(super) fn replace_in(&mut self, words: &mut BoundedText, text: &str) {
        self.kept -= words.text.len();
        *words = BoundedText::default();
        self.add_to(words, text);
    }

    pub(super) fn with_words(
        &mut self,
        at: usize,
        change: impl FnOnce(&mut Self, &mut BoundedText),
    ) {
        let mut what = std::mem::replace(&mut self.transcript.blocks[at].kind, BlockKind::Stopped);
        if let Some(words) = what.words_mut() {
            change(self, words);
        }
        self.transcript.blocks[at].kind = what;
    }

    /// Changes a tool. Returns false if no tool has this id.
    pub(super) fn with_tool(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut Self, &mut ToolBlock),
    ) -> bool {
        let Some(at) = self.tools.get(id).copied() else { return false };
        let mut what = std::mem::replace(&mut self.transcript.blocks[at].kind, BlockKind::Stopped);
        if let BlockKind::Tool(tool) = &mut what {
            change(self, tool);
        }
        self.transcript.blocks[at].kind = what;
        true
    }
}
