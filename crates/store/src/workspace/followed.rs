//! A file that other programs or people write, and that is read again when it changes.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::stable_read::{self, ReadOutcome, ReadRequest};
use super::{DOCUMENT_LIMIT, FileError};
use crate::disk::Stamp;

/// Maximum wait for a file that keeps changing when it is read for the first time.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

/// The parsed content of a file, as of the last complete read.
#[derive(Debug)]
pub(super) struct FollowedFile<T> {
    path: PathBuf,
    parse: fn(&str) -> T,
    stamp: Option<Stamp>,
    read: bool,
    /// Whether the present value was returned as a change.
    reported: bool,
    value: Arc<T>,
}

impl<T> FollowedFile<T> {
    /// Creates a value for the file at `path` without reading it; see [`FollowedFile::require`].
    pub(super) fn new(path: PathBuf, parse: fn(&str) -> T) -> Self {
        Self { path, parse, stamp: None, read: false, reported: false, value: Arc::new(parse("")) }
    }

    /// Reads the file if it was never read completely. A file that does not exist counts as empty.
    ///
    /// Must be called before the limits in the file take effect: until it succeeds, `value` is that
    /// of an empty file. Afterwards the last complete content stays in force. Blocks as `refresh`
    /// does, and up to [`SETTLE_TIMEOUT`] longer while the file keeps changing.
    ///
    /// # Errors
    /// [`FileError`] if the file exists but cannot be read.
    pub(super) fn require(&mut self) -> Result<(), FileError> {
        let start = Instant::now();
        while !self.read {
            if self.try_refresh().map_err(|error| self.unreadable(error))?.is_none()
                && start.elapsed() > SETTLE_TIMEOUT
            {
                return Err(self.unreadable(io::Error::other("it keeps changing")));
            }
        }
        Ok(())
    }

    fn unreadable(&self, error: io::Error) -> FileError {
        let hint = "it may hold limits, so it must be readable by the gateway's user: check its \
                    owner, its mode, and what it links to; or delete it";
        FileError::new(
            "read",
            &self.path,
            io::Error::new(error.kind(), format!("{error}; hint: {hint}")),
        )
    }

    /// Reads the file again if it changed. Returns whether the value has changed since the last
    /// call. If the file cannot be read completely, the value stays and a warning is logged. Blocks
    /// for at most 100 ms in addition to reading.
    pub(super) fn refresh(&mut self) -> bool {
        if let Err(error) = self.try_refresh() {
            tracing::warn!(path = %self.path.display(), %error, "the file cannot be read; its last complete content stays in force");
        }
        self.read && !std::mem::replace(&mut self.reported, self.read)
    }

    /// Returns `None` if the file keeps changing.
    fn try_refresh(&mut self) -> io::Result<Option<()>> {
        let stamp = stable_read::stamp(&self.path);
        if self.read && stamp.as_ref().is_ok_and(|stamp| *stamp == self.stamp) {
            return Ok(Some(()));
        }
        let want = ReadRequest {
            path: self.path.clone(),
            limit: DOCUMENT_LIMIT,
            keep_end: false,
            expected: self.stamp.is_some(),
            ours: None,
        };
        let (text, stamp) = match stable_read::read(&[want]).pop() {
            Some(ReadOutcome::Whole(whole)) => {
                let stamp = whole.stamp;
                (whole.text().0, Some(stamp))
            }
            Some(ReadOutcome::Missing) => (String::new(), None),
            Some(ReadOutcome::Failed(error)) => return Err(error),
            Some(ReadOutcome::Unsettled) | None => return Ok(None),
        };
        if !self.read || stamp != self.stamp {
            self.reported = false;
        }
        (self.read, self.stamp) = (true, stamp);
        self.value = Arc::new((self.parse)(&text));
        Ok(Some(()))
    }

    pub(super) fn value(&self) -> Arc<T> {
        self.value.clone()
    }

    /// Returns whether the file existed when it was last checked.
    pub(super) fn is_there(&self) -> bool {
        self.stamp.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_takes_effect_at_the_next_refresh_and_a_missing_file_is_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("it.md");
        let mut followed = FollowedFile::new(path.clone(), str::len);
        assert_eq!((followed.refresh(), *followed.value()), (true, 0));
        assert!(!followed.refresh());
        std::fs::write(&path, "abc").expect("written");
        assert_eq!((followed.refresh(), *followed.value()), (true, 3));
        assert!(!followed.refresh());
        std::fs::remove_file(&path).expect("removed");
        assert_eq!((followed.refresh(), *followed.value()), (true, 0));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_until_it_was_read_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("it.md");
        // Unlike a mode, a dangling link and a folder are refused to root, too.
        std::os::unix::fs::symlink(folder.path().join("none"), &path).expect("linked");
        let said = |followed: &mut FollowedFile<usize>| {
            let error = followed.require().expect_err("it must not count as empty");
            aetheel_model::plain::with_causes(&error)
        };
        let mut followed = FollowedFile::new(path.clone(), str::len);
        let error = said(&mut followed);
        assert!(error.contains("it.md") && error.contains("hint:"), "{error}");
        std::fs::remove_file(&path).expect("removed");
        std::fs::create_dir(&path).expect("a folder");
        assert!(said(&mut followed).contains("a folder"));
        std::fs::remove_dir(&path).expect("removed");
        std::fs::write(&path, "abc").expect("written");
        followed.require().expect("read");
        std::fs::remove_file(&path).expect("removed");
        std::fs::create_dir(&path).expect("a folder");
        followed.require().expect("it was read before");
        assert_eq!((followed.refresh(), *followed.value()), (true, 3));
        assert!(!followed.refresh());
    }
}
