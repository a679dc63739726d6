//! The store of the journal's lines: a file of this machine, or a store that the program provides.
//!
//! The file `complete.md` exists beside the journal while the journal contains every line that it
//! should. It can be removed even if the disk is full. A start that does not find it knows that
//! lines may be missing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::disk::{replace, sync_folder};

/// The file that exists while the journal is complete, and its content.
const COMPLETE_FILE: &str = "complete.md";
const COMPLETE_TEXT: &str = "# Complete

While this file exists, `queue.md` is complete. Written and removed by Aetheel.
";

/// Stores the lines of a journal. One thread calls it; all methods block.
pub trait LineStore: Send {
    /// Appends whole lines and returns once they are safe. After an error, any part of them may be
    /// in the store until a later call succeeds.
    ///
    /// # Errors
    /// The lines may not be stored.
    fn append(&mut self, lines: &str) -> io::Result<()>;

    /// Replaces all lines by these.
    ///
    /// # Errors
    /// The lines were not replaced.
    fn replace(&mut self, lines: &str) -> io::Result<()>;

    /// Returns the name of the store, for the log.
    fn name(&self) -> String;
}

/// The end of a file, with the operations that the journal needs.
pub(super) trait FileTail: Send {
    /// Appends bytes. After an error, any part of them may be in the file.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Waits until the appended bytes are on disk.
    fn sync(&mut self) -> io::Result<()>;
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl FileTail for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

pub(super) struct LineFile {
    path: PathBuf,
    tail: Box<dyn FileTail>,
    /// The length of the part that contains whole lines and is on disk.
    length: u64,
    /// Whether a part of a failed write may follow after `length`.
    torn: bool,
    /// Whether `complete.md` is missing.
    incomplete: bool,
}

impl LineFile {
    /// Returns whether the journal of an earlier process is complete. An empty one is.
    pub(super) fn is_complete(path: &Path) -> bool {
        let is_empty = fs::metadata(path).map_or(true, |file| file.len() == 0);
        is_empty || path.with_file_name(COMPLETE_FILE).exists()
    }

    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let file = for_appending(&path)?;
        let length = file.metadata()?.len();
        Ok(Self::with_tail(Box::new(file), length, path))
    }

    /// Appends to a file of this length.
    pub(super) fn with_tail(tail: Box<dyn FileTail>, length: u64, path: PathBuf) -> Self {
        Self { path, tail, length, torn: false, incomplete: true }
    }

    /// Removes the incomplete end that a failed write left, because it would corrupt the next line.
    fn cut_torn_end(&mut self) -> io::Result<()> {
        if self.torn {
            self.tail.cut(self.length)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Removes `complete.md`. Does so even if this process never wrote it, because an earlier
    /// process may have left it.
    fn note_incomplete(&mut self) {
        self.incomplete = true;
        match fs::remove_file(self.path.with_file_name(COMPLETE_FILE)) {
            Ok(()) => self.path.parent().into_iter().for_each(sync_folder),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::error!(%error, "cannot remove state/complete.md; after a crash a turn may run twice");
            }
        }
    }

    /// Writes `complete.md` if it is missing.
    fn note_complete(&mut self) {
        if !self.incomplete {
            return;
        }
        match replace(&self.path.with_file_name(COMPLETE_FILE), COMPLETE_TEXT.as_bytes()) {
            Ok(_) => self.incomplete = false,
            Err(error) => {
                tracing::debug!(%error, "cannot write state/complete.md yet");
            }
        }
    }
}

impl LineStore for LineFile {
    fn append(&mut self, lines: &str) -> io::Result<()> {
        self.cut_torn_end()?;
        let written = self.tail.append(lines.as_bytes()).and_then(|()| self.tail.sync());
        match &written {
            Ok(()) => {
                self.length += lines.len() as u64;
                self.note_complete();
            }
            Err(_) => {
                self.torn = true;
                self.note_incomplete();
                // If this fails too, it is repeated before the next write.
                if let Err(error) = self.cut_torn_end() {
                    tracing::debug!(%error, "cannot remove an incomplete line from state/queue.md yet");
                }
            }
        }
        written
    }

    fn replace(&mut self, lines: &str) -> io::Result<()> {
        replace(&self.path, lines.as_bytes())?;
        self.tail = Box::new(for_appending(&self.path)?);
        (self.length, self.torn) = (lines.len() as u64, false);
        self.note_complete();
        Ok(())
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn for_appending(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(path)
}
