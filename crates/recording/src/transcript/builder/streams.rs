//! Texts that arrive in pieces: the answer, the thinking, and the texts of sub-agents.

use std::collections::HashMap;

use super::blocks::BoundedBlocks;
use crate::transcript::BlockKind;
use aetheel_model::agent::TextEvent;

/// The key of a streamed text: the part of the answer or of the thinking, or the sub-agent and its
/// part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum TextStream {
    Text(u32),
    Thinking(u32),
    Aside(String, u32),
}

impl TextStream {
    pub(super) fn of_answer(event: &TextEvent) -> Self {
        Self::of_sub_agent(event).unwrap_or(Self::Text(event.part))
    }

    pub(super) fn of_thinking(event: &TextEvent) -> Self {
        Self::of_sub_agent(event).unwrap_or(Self::Thinking(event.part))
    }

    fn of_sub_agent(event: &TextEvent) -> Option<Self> {
        Some(Self::Aside(event.parent.clone()?, event.part))
    }
}

/// The blocks of each stream, in order.
#[derive(Default)]
pub(super) struct TextStreams(HashMap<TextStream, Vec<usize>>);

impl TextStreams {
    /// Adds a piece of text to a stream, or replaces its text.
    pub(super) fn add(
        &mut self,
        stream: TextStream,
        event: &TextEvent,
        blocks: &mut BoundedBlocks,
        at_ms: u64,
    ) {
        if event.replace {
            self.replace(stream, &event.text, blocks, at_ms);
        } else if !event.text.is_empty() {
            self.append(stream, &event.text, blocks, at_ms);
        }
    }

    /// Adds text to a stream. If another block interrupted the stream, the text begins a new block,
    /// so that the order is visible. Text of a sub-agent stays in one block.
    fn append(&mut self, stream: TextStream, text: &str, blocks: &mut BoundedBlocks, at_ms: u64) {
        let last = self.0.get(&stream).and_then(|of| of.last()).copied();
        let goes_on = |at: &usize| blocks.is_last(*at) || matches!(stream, TextStream::Aside(..));
        if let Some(at) = last.filter(goes_on) {
            return blocks.append(at, text);
        }
        let words = blocks.bounded(text);
        let kind = match &stream {
            TextStream::Text(_) => BlockKind::Text(words),
            TextStream::Thinking(_) => BlockKind::Thinking(words),
            TextStream::Aside(tool, _) => BlockKind::SubAgent(tool.clone(), words),
        };
        if let Some(at) = blocks.push(at_ms, kind) {
            self.0.entry(stream).or_default().push(at);
        }
    }

    /// Replaces the text of a stream. Text that is already there stays in its blocks.
    fn replace(&mut self, stream: TextStream, text: &str, blocks: &mut BoundedBlocks, at_ms: u64) {
        let of_stream = self.0.get(&stream).map_or(&[][..], Vec::as_slice);
        let written: String = of_stream.iter().map(|at| blocks.text(*at)).collect();
        if let Some(more) = text.strip_prefix(written.as_str()) {
            match of_stream.last().filter(|_| !written.is_empty()) {
                Some(at) => blocks.append(*at, more),
                None if text.is_empty() => {}
                None => self.append(stream, text, blocks, at_ms),
            }
            return;
        }
        // The text is different, so it goes to the stream's last block.
        let Some(last) = of_stream.last() else { return };
        of_stream.iter().for_each(|at| blocks.clear_text(*at));
        blocks.append(*last, text);
    }
}
