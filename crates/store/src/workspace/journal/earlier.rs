//! The lines that an earlier process left: reads, checks, compacts and continues them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::checksum::is_checked;
use super::record::{FinishedEvent, JournalMark, Record};
use super::state::{JournalState, MAX_SEQUENCE};
use super::store::{LineFile, LineStore};
use super::writer::JournalLines;
use super::{FileError, Journal};
use aetheel_model::event::Sequence;
use aetheel_runtime::ordinary::read_ordinary;

/// Maximum size of a journal file of an earlier process, in bytes. Larger files are refused.
const MAX_JOURNAL_BYTES: u64 = 1 << 30;

/// The lines of a journal at the start of a process.
pub(super) struct EarlierLines {
    /// The path of the file or the name of the store, for messages.
    pub(super) place: PathBuf,
    pub(super) text: String,
    /// The start of the block from which the new process assigns numbers, or zero if there are no
    /// blocks.
    pub(super) first: Sequence,
    /// Whether no line is missing.
    pub(super) complete: bool,
}

impl EarlierLines {
    /// Reads a file. A missing file is empty.
    pub(super) fn of_file(path: &Path) -> Result<Self, FileError> {
        let text = match read_ordinary(path, MAX_JOURNAL_BYTES) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(FileError::new("read", path, source)),
        };
        let complete = LineFile::is_complete(path);
        Ok(Self { place: path.to_owned(), text, first: 0, complete })
    }

    /// Returns a line for each part that cannot be read. Ignores a last line that is still being
    /// written.
    pub(super) fn inspect(mut self) -> Result<Vec<String>, FileError> {
        let tail = self.text.rfind('\n').map_or(0, |end| end + 1);
        if !is_checked(&self.text[tail..]) {
            self.text.truncate(tail);
        }
        Ok(self.parse()?.1)
    }

    /// Parses the lines. Also returns a line for each part that cannot be read.
    fn parse(&self) -> Result<(JournalState, Vec<String>), FileError> {
        let (pages, warnings) = JournalState::read(&self.text, self.first);
        if pages.highest() > MAX_SEQUENCE {
            let fault = format!(
                "an event has the number {}, which no gateway assigned; correct or remove that line",
                pages.highest()
            );
            let fault = std::io::Error::new(std::io::ErrorKind::InvalidData, fault);
            return Err(FileError::new("read", &self.place, fault));
        }
        let named = |warning| format!("`{}` {warning}", self.place.display());
        Ok((pages, warnings.into_iter().map(named).collect()))
    }

    /// Compacts the lines, replaces those of the store by them, and starts the writer.
    pub(super) fn continue_in(
        self,
        mut store: Box<dyn LineStore>,
        now_ms: i64,
    ) -> Result<Journal, FileError> {
        let (mut pages, warnings) = self.parse()?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let doubted = pages.open.values_mut().map(|entry| !self.complete && entry.mark_doubtful());
        let doubtful = doubted.filter(|doubted| *doubted).count();
        if doubtful > 0 {
            tracing::warn!(
                turns = doubtful,
                "the queue is incomplete, so the agents of turns that had begun may have used a tool"
            );
        }
        for event in pages.prune(now_ms) {
            tracing::info!(event = event.sequence, lane = %event.lane, "an event of an earlier gateway process is dropped: nobody waits for it");
            pages.apply(&Record::Mark(
                event.sequence,
                JournalMark::Finished(FinishedEvent::of(&event, now_ms)),
            ));
        }
        let failed = |source| FileError::new("write", &self.place, source);
        let short = pages.render();
        store.replace(&short).map_err(failed)?;
        let pages = Arc::new(Mutex::new(pages));
        let lines = JournalLines::start(store, short.len(), pages.clone()).map_err(failed)?;
        Ok(Journal { pages, lines })
    }
}
