//! Reads the lines of a part of a file, one at a time. Blocks.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::fs::FileExt as _;

/// Size of the read buffer in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// An iterator over the lines between two positions of a file.
pub(super) struct RecordingLines<'a> {
    reader: BufReader<FileRange<'a>>,
    line: Vec<u8>,
    at: u64,
    number: usize,
}

/// Reads a part of a file without changing the file's own position.
struct FileRange<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for FileRange<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let most = into.len().min(left);
        let read = self.file.read_at(&mut into[..most], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl<'a> RecordingLines<'a> {
    pub(super) fn of(file: &'a File, start: u64, end: u64) -> Self {
        let part = FileRange { file, at: start, end: end.max(start) };
        let reader = BufReader::with_capacity(BUFFER_BYTES, part);
        Self { reader, line: Vec::new(), at: start, number: 0 }
    }

    /// Returns the position of the next line.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Returns the next line that is not blank: its position, its number (from 1) and its bytes.
    /// Returns `None` after the last complete line.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, usize, &[u8])>> {
        loop {
            self.line.clear();
            let start = self.at;
            let read = self.reader.read_until(b'\n', &mut self.line)?;
            if self.line.last() != Some(&b'\n') {
                return Ok(None);
            }
            self.at += read as u64;
            self.number += 1;
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some((start, self.number, &self.line)));
            }
        }
    }
}
