//! Splits the bytes of a pipe into messages: at line ends, or by a header before each message as in
//! the Language Server Protocol. Pure.

use crate::agent::descriptor::Framing;
use crate::lines::{FramedLine, LineSplitter};

/// Maximum length of a header line that is kept, in bytes.
const MAX_HEADER_BYTES: usize = 8 << 10;

/// Splits bytes into messages. Keeps at most as many bytes as one message may have.
#[derive(Debug)]
pub enum Splitter {
    /// Each message is a line.
    Lines(LineSplitter),
    /// Each message has a header.
    Messages(MessageSplitter),
}

impl Splitter {
    /// Creates a splitter that keeps up to `limit` bytes of a message.
    #[must_use]
    pub fn new(framing: Framing, limit: usize) -> Self {
        match framing {
            Framing::Lines => Self::Lines(LineSplitter::new(limit)),
            Framing::ContentLength => Self::Messages(MessageSplitter::new(limit)),
        }
    }

    /// Takes more bytes, and calls `message` for each message that they complete, in order.
    pub fn feed(&mut self, bytes: &[u8], message: impl FnMut(FramedLine)) {
        match self {
            Self::Lines(lines) => lines.feed(bytes, message),
            Self::Messages(messages) => messages.feed(bytes, message),
        }
    }

    /// Returns the last message if it is incomplete.
    pub fn finish(&mut self) -> Option<FramedLine> {
        match self {
            Self::Lines(lines) => lines.finish(),
            Self::Messages(messages) => messages.finish(),
        }
    }
}

/// Returns a message in the form that the receiver expects. An empty message stays empty.
#[must_use]
pub fn frame_message(framing: Framing, message: Vec<u8>) -> Vec<u8> {
    match framing {
        Framing::ContentLength if !message.is_empty() => {
            let mut bytes = format!("Content-Length: {}\r\n\r\n", message.len()).into_bytes();
            bytes.extend(message);
            bytes
        }
        _ => message,
    }
}

/// Splits bytes into messages that each follow a `Content-Length` header. A line before a message
/// that is not a header is a message of its own, because agents print unexpected output there.
#[derive(Debug)]
pub struct MessageSplitter {
    limit: usize,
    headers: LineSplitter,
    /// The length of the next body, after its header was read.
    length: Option<usize>,
    body: Option<PendingBody>,
}

/// A message whose body has begun.
#[derive(Debug)]
struct PendingBody {
    /// Number of missing bytes.
    remaining: usize,
    bytes: Vec<u8>,
    dropped: bool,
}

impl MessageSplitter {
    fn new(limit: usize) -> Self {
        Self { limit, headers: LineSplitter::new(MAX_HEADER_BYTES), length: None, body: None }
    }

    fn feed(&mut self, mut bytes: &[u8], mut message: impl FnMut(FramedLine)) {
        while !bytes.is_empty() {
            if let Some(body) = &mut self.body {
                let (now, rest) = bytes.split_at(body.remaining.min(bytes.len()));
                let length = now.len().min(self.limit - body.bytes.len());
                body.bytes.extend_from_slice(&now[..length]);
                body.dropped |= length < now.len();
                body.remaining -= now.len();
                bytes = rest;
                if body.remaining == 0 {
                    self.body.take().into_iter().for_each(|body| message(body.into_line(false)));
                }
                continue;
            }
            let end = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
            let (now, rest) = bytes.split_at(end);
            let mut line = None;
            self.headers.feed(now, |whole| line = Some(whole));
            bytes = rest;
            if let Some(stray) = line.and_then(|line| self.header(line)) {
                message(stray);
            }
        }
    }

    /// Handles a line before a message. Returns it if it is not a header.
    fn header(&mut self, line: FramedLine) -> Option<FramedLine> {
        if line.text.is_empty() {
            self.body = self.length.take().map(|left| PendingBody {
                remaining: left,
                bytes: Vec::new(),
                dropped: false,
            });
            // A body without bytes is complete.
            return self.body.take_if(|body| body.remaining == 0).map(|body| body.into_line(false));
        }
        let (name, value) = line.text.split_once(':').unwrap_or_default();
        match (name.to_ascii_lowercase().as_str(), value.trim().parse()) {
            ("content-length", Ok(length)) => self.length = Some(length),
            ("content-type", _) => {}
            _ => return Some(line),
        }
        None
    }

    fn finish(&mut self) -> Option<FramedLine> {
        self.body.take().map(|body| body.into_line(true)).or_else(|| self.headers.finish())
    }
}

impl PendingBody {
    fn into_line(self, cut: bool) -> FramedLine {
        FramedLine {
            text: String::from_utf8_lossy(&self.bytes).into_owned(),
            truncated: self.dropped || cut,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages(limit: usize, pieces: &[&[u8]]) -> Vec<(String, bool)> {
        let mut splitter = Splitter::new(Framing::ContentLength, limit);
        let mut all = Vec::new();
        for piece in pieces {
            splitter.feed(piece, |message| all.push((message.text, message.truncated)));
        }
        all.extend(splitter.finish().map(|message| (message.text, message.truncated)));
        all
    }

    #[test]
    fn messages_have_their_length_before_them_and_may_hold_line_breaks() {
        let said =
            b"Content-Length: 4\r\n\r\n{\n }content-length:2\nContent-Type: x; charset=utf-8\n\n[]";
        assert_eq!(messages(100, &[said]), [("{\n }".to_owned(), false), ("[]".to_owned(), false)]);
        assert_eq!(
            frame_message(Framing::ContentLength, b"{}".to_vec()),
            b"Content-Length: 2\r\n\r\n{}"
        );
        assert_eq!(
            (
                frame_message(Framing::ContentLength, vec![]),
                frame_message(Framing::Lines, b"x".to_vec())
            ),
            (vec![], b"x".to_vec())
        );
    }

    #[test]
    fn other_lines_and_incomplete_or_long_messages_are_returned_as_such() {
        let told = |said: &str| messages(4, &[said.as_bytes()]);
        assert_eq!(
            told("warning: x\nContent-Length: 2\n\n{}"),
            [("warning: x".to_owned(), false), ("{}".to_owned(), false)]
        );
        assert_eq!(
            told("Content-Length: 6\n\n123456Content-Length: 1\n\n7"),
            [("1234".to_owned(), true), ("7".to_owned(), false)]
        );
        assert_eq!(told("Content-Length: 9\n\n12"), [("12".to_owned(), true)]);
        assert_eq!(
            told("Content-Length: 99999999999999999999999\n\n12"),
            [
                ("Content-Length: 99999999999999999999999".to_owned(), false),
                ("12".to_owned(), false),
            ]
        );
        assert_eq!(
            told("\n\nContent-Length: 0\n\nContent-Length: 1\n\nx"),
            [(String::new(), false), ("x".to_owned(), false)]
        );
    }

    proptest! {
        #[test]
        fn any_split_of_the_bytes_gives_the_same_messages(
            parts in proptest::collection::vec("[a-z\n ]{0,12}", 0..8),
            cuts in proptest::collection::vec(0usize..400, 0..20),
            limit in 1usize..12,
        ) {
            let bytes: Vec<u8> = parts.iter().flat_map(|part| frame_message(Framing::ContentLength, part.clone().into_bytes())).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let whole: Vec<(String, bool)> = parts
                .iter()
                .filter(|part| !part.is_empty())
                .map(|part| (part[..part.len().min(limit)].to_owned(), part.len() > limit))
                .collect();
            prop_assert_eq!(messages(limit, &pieces), whole);
        }
    }
}
