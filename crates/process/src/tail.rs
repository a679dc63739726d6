//! The last part of a program's stderr. Pure.

use std::collections::VecDeque;

use aetheel_model::plain::clean_text;

const MAX_TAIL_BYTES: usize = 64 << 10;

/// The last 64 KiB of a stream.
#[derive(Debug, Default)]
pub(super) struct StderrTail {
    bytes: VecDeque<u8>,
    /// Whether earlier bytes were dropped.
    truncated: bool,
}

impl StderrTail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(MAX_TAIL_BYTES)..];
        let excess = (self.bytes.len() + bytes.len()).saturating_sub(MAX_TAIL_BYTES);
        self.truncated |= excess > 0;
        self.bytes.drain(..excess.min(self.bytes.len()));
        self.bytes.extend(bytes);
    }

    /// Returns the bytes as plain text of at most 64 KiB. If earlier bytes were dropped, it starts
    /// at the beginning of a line, if there is one.
    pub(super) fn text(&self) -> String {
        let mut bytes: Vec<u8> = self.bytes.iter().copied().collect();
        if let Some(end) = bytes
            .iter()
            .position(|b| *b == b'\n')
            .filter(|end| self.truncated && end + 1 < bytes.len())
        {
            bytes.drain(..=end);
        }
        let mut text = clean_text(&String::from_utf8_lossy(&bytes)).into_owned();
        // Replacement characters are longer than the bytes they replace.
        if text.len() > MAX_TAIL_BYTES {
            text.drain(..text.ceil_char_boundary(text.len() - MAX_TAIL_BYTES));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_as_plain_text() {
        let mut tail = StderrTail::default();
        tail.push(b"\x1b[31merror\x1b[0m: no\r\n");
        assert_eq!(tail.text(), "error: no\n");
        for number in 0..20_000 {
            tail.push(format!("line {number}\n").as_bytes());
        }
        let text = tail.text();
        assert!(text.len() <= MAX_TAIL_BYTES && text.len() > MAX_TAIL_BYTES - 20, "{}", text.len());
        assert!(text.starts_with("line ") && text.ends_with("line 19999\n"));
    }

    #[test]
    fn the_text_never_exceeds_the_limit() {
        let mut tail = StderrTail::default();
        tail.push(&vec![0xff; 300_000]);
        let text = tail.text();
        assert!(
            text.len() <= MAX_TAIL_BYTES && text.chars().all(|c| c == '\u{fffd}'),
            "{}",
            text.len()
        );
    }
}
