//! Reads files that other programs may be writing.
//!
//! A read is valid if the file is the same before and after it (device, inode, size, times to the
//! nanosecond) and was unchanged for [`REST_TIMEOUT`] before. So an incomplete file is not returned
//! when a write falls between two ticks of the file system's clock, or when a writer has truncated
//! the file and not written it yet. A writer that pauses longer in the middle of a write cannot be
//! distinguished from one that is done.
//!
//! Programs that write by renaming never show half a file. A file that such a program replaces again
//! and again, as a busy gateway does with its state, never rests. Then the latest content that was
//! replaced while it was held open is returned.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::disk::Stamp;
use aetheel_runtime::ordinary::open_ordinary;

const TRIES: usize = 6;
/// Bytes of space that the standard library needs for a read without a trial.
const MIN_SPACE: usize = 64;
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Minimum time for which a file must be unchanged. Longer than a busy machine usually delays a
/// writer, and short compared with a turn.
pub(super) const REST_TIMEOUT: Duration = Duration::from_millis(60);
/// The same for a file that became shorter, because a program that saves it in place empties it
/// first.
pub(super) const SHRINK_TIMEOUT: Duration = Duration::from_millis(300);

#[derive(Clone, Debug)]
pub(super) struct ReadRequest {
    pub path: PathBuf,
    /// Maximum number of bytes that are read.
    pub limit: u64,
    /// Whether the end of a file longer than the limit is read, instead of its beginning.
    pub keep_end: bool,
    /// Whether the file existed before. If it is missing, it may be being replaced.
    pub expected: bool,
    /// Its stamp after the last write of this program. If the file still has this stamp, no other
    /// program is writing it, so it need not have been unchanged for a while.
    pub ours: Option<Stamp>,
    /// A file with fewer bytes must be unchanged for [`SHRINK_TIMEOUT`].
    pub shrinks_below: u64,
    /// Returns the present time.
    pub now: fn() -> SystemTime,
}

#[derive(Debug)]
pub(super) enum ReadOutcome {
    Whole(FileSnapshot),
    Missing,
    /// The file changed during each attempt to read it.
    Unsettled,
    Failed(io::Error),
}

#[derive(Debug)]
pub(super) struct FileSnapshot {
    bytes: Vec<u8>,
    pub stamp: Stamp,
    /// Whether the file is longer than the limit.
    pub cut: bool,
    /// Whether every later write of the file changes its stamp.
    pub rested: bool,
    keep_end: bool,
}

impl FileSnapshot {
    /// Returns the text, and whether it was valid UTF-8. A character that the limit cut in two is
    /// left out.
    pub(super) fn text(self) -> (String, bool) {
        let mut bytes = self.bytes;
        if self.cut && self.keep_end {
            let torn =
                bytes.iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count();
            bytes.drain(..torn);
        } else if self.cut
            && let Err(error) = std::str::from_utf8(&bytes)
            && error.error_len().is_none()
        {
            bytes.truncate(error.valid_up_to());
        }
        match String::from_utf8(bytes) {
            Ok(text) => (text, true),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), false),
        }
    }
}

/// Reads files, and retries those that are being written. Blocks for at most 100 ms in addition to
/// reading.
#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
pub(super) fn read(wants: &[ReadRequest]) -> Vec<ReadOutcome> {
    let mut outcomes: Vec<(ReadOutcome, Attempts)> =
        wants.iter().map(|_| (ReadOutcome::Unsettled, Attempts::default())).collect();
    for attempt in 1..=TRIES {
        let mut again = false;
        for (want, (outcome, seen)) in wants.iter().zip(&mut outcomes) {
            if matches!(outcome, ReadOutcome::Unsettled)
                || (want.expected && matches!(outcome, ReadOutcome::Missing))
            {
                *outcome = read_attempt(want, seen).unwrap_or_else(ReadOutcome::Failed);
                again |= matches!(outcome, ReadOutcome::Unsettled)
                    || (want.expected && matches!(outcome, ReadOutcome::Missing));
            }
        }
        if !again || attempt == TRIES {
            break;
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
    outcomes
        .into_iter()
        .map(|(outcome, attempts)| match (outcome, attempts.replaced) {
            (ReadOutcome::Unsettled, Some(complete)) => ReadOutcome::Whole(complete),
            (outcome, _) => outcome,
        })
        .collect()
}

/// The results of earlier attempts to read a file.
#[derive(Default)]
struct Attempts {
    /// The stamp that the latest attempts saw and the minimum time for which they saw it, for file
    /// systems whose clock differs from that of this machine.
    seen: Option<(Stamp, Duration)>,
    /// The file that the last attempt read, and its content.
    last: Option<(File, FileSnapshot)>,
    /// The latest content whose file was replaced by another one without being changed.
    replaced: Option<FileSnapshot>,
}

impl Attempts {
    fn examine_last(&mut self) {
        let Some((file, content)) = self.last.take() else { return };
        // The times of a file that is removed change, but not the time of its content.
        let is_replaced = file.metadata().is_ok_and(|now| {
            let now_stamp = Stamp::from(&now);
            now.nlink() == 0
                && now_stamp.size() == content.stamp.size()
                && now_stamp.modified() == content.stamp.modified()
        });
        if is_replaced {
            self.replaced = Some(content);
        }
    }
}

fn read_attempt(want: &ReadRequest, attempts: &mut Attempts) -> io::Result<ReadOutcome> {
    attempts.examine_last();
    // Taken first, because this thread may be delayed at any point below.
    let now = (want.now)();
    let Some(mut file) = open(&want.path)? else { return Ok(ReadOutcome::Missing) };
    let stamp = Stamp::from(&file.metadata()?);
    let cut = stamp.size() > want.limit;
    if cut && want.keep_end {
        file.seek(SeekFrom::Start(stamp.size() - want.limit))?;
    }
    // With space for the whole file and a little more, two calls read it and find its end.
    let capacity = usize::try_from(stamp.size().min(want.limit)).unwrap_or_default();
    let mut bytes = Vec::with_capacity(capacity + MIN_SPACE);
    (&file).take(want.limit).read_to_end(&mut bytes)?;
    let same = Stamp::from(&file.metadata()?) == stamp
        && bytes.len() as u64 == stamp.size().min(want.limit);
    let unchanged = attempts
        .seen
        .filter(|(before, _)| *before == stamp)
        .map_or(Duration::ZERO, |(_, time)| time + RETRY_INTERVAL);
    let timeout = if stamp.size() < want.shrinks_below { SHRINK_TIMEOUT } else { REST_TIMEOUT };
    let rested = stamp.age(now).is_some_and(|age| age >= timeout) || unchanged >= timeout;
    let content = FileSnapshot { bytes, stamp, cut, rested, keep_end: want.keep_end };
    if same && (rested || want.ours == Some(stamp)) {
        return Ok(ReadOutcome::Whole(content));
    }
    attempts.seen = Some((stamp, unchanged));
    attempts.last = same.then_some((file, content));
    Ok(ReadOutcome::Unsettled)
}

/// Returns whether the first attempt reads the file completely.
#[cfg(test)]
pub(super) fn read_once(want: &ReadRequest) -> bool {
    matches!(read_attempt(want, &mut Attempts::default()), Ok(ReadOutcome::Whole(_)))
}

/// Opens a regular file, following links. Returns `None` if it does not exist; a dangling link is
/// an error. Never waits for the writer of a pipe.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    match open_ordinary(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match std::fs::symlink_metadata(path) {
                Ok(found) if found.is_symlink() => {
                    Err(io::Error::other("it is a link to something that does not exist"))
                }
                _ => Ok(None),
            }
        }
        Err(error) => Err(error),
    }
}

/// Returns the stamp of a file, or `None` if it is missing.
pub(super) fn stamp(path: &Path) -> io::Result<Option<Stamp>> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(Stamp::from(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::replace;

    fn request(path: &Path) -> ReadRequest {
        ReadRequest {
            path: path.to_owned(),
            limit: 100,
            keep_end: false,
            expected: true,
            ours: None,
            shrinks_below: 0,
            // No file was changed before this time, so none has rested.
            now: || SystemTime::UNIX_EPOCH,
        }
    }

    /// Reads a file that `write` changes before each attempt.
    fn read_while(write: impl Fn(&Path, usize)) -> Option<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, mut attempts) = (folder.path().join("file"), Attempts::default());
        for number in 0..TRIES {
            write(&path, number);
            let outcome = read_attempt(&request(&path), &mut attempts).expect("read");
            assert!(matches!(outcome, ReadOutcome::Unsettled), "{outcome:?}");
        }
        attempts.replaced.map(|content| content.text().0)
    }

    #[test]
    fn a_file_that_is_always_replaced_is_read() {
        let replaced = read_while(|path, number| {
            replace(path, format!("text {number}").as_bytes()).expect("written");
        });
        assert_eq!(replaced.as_deref(), Some("text 4"));
    }

    #[test]
    fn a_file_that_is_written_in_place_is_not() {
        let in_place = |path: &Path, number: usize| {
            std::fs::write(path, format!("text {number}")).expect("written");
        };
        assert_eq!(read_while(in_place), None);
    }
}
