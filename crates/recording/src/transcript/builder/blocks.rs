//! The blocks of a transcript, within the limits of its size.

use crate::transcript::{AskBlock, Block, BlockKind, BoundedText, ToolBlock};

/// Maximum number of blocks of a turn. Further blocks are only counted.
pub(super) const MAX_BLOCKS: usize = 4_000;
const MAX_TEXT_BYTES: usize = 4 << 20;
/// Maximum size of all texts of a turn together, in bytes.
const MAX_TOTAL_BYTES: usize = 24 << 20;

/// The size of all stored texts, in bytes.
#[derive(Default)]
pub(super) struct TextSize(usize);

impl TextSize {
    fn is_full(&self) -> bool {
        self.0 >= MAX_TOTAL_BYTES
    }

    /// Adds data of this size, unless the limit is too low. Returns whether it was added.
    pub(super) fn add_whole(&mut self, bytes: usize) -> bool {
        let fits = bytes <= MAX_TOTAL_BYTES.saturating_sub(self.0);
        self.0 += if fits { bytes } else { 0 };
        fits
    }

    /// Appends to a text as much as the limits allow.
    pub(super) fn add_to(&mut self, words: &mut BoundedText, text: &str) {
        let room = MAX_TEXT_BYTES
            .saturating_sub(words.text.len())
            .min(MAX_TOTAL_BYTES.saturating_sub(self.0));
        // After a gap nothing may be appended, because it would look contiguous.
        let room = if words.bytes_left_out > 0 { 0 } else { room };
        let fitting = text.floor_char_boundary(room);
        words.text.push_str(&text[..fitting]);
        words.bytes_left_out += (text.len() - fitting) as u64;
        self.0 += fitting;
    }

    pub(super) fn clear(&mut self, words: &mut BoundedText) {
        self.0 -= words.text.len();
        *words = BoundedText::default();
    }

    /// Replaces a text with as much of another one as the limits allow.
    pub(super) fn replace_in(&mut self, words: &mut BoundedText, text: &str) {
        self.clear(words);
        self.add_to(words, text);
    }
}

/// The blocks so far. Indexes of blocks stay valid.
#[derive(Default)]
pub(super) struct BoundedBlocks {
    pub(super) list: Vec<Block>,
    /// The number of blocks that were left out because there were too many.
    pub(super) left_out: u64,
    /// The last block, unless one was left out after it.
    last: Option<usize>,
    size: TextSize,
    /// The size of the line of the recording that is being added, in bytes.
    pub(super) line: usize,
}

impl BoundedBlocks {
    /// Adds a block and returns its index, or `None` if there are too many blocks.
    pub(super) fn push(&mut self, at_ms: u64, kind: BlockKind) -> Option<usize> {
        self.last = None;
        if self.list.len() >= MAX_BLOCKS || self.size.is_full() {
            self.left_out += 1;
            return None;
        }
        if kind.words().is_none() && !matches!(kind, BlockKind::Tool(_) | BlockKind::Steered(_)) {
            self.size.0 += self.line;
        }
        self.list.push(Block { at_ms, kind });
        self.last = Some(self.list.len() - 1);
        self.last
    }

    /// Returns whether no other block followed this one.
    pub(super) fn is_last(&self, at: usize) -> bool {
        self.last == Some(at)
    }

    /// Makes a text for a new block with as much of `text` as the limits allow.
    pub(super) fn bounded(&mut self, text: &str) -> BoundedText {
        let mut words = BoundedText::default();
        self.size.add_to(&mut words, text);
        words
    }

    /// Returns the text of a block. It is empty for a block that is not a text.
    pub(super) fn text(&self, at: usize) -> &str {
        self.list[at].kind.words().map_or("", |words| &words.text)
    }

    pub(super) fn append(&mut self, at: usize, text: &str) {
        if let Some(words) = self.list[at].kind.words_mut() {
            self.size.add_to(words, text);
        }
    }

    pub(super) fn clear_text(&mut self, at: usize) {
        if let Some(words) = self.list[at].kind.words_mut() {
            self.size.clear(words);
        }
    }

    /// Returns the tool of a block, with the size to which its texts count.
    pub(super) fn tool(&mut self, at: usize) -> Option<(&mut ToolBlock, &mut TextSize)> {
        match &mut self.list[at].kind {
            BlockKind::Tool(tool) => Some((tool, &mut self.size)),
            _ => None,
        }
    }

    pub(super) fn asked(&mut self, at: usize) -> Option<&mut AskBlock> {
        match &mut self.list[at].kind {
            BlockKind::Asked(asked) => Some(asked),
            _ => None,
        }
    }
}
