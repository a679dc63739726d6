//! Continues the recording of a link that outlived the gateway.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::folder::RecordingFile;
use super::{Recorder, Recording};
use crate::format::{Header, ReadError};

/// The reason why a recording cannot be continued.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The system's error.
    #[error("its recording cannot be read or written")]
    Io(#[from] std::io::Error),
    /// A line cannot be parsed.
    #[error("its recording is damaged")]
    Unreadable(#[from] ReadError),
    /// Its start time is missing, or before the machine started.
    #[error("its recording has no valid start time")]
    Undated,
}

/// The time of any line.
#[derive(Deserialize)]
struct RecordingTime {
    t: f64,
}

impl Recorder {
    /// Continues a recording that a previous gateway process wrote ahead, and returns its header and
    /// its text. An incomplete last line is removed. The lines between the header and the last one
    /// are not parsed ([`RecordingTail::parse`](crate::RecordingTail::parse)). Blocks.
    ///
    /// # Errors
    /// [`ResumeError`] if the file cannot be read or changed, or is not a recording.
    pub fn resume(&self, path: &Path) -> Result<(Recording, Header, String), ResumeError> {
        let bytes = std::fs::read(path)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < bytes.len() {
            std::fs::OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
        }
        // Damaged lines before a checkpoint are not needed.
        let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        let header = Header::parse(text.lines().next().ok_or(ReadError::Empty)?.as_bytes())?;
        let last = text.lines().skip(1).last().map(serde_json::from_str::<RecordingTime>);
        let last = last.and_then(Result::ok).map_or(0.0, |last| last.t.max(0.0));
        let started: jiff::Timestamp = header.started.parse().map_err(|_| ResumeError::Undated)?;
        // The link's time never goes backwards, even if the system clock did.
        let since = jiff::Timestamp::now().duration_since(started).as_secs_f64();
        let since = Duration::try_from_secs_f64(since.max(last / 1000.0)).unwrap_or_default();
        let opened = Instant::now().checked_sub(since).ok_or(ResumeError::Undated)?;
        let target = RecordingFile::at(path.to_owned()).written_ahead().continued();
        let recording = Recording::new(self, target, opened, whole as u64);
        Ok((recording, header, text))
    }
}
