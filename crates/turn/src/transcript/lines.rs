//! Reads the lines of a recording with bounded memory, however long the file and its lines are.

use std::io::{self, BufRead as _, BufReader, Read, Take};

/// Maximum length of a line, in bytes. A line of a recording has at most one agent event of about 8
/// MiB.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Maximum number of bytes read from a file.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// A reader of lines with a limited length.
pub(super) struct BoundedLines<R> {
    source: BufReader<Take<R>>,
    buffer: Vec<u8>,
    longest: usize,
}

impl<R: Read> BoundedLines<R> {
    pub(super) fn of(source: R) -> Self {
        Self::bounded(source, MAX_FILE_BYTES, MAX_LINE_BYTES)
    }

    fn bounded(source: R, most: u64, longest: usize) -> Self {
        let source = BufReader::with_capacity(64 << 10, source.take(most));
        Self { source, buffer: Vec::new(), longest }
    }

    /// Returns the next line without its terminator, `Some(None)` for a line that is too long, and
    /// `None` at the end of the input.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn line(&mut self) -> io::Result<Option<Option<String>>> {
        self.buffer.clear();
        let (mut long, mut any) = (false, false);
        loop {
            let chunk = self.source.fill_buf()?;
            if chunk.is_empty() {
                break;
            }
            any = true;
            let end = memchr::memchr(b'\n', chunk);
            let taken = end.unwrap_or(chunk.len());
            if self.buffer.len() + taken > self.longest {
                long = true;
                self.buffer.clear();
            } else if !long {
                self.buffer.extend_from_slice(&chunk[..taken]);
            }
            self.source.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                break;
            }
        }
        let line = || String::from_utf8_lossy(&self.buffer).into_owned();
        Ok(any.then(|| (!long).then(line)))
    }

    /// Returns whether the file may be longer than the part that is read.
    pub(super) fn is_cut(&self) -> bool {
        self.source.get_ref().limit() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_lines_are_read_and_long_lines_and_files_are_cut() {
        let read = |text: &str, most| {
            let mut lines = BoundedLines::bounded(text.as_bytes(), most, 5);
            let mut found = Vec::new();
            while let Some(line) = lines.line().unwrap() {
                found.push(line.unwrap_or_else(|| "too long".to_owned()));
            }
            (found, lines.is_cut())
        };
        let all = (vec!["one".to_owned(), String::new(), "two".to_owned()], false);
        assert_eq!(read("one\n\ntwo", 100), all);
        let (found, cut) = read("12345\n123456\n12\n", 100);
        assert_eq!((found.join("|"), cut), ("12345|too long|12".to_owned(), false));
        assert_eq!(read("one\ntwo", 5), (vec!["one".to_owned(), "t".to_owned()], true));
        assert_eq!(read("", 5), (vec![], false));
    }
}
