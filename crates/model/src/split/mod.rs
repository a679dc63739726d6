//! Cutting an answer into messages.
//!
//! Pure and linear in the length of the text. A piece is at most so many characters (Unicode scalar
//! values, which is how serenity 0.12.5 checks Discord's 2000), is cut at the best boundary there
//! is, and renders by itself: a code fence it ends in is closed, and opened again in the next piece
//! with its language, indent and length. Apart from those lines and from white space around a cut,
//! the pieces joined are the text; `tests` holds the properties.

mod cut;

use std::ops::Range;

use cut::Cutter;

use crate::markdown::Fence;

/// Cuts text into pieces of at most `limit` characters, none of them blank.
///
/// Cuts between paragraphs or around a code block where that leaves half a piece or spares a block
/// that fits into one piece; otherwise at a line, a sentence, a word, and only then within a word,
/// keeping combined characters together where possible. Lines inside a fence are kept as they are.
/// A fence that the text leaves open is closed, because Discord shows it as code only then. An
/// opening line that takes half a piece is plain text.
#[must_use]
pub fn split(text: &str, limit: usize) -> Vec<String> {
    pieces(text, limit).iter().map(|piece| piece.render(text)).collect()
}

/// A piece of a text.
#[derive(Debug)]
struct Piece<'a> {
    range: Range<usize>,
    /// The fence it begins in.
    begins_in: Option<Fence<'a>>,
    /// The fence it ends in.
    ends_in: Option<Fence<'a>>,
}

impl Piece<'_> {
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

fn pieces(text: &str, limit: usize) -> Vec<Piece<'_>> {
    let text = text.trim_end();
    let cutter = Cutter::new(text, limit.max(1));
    let mut pieces = Vec::new();
    let mut start = cutter.skip_blank(0);
    let mut fence = None;
    while start < text.len() {
        let cut = cutter.cut(start, fence);
        if fence.is_some() || cut.fence.is_some() || !text[start..cut.end].trim().is_empty() {
            pieces.push(Piece { range: start..cut.end, begins_in: fence, ends_in: cut.fence });
        }
        start = cut.next;
        fence = cut.fence;
    }
    pieces
}

#[cfg(test)]
mod tests;
