//! An unnamed file for output that does not fit into memory. It disappears with the holder.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// How much output of a process is buffered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldLimits {
    /// Bytes in memory, while no gateway listens to it.
    pub memory: usize,
    /// Bytes in a file beyond that. When both are full, the process has to wait.
    pub spool: u64,
    /// Bytes that are sent to a gateway before it has recorded them.
    pub window_bytes: usize,
    /// Lines that are sent to a gateway before it has recorded them.
    pub window_lines: u64,
}

impl Default for HoldLimits {
    fn default() -> Self {
        Self { memory: 256 << 10, spool: 64 << 20, window_bytes: 512 << 10, window_lines: 1024 }
    }
}

/// An unnamed file to which output is appended.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    file: Option<File>,
    /// Bytes in it.
    pub(super) length: u64,
    /// Whether writing failed. Until the file is empty, it is not written again.
    pub(super) failed: bool,
}

impl Spool {
    /// Creates a spool whose file is created in `folder` by the first [`append`](Self::append).
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), file: None, length: 0, failed: false }
    }

    /// Returns whether more output may be appended to a file of at most `limit` bytes.
    pub(super) fn has_room(&self, limit: u64) -> bool {
        !self.failed && self.length < limit
    }

    /// Appends bytes and returns their offset, or `None` if that failed, for example because the
    /// disk is full. Nothing is appended then.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Option<u64> {
        if self.failed {
            return None;
        }
        let written = self.write(bytes);
        self.failed = written.is_err();
        written.inspect_err(|error| tracing::warn!(%error, "cannot keep an agent's output in a file; the agent has to wait for the gateway; hint: make room on the disk")).ok()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let file = match &mut self.file {
            Some(file) => file,
            empty => empty.insert(tempfile::tempfile_in(&self.folder)?),
        };
        file.write_all_at(bytes, self.length)?;
        let place = self.length;
        self.length += bytes.len() as u64;
        Ok(place)
    }

    /// Reads bytes that were appended.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Removes the file, which frees its disk space.
    pub(super) fn clear(&mut self) {
        *self = Self::new(&self.folder);
    }
}
