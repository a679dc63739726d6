//! The lines of a recording, one after the other, however long the file and its lines are.

use std::io::{self, BufRead as _, BufReader, Read, Take};

/// Longest line that is read, bytes; one of a recording has an agent-event of at most 8 MiB or so.
const LINE: usize = 16 << 20;
/// Most bytes that are read of a file.
const FILE: u64 = 256 << 20;

/// See the module.
pub(super) struct Lines<R> {
    source: BufReader<Take<R>>,
    buffer: Vec<u8>,
    longest: usize,
}

impl<R: Read> Lines<R> {
    pub(super) fn of(source: R) -> Self {
        Self::bounded(source, FILE, LINE)
    }

    fn bounded(source: R, most: u64, longest: usize) -> Self {
        let source = BufReader::with_capacity(64 << 10, source.take(most));
        Self { source, buffer: Vec::new(), longest }
    }

    /// The next line without its end; inner none: it is too long. None: there is no other.
    ///
    /// # Errors
    /// As the system says.
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

    /// Whether the file goes on behind what is read of one.
    pub(super) fn is_cut(&self) -> bool {
        self.source.get_ref().limit() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_long_ones_are_left_out_and_a_file_ends_somewhere() {
        let read = |text: &str, most| {
            let mut lines = Lines::bounded(text.as_bytes(), most, 5);
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
