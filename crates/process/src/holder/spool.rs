//! A file for what does not fit into memory. It has no name: it is gone with the holder.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// How much is kept of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldLimits {
    /// Bytes in memory, while no gateway hears it.
    pub memory: usize,
    /// Bytes in a file beyond that; then its pipe slows it down.
    pub spool: u64,
    /// Bytes that a gateway was sent and did not yet write down.
    pub window_bytes: usize,
    /// Lines of those.
    pub window_lines: u64,
}

impl Default for HoldLimits {
    fn default() -> Self {
        Self { memory: 256 << 10, spool: 64 << 20, window_bytes: 512 << 10, window_lines: 1024 }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    file: Option<File>,
    /// Bytes in it.
    pub(super) length: u64,
}

impl Spool {
    /// One in a folder; the file comes with the first bytes.
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), file: None, length: 0 }
    }

    /// Appends; returns where.
    ///
    /// # Errors
    /// What the system said, a full disk for one; nothing was appended then.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&self.folder)?),
        };
        file.write_all_at(bytes, self.length)?;
        let place = self.length;
        self.length += bytes.len() as u64;
        Ok(place)
    }

    /// Reads what was appended.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Gives the room back.
    pub(super) fn clear(&mut self) {
        *self = Self::new(&self.folder);
    }
}
