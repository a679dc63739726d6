//! Splits a stream of bytes into lines. Pure: the lines do not depend on how the bytes were divided
//! into chunks.
//!
//! Tested by `any_split_of_the_bytes_gives_the_same_lines`.

/// A decoded line of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramedLine {
    /// The text without line end; invalid UTF-8 is replaced by U+FFFD.
    pub text: String,
    /// Whether the line was longer than the limit, so that its end is missing.
    pub truncated: bool,
}

/// Splits bytes into lines that end with `\n` or `\r\n`. Keeps at most as many bytes as one line
/// may have.
#[derive(Debug)]
pub struct LineSplitter {
    /// Maximum number of bytes of a line that are kept.
    limit: usize,
    /// The beginning of the line: up to `limit + 1` bytes, because a `\r` may belong to the line
    /// end.
    partial: Vec<u8>,
    /// Whether the line has more bytes than `partial` contains.
    dropped: bool,
}

impl LineSplitter {
    /// Creates a splitter that keeps up to `limit` bytes of a line.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, partial: Vec::new(), dropped: false }
    }

    /// Takes more bytes, and calls `line` for each line that they complete, in order.
    pub fn feed(&mut self, mut bytes: &[u8], mut line: impl FnMut(FramedLine)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (head, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.partial.is_empty() && !self.dropped {
                line(self.cut(head.strip_suffix(b"\r").unwrap_or(head), false));
            } else {
                self.keep(head);
                line(self.take(true));
            }
            bytes = rest;
        }
        self.keep(bytes);
    }

    /// Returns the last line if it has no line end.
    pub fn finish(&mut self) -> Option<FramedLine> {
        (!self.partial.is_empty() || self.dropped).then(|| self.take(false))
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = (self.limit.saturating_add(1)).saturating_sub(self.partial.len());
        let length = bytes.len().min(room);
        self.partial.extend_from_slice(&bytes[..length]);
        self.dropped |= length < bytes.len();
    }

    fn take(&mut self, terminated: bool) -> FramedLine {
        let partial = std::mem::take(&mut self.partial);
        let dropped = std::mem::take(&mut self.dropped);
        let content = match partial.strip_suffix(b"\r") {
            Some(content) if terminated && !dropped => content,
            _ => &partial,
        };
        let framed = self.cut(content, dropped);
        // The allocation is reused for the next line, unless it is unusually large.
        if partial.capacity() <= 64 << 10 {
            self.partial = partial;
            self.partial.clear();
        }
        framed
    }

    fn cut(&self, content: &[u8], dropped: bool) -> FramedLine {
        if content.len() <= self.limit && !dropped {
            return FramedLine {
                text: String::from_utf8_lossy(content).into_owned(),
                truncated: false,
            };
        }
        let mut head = &content[..self.limit.min(content.len())];
        // A last character that this cut broke is removed, but not one that the program broke.
        if let Some(last) = head.utf8_chunks().last().filter(|chunk| is_beginning(chunk.invalid()))
        {
            head = &head[..head.len() - last.invalid().len()];
        }
        FramedLine { text: String::from_utf8_lossy(head).into_owned(), truncated: true }
    }
}

/// Returns whether the bytes are the incomplete beginning of a character.
fn is_beginning(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && std::str::from_utf8(bytes)
            .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(limit: usize, pieces: &[&[u8]]) -> Vec<(String, bool)> {
        let mut splitter = LineSplitter::new(limit);
        let mut all = Vec::new();
        for piece in pieces {
            splitter.feed(piece, |line| all.push((line.text, line.truncated)));
        }
        all.extend(splitter.finish().map(|line| (line.text, line.truncated)));
        all
    }

    /// A naive implementation of the same function.
    fn model(limit: usize, bytes: &[u8]) -> Vec<(String, bool)> {
        let mut pieces: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
        let last = pieces.pop().expect("split gives at least one piece");
        let terminated = pieces.into_iter().map(|piece| piece.strip_suffix(b"\r").unwrap_or(piece));
        let all = terminated.chain((!last.is_empty()).then_some(last));
        all.map(|piece| {
            let mut end = piece.len().min(limit);
            let truncated = end < piece.len();
            if truncated {
                end = (end.saturating_sub(3)..end)
                    .find(|at| is_beginning(&piece[*at..end]))
                    .unwrap_or(end);
            }
            (String::from_utf8_lossy(&piece[..end]).into_owned(), truncated)
        })
        .collect()
    }

    #[test]
    fn both_line_ends_empty_lines_and_a_missing_line_end_are_supported() {
        let wanted = [("a", false), ("", false), ("b\rc", false), ("d\r", false)]
            .map(|(text, cut)| (text.to_owned(), cut));
        assert_eq!(lines(10, &[b"a\r\n\nb\rc\r\nd\r"]), wanted);
        assert_eq!(lines(10, &[b""]), []);
        assert_eq!(lines(10, &[b"a\r", b"\n"]), [("a".to_owned(), false)]);
    }

    #[test]
    fn a_line_as_long_as_the_limit_is_complete_and_a_longer_one_is_cut() {
        assert_eq!(
            lines(4, &[b"abcd\r\nabcd\nabcde\nabcd"]).iter().map(|line| line.1).collect::<Vec<_>>(),
            [false, false, true, false]
        );
        assert_eq!(
            lines(4, &[b"abcd\r", b"\nabcd", b"e\r\n"]),
            [("abcd".to_owned(), false), ("abcd".to_owned(), true)]
        );
    }

    #[test]
    fn a_character_cut_between_reads_is_complete_and_one_cut_by_the_limit_is_dropped() {
        assert_eq!(lines(10, &[b"\xe6\xbc", b"\xa2\n"]), [("漢".to_owned(), false)]);
        assert_eq!(lines(5, &["漢字漢".as_bytes()]), [("漢".to_owned(), true)]);
        assert_eq!(
            lines(10, &[b"a\xffb\n\xe6\xbc"]),
            [("a\u{fffd}b".to_owned(), false), ("\u{fffd}".to_owned(), false)]
        );
    }

    #[test]
    fn a_line_of_100_mb_holds_no_more_memory_than_the_limit() {
        let mut splitter = LineSplitter::new(1 << 20);
        let piece = vec![b'x'; 64 << 10];
        for _ in 0..1600 {
            splitter.feed(&piece, |_| panic!("no line was completed"));
            assert!(splitter.partial.capacity() <= 2 << 20, "{}", splitter.partial.capacity());
        }
        let mut all = Vec::new();
        splitter.feed(b"tail\nnext\n", |line| all.push((line.text.len(), line.truncated)));
        assert_eq!(all, [(1 << 20, true), (4, false)]);
        assert!(splitter.partial.capacity() <= 64 << 10);
    }

    proptest! {
        #[test]
        fn any_split_of_the_bytes_gives_the_same_lines(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), Just(0xe6), Just(0xbc), Just(0xa2), Just(0xf0), Just(0x9f), any::<u8>()], 0..200),
            cuts in proptest::collection::vec(0usize..200, 0..20),
            limit in 0usize..12,
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let whole = lines(limit, &[&bytes]);
            prop_assert_eq!(lines(limit, &pieces), whole.clone());
            prop_assert_eq!(model(limit, &bytes), whole);
        }
    }
}
