//! Reads the lines of a recording one at a time, with bounded memory. Blocks.

use std::io::{self, BufRead as _, BufReader, Read};

/// Size of the read buffer in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// Reads the lines of a recording that are not blank.
pub struct RecordingLines<R> {
    source: BufReader<R>,
    buffer: Vec<u8>,
    longest: usize,
    /// The position after the latest line, in bytes.
    position: u64,
    /// The number of the latest line, from 1.
    number: usize,
}

/// A line of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingLine<'a> {
    /// The position of its first byte.
    pub start: u64,
    /// The position after it.
    pub end: u64,
    /// Its number, from 1.
    pub number: usize,
    /// Its content without the newline, or nothing if it is too long.
    pub bytes: &'a [u8],
    /// Whether it is longer than the limit.
    pub is_too_long: bool,
    /// Whether it ends with a newline. The last line does not while it is being written.
    pub is_complete: bool,
}

impl<R: Read> RecordingLines<R> {
    /// Reads from `source`. The content of lines of more than `longest` bytes is skipped.
    pub fn new(source: R, longest: usize) -> Self {
        let source = BufReader::with_capacity(BUFFER_BYTES, source);
        Self { source, buffer: Vec::new(), longest, position: 0, number: 0 }
    }

    /// Returns the next line that is not blank, or `None` at the end of the input.
    ///
    /// # Errors
    /// The system's error.
    pub fn next_line(&mut self) -> io::Result<Option<RecordingLine<'_>>> {
        loop {
            self.buffer.clear();
            let start = self.position;
            let (mut is_too_long, mut is_complete) = (false, false);
            while !is_complete {
                let chunk = self.source.fill_buf()?;
                if chunk.is_empty() {
                    break;
                }
                let newline = memchr::memchr(b'\n', chunk);
                let length = newline.unwrap_or(chunk.len());
                is_complete = newline.is_some();
                is_too_long |= self.buffer.len() + length > self.longest;
                if is_too_long {
                    self.buffer.clear();
                } else {
                    self.buffer.extend_from_slice(&chunk[..length]);
                }
                let consumed = length + usize::from(is_complete);
                self.source.consume(consumed);
                self.position += consumed as u64;
            }
            if self.position == start {
                return Ok(None);
            }
            self.number += 1;
            if is_too_long || !self.buffer.trim_ascii().is_empty() {
                return Ok(Some(RecordingLine {
                    start,
                    end: self.position,
                    number: self.number,
                    bytes: &self.buffer,
                    is_too_long,
                    is_complete,
                }));
            }
        }
    }

    /// Returns the source of the lines.
    pub fn source(&self) -> &R {
        self.source.get_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_positions_and_long_ones_are_skipped() {
        let mut lines = RecordingLines::new("one\n\n123456\n12345\ntwo".as_bytes(), 5);
        let mut read = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            let text = String::from_utf8_lossy(line.bytes).into_owned();
            read.push((line.start, line.number, text, line.is_too_long, line.is_complete));
        }
        let line = |start, number, text: &str, is_too_long, is_complete| {
            (start, number, text.to_owned(), is_too_long, is_complete)
        };
        let wanted = [
            line(0, 1, "one", false, true),
            line(5, 3, "", true, true),
            line(12, 4, "12345", false, true),
            line(18, 5, "two", false, false),
        ];
        assert_eq!(read, wanted);
        assert_eq!(RecordingLines::new(&b""[..], 5).next_line().unwrap(), None);
    }
}
