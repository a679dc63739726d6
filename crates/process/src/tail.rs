//! The last part of a program's stderr. Pure.

use std::collections::VecDeque;

use aetheel_model::plain::clean_text;

/// Bytes that are kept.
const KEPT: usize = 64 << 10;

/// The last 64 KiB of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: VecDeque<u8>,
    /// Whether earlier bytes were dropped.
    cut: bool,
}

impl Tail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(KEPT)..];
        let excess = (self.bytes.len() + bytes.len()).saturating_sub(KEPT);
        self.cut |= excess > 0;
        self.bytes.drain(..excess.min(self.bytes.len()));
        self.bytes.extend(bytes);
    }

    /// Returns the bytes as plain text of at most 64 KiB. If earlier bytes were dropped, it starts
    /// at the beginning of a line, if there is one.
    pub(super) fn text(&self) -> String {
        let mut bytes: Vec<u8> = self.bytes.iter().copied().collect();
        if let Some(end) =
            bytes.iter().position(|b| *b == b'\n').filter(|end| self.cut && end + 1 < bytes.len())
        {
            bytes.drain(..=end);
        }
        let mut text = clean_text(&String::from_utf8_lossy(&bytes)).into_owned();
        // Replacement characters are longer than the bytes they replace.
        if text.len() > KEPT {
            text.drain(..text.ceil_char_boundary(text.len() - KEPT));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_as_plain_text() {
        let mut tail = Tail::default();
        tail.push(b"\x1b[31merror\x1b[0m: no\r\n");
        assert_eq!(tail.text(), "error: no\n");
        for number in 0..20_000 {
            tail.push(format!("line {number}\n").as_bytes());
        }
        let text = tail.text();
        assert!(text.len() <= KEPT && text.len() > KEPT - 20, "{}", text.len());
        assert!(text.starts_with("line ") && text.ends_with("line 19999\n"));
    }

    #[test]
    fn the_text_never_exceeds_the_limit() {
        let mut tail = Tail::default();
        tail.push(&vec![0xff; 300_000]);
        let text = tail.text();
        assert!(text.len() <= KEPT && text.chars().all(|c| c == '\u{fffd}'), "{}", text.len());
    }
}
