//! Splits an answer into messages.
//!
//! Pure and linear in the length of the text. A piece has a maximum number of characters (Unicode
//! scalar values, which serenity 0.12.5 counts for Discord's limit of 2000), is cut at the best
//! boundary, and renders by itself: a code fence in which it ends is closed, and opened again in
//! the next piece with its language, indent and length. Apart from these lines and from white space
//! around a cut, the pieces joined are the text; `tests` checks the properties.

mod cut;

use std::ops::Range;

use cut::PieceCutter;

use crate::markdown::CodeFence;

/// Splits text into pieces of at most `limit` characters, none of them blank.
///
/// Cuts between paragraphs or around a code block if that leaves half a piece or avoids cutting a
/// block that fits into one piece. Otherwise cuts at a line, a sentence, a word, and only then
/// within a word, without splitting combined characters if possible. Lines inside a fence are kept
/// unchanged. A fence that the text leaves open is closed, because Discord only then shows it as
/// code. An opening line that takes half a piece is treated as plain text.
#[must_use]
pub fn split(text: &str, limit: usize) -> Vec<String> {
    pieces(text, limit).iter().map(|piece| piece.render(text)).collect()
}

#[derive(Debug)]
struct TextPiece<'a> {
    range: Range<usize>,
    /// The open code fence at its beginning.
    begins_in: Option<CodeFence<'a>>,
    /// The open code fence at its end.
    ends_in: Option<CodeFence<'a>>,
}

impl TextPiece<'_> {
    fn render(&self, text: &str) -> String {
        let mut piece = String::with_capacity(self.range.len() + 32);
        if let Some(fence) = self.begins_in {
            piece.push_str(&fence.opening());
            piece.push('\n');
        }
        piece.push_str(&text[self.range.clone()]);
        if let Some(fence) = self.ends_in {
            piece.push('\n');
            piece.push_str(&fence.closing());
        }
        piece
    }
}

fn pieces(text: &str, limit: usize) -> Vec<TextPiece<'_>> {
    let text = text.trim_end();
    let cutter = PieceCutter::new(text, limit.max(1));
    let mut pieces = Vec::new();
    let mut start = cutter.skip_blank(0);
    let mut fence = None;
    while start < text.len() {
        let cut = cutter.cut(start, fence);
        if fence.is_some() || cut.fence.is_some() || !text[start..cut.end].trim().is_empty() {
            pieces.push(TextPiece { range: start..cut.end, begins_in: fence, ends_in: cut.fence });
        }
        start = cut.next;
        fence = cut.fence;
    }
    pieces
}

#[cfg(test)]
mod tests;
