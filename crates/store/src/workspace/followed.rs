//! A file that other programs or people write, and that is read again when it changes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::stable_read::{self, ReadOutcome, ReadRequest, SHRINK_TIMEOUT};
use super::{DOCUMENT_LIMIT, FileError};
use crate::disk::{Stamp, replace, text_of};
use aetheel_runtime::ordinary::read_ordinary;

/// Maximum wait for a file that keeps changing when it is read for the first time.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

/// The parsed content of a file, as of the last complete read without faults.
#[derive(Debug)]
pub(super) struct FollowedFile<T> {
    rules: ContentRules<T>,
    file: SeenFile,
    read: bool,
    /// Whether the present value was returned as a change.
    reported: bool,
    value: Arc<T>,
    /// The text of the present value.
    text: String,
    last_faults: Vec<String>,
    /// Whether the file became empty; see [`FollowedFile::take_emptied`].
    is_emptied: bool,
    copy: Option<KeptCopy>,
    /// Whether the last complete read has only faults of the check. They end when another file
    /// changes.
    has_failed_check: bool,
    now: fn() -> SystemTime,
}

/// A file as it was found by the last attempt to read it.
#[derive(Debug, Default)]
struct SeenFile {
    path: PathBuf,
    stamp: Option<Stamp>,
    /// The stamp after the last write of this program.
    own_stamp: Option<Stamp>,
    /// Since when a file that was there is missing.
    missing_since: Option<Instant>,
    /// Whether another program was writing it.
    is_changing: bool,
}

/// Returns the faults of a content that depend on other files.
type CheckFn<T> = dyn Fn(&T) -> Vec<String> + Send;

/// How a content is parsed, and which contents must not replace an earlier one.
struct ContentRules<T> {
    parse: fn(&str) -> T,
    faults: fn(&T) -> &[String],
    /// Checks a content without faults of its own.
    check: Option<Box<CheckFn<T>>>,
}

impl<T> fmt::Debug for ContentRules<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContentRules")
    }
}

/// The last content without faults on disk, for the next process.
#[derive(Debug)]
struct KeptCopy {
    path: PathBuf,
    /// Whether this process updates the copy. `aetheel check` does not.
    is_updated: bool,
}

impl<T> FollowedFile<T> {
    /// Creates a value for the file at `path` without reading it; see [`FollowedFile::require`].
    pub(super) fn new(path: PathBuf, parse: fn(&str) -> T) -> Self {
        Self {
            rules: ContentRules { parse, faults: |_| &[], check: None },
            file: SeenFile { path, ..SeenFile::default() },
            read: false,
            reported: false,
            value: Arc::new(parse("")),
            text: String::new(),
            last_faults: Vec::new(),
            is_emptied: false,
            copy: None,
            has_failed_check: false,
            now: SystemTime::now,
        }
    }

    /// Keeps the value if a later content has faults. The last content without faults is also at
    /// `copy`, and is the first value if the file has faults then.
    pub(super) fn keeping_good(mut self, faults: fn(&T) -> &[String], copy: PathBuf) -> Self {
        self.rules.faults = faults;
        self.copy = Some(KeptCopy { path: copy, is_updated: false });
        self.take_copy();
        self
    }

    /// Replaces the value by the copy. Without a copy that has no faults, the value is that of an
    /// empty file.
    fn take_copy(&mut self) {
        let copy = self.copy.iter().find_map(|copy| {
            let text = read_ordinary(&copy.path, DOCUMENT_LIMIT).and_then(text_of).ok()?;
            (self.rules.faults)(&(self.rules.parse)(&text)).is_empty().then_some(text)
        });
        self.text = copy.unwrap_or_default();
        self.value = Arc::new((self.rules.parse)(&self.text));
    }

    /// Adds a check that depends on other files. If the present content fails it, the copy stays in
    /// force.
    pub(super) fn add_check(&mut self, check: impl Fn(&T) -> Vec<String> + Send + 'static) {
        if self.last_faults.is_empty() {
            self.last_faults = check(&self.value);
            self.has_failed_check = !self.last_faults.is_empty();
            if self.has_failed_check {
                self.take_copy();
            }
        }
        self.rules.check = Some(Box::new(check));
    }

    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    /// Lets later changes update the copy.
    pub(super) fn update_copy(&mut self) {
        self.copy.iter_mut().for_each(|copy| copy.is_updated = true);
        self.save_copy();
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
            &self.file.path,
            io::Error::new(error.kind(), format!("{error}; hint: {hint}")),
        )
    }

    /// Reads the file again if it changed. Returns whether the value has changed since the last
    /// call. If the file cannot be read completely or has faults, the value stays and a warning is
    /// logged. Blocks for at most 100 ms in addition to reading.
    pub(super) fn refresh(&mut self) -> bool {
        let before = self.file.stamp;
        if let Err(error) = self.try_refresh() {
            tracing::warn!(path = %self.file.path.display(), %error, "the file cannot be read; its last complete content stays in force");
        }
        if before != self.file.stamp {
            for fault in &self.last_faults {
                tracing::error!(
                    fault,
                    "{} has a fault; its last content without faults stays in force",
                    self.name()
                );
            }
        }
        self.read && !std::mem::replace(&mut self.reported, self.read)
    }

    /// Returns `None` if the file keeps changing.
    fn try_refresh(&mut self) -> io::Result<Option<()>> {
        let file = &mut self.file;
        let stamp = stable_read::stamp(&file.path);
        let is_same = self.read && stamp.as_ref().is_ok_and(|stamp| *stamp == file.stamp);
        if is_same && !self.has_failed_check {
            file.missing_since = None;
            return Ok(Some(()));
        }
        let want = ReadRequest {
            path: file.path.clone(),
            limit: DOCUMENT_LIMIT,
            keep_end: false,
            expected: file.stamp.is_some(),
            ours: file.own_stamp,
            now: self.now,
            // Only files with limits wait, because others set nothing while they are empty.
            shrinks_below: match (&self.copy, file.is_changing) {
                (None, _) => 0,
                (Some(_), true) => u64::MAX,
                (Some(_), false) => self.text.len() as u64,
            },
        };
        let (text, stamp) = match stable_read::read(&[want]).pop() {
            Some(ReadOutcome::Whole(whole)) => {
                let stamp = whole.stamp;
                (whole.text().0, Some(stamp))
            }
            Some(ReadOutcome::Missing) if self.is_being_replaced() => return Ok(None),
            Some(ReadOutcome::Missing) => (String::new(), None),
            Some(ReadOutcome::Failed(error)) => return Err(error),
            Some(ReadOutcome::Unsettled) | None => {
                self.file.is_changing = true;
                return Ok(None);
            }
        };
        (self.file.is_changing, self.file.missing_since) = (false, None);
        self.take(text, stamp);
        Ok(Some(()))
    }

    /// Returns whether a missing file was there a moment ago.
    fn is_being_replaced(&mut self) -> bool {
        let was_there = !self.text.is_empty() || self.file.stamp.is_some();
        was_there
            && self.copy.is_some()
            && self.file.missing_since.get_or_insert_with(Instant::now).elapsed() < SHRINK_TIMEOUT
    }

    fn take(&mut self, text: String, stamp: Option<Stamp>) {
        let is_new = !self.read || stamp != self.file.stamp || self.has_failed_check;
        (self.read, self.file.stamp) = (true, stamp);
        let value = (self.rules.parse)(&text);
        self.last_faults = (self.rules.faults)(&value).to_vec();
        let check = self.rules.check.as_ref().filter(|_| self.last_faults.is_empty());
        self.last_faults.extend(check.iter().flat_map(|check| check(&value)));
        self.has_failed_check = check.is_some() && !self.last_faults.is_empty();
        if !self.last_faults.is_empty() {
            return;
        }
        if is_new {
            self.reported = false;
        }
        self.is_emptied |= text.trim().is_empty() && !self.text.trim().is_empty();
        (self.value, self.text) = (Arc::new(value), text);
        self.save_copy();
    }

    fn save_copy(&self) {
        let Some(copy) = self.copy.as_ref().filter(|copy| copy.is_updated) else { return };
        let is_saved = read_ordinary(&copy.path, DOCUMENT_LIMIT)
            .is_ok_and(|saved| saved == self.text.as_bytes());
        if is_saved || (self.text.is_empty() && !copy.path.exists()) {
            return;
        }
        let folder = copy.path.parent().unwrap_or(Path::new(""));
        let saved = std::fs::create_dir_all(folder)
            .and_then(|()| replace(&copy.path, self.text.as_bytes()));
        if let Err(error) = saved {
            tracing::warn!(path = %copy.path.display(), %error, "the copy of the file cannot be saved; the next start does not know its last content");
        }
    }

    /// Names the stamp that this program's own write gave the file.
    pub(super) fn note_own_write(&mut self, stamp: Stamp) {
        self.file.own_stamp = Some(stamp);
    }

    pub(super) fn name(&self) -> String {
        self.file.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(super) fn in_force(&self) -> (&str, String) {
        let folder = if self.last_faults.is_empty() { "" } else { "state/in-force/" };
        (&self.text, format!("{folder}{}", self.name()))
    }

    /// Returns the faults because of which the last complete content is not in force.
    pub(super) fn last_faults(&self) -> &[String] {
        &self.last_faults
    }

    /// Returns whether the file became empty or was deleted since the last call.
    pub(super) fn take_emptied(&mut self) -> bool {
        std::mem::take(&mut self.is_emptied)
    }

    pub(super) fn value(&self) -> Arc<T> {
        self.value.clone()
    }

    /// Returns whether the file existed when it was last checked.
    pub(super) fn is_there(&self) -> bool {
        self.file.stamp.is_some()
    }
}

/// Returns the path of the copy of a file's last content without faults.
pub(super) fn kept_copy(folder: &Path, name: &str) -> PathBuf {
    folder.join("state/in-force").join(name)
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
        while !followed.refresh() {}
        assert_eq!(*followed.value(), 0);
    }

    /// Parses the length of a text, with a fault in a text with `!`.
    fn with_faults(text: &str) -> Vec<String> {
        let fault = text.contains('!').then(|| "fault".to_owned());
        fault.into_iter().collect()
    }

    #[test]
    fn a_file_that_shrinks_counts_after_a_moment_and_never_with_a_fault() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("it.md");
        let mut followed = FollowedFile::new(path.clone(), str::len)
            .keeping_good(|_| &[], folder.path().join("none.md"));
        std::fs::write(&path, "abcdef").expect("written");
        assert_eq!((followed.refresh(), *followed.value()), (true, 6));
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
        // No time passes, so the file was never unchanged for long enough.
        followed.now = || SystemTime::UNIX_EPOCH;
        for length in [0, 1, 2] {
            file.set_len(length).expect("changed");
            assert_eq!((followed.refresh(), *followed.value()), (false, 6), "{length}");
        }
        followed.now = SystemTime::now;
        while !followed.refresh() {}
        assert_eq!((*followed.value(), followed.take_emptied()), (2, false));
        file.set_len(0).expect("changed");
        while !followed.refresh() {}
        assert_eq!((*followed.value(), followed.take_emptied()), (0, true));
    }

    #[test]
    fn the_last_good_content_survives_a_fault_and_the_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, copy) = (folder.path().join("it.md"), folder.path().join("state/it.md"));
        let new = || {
            FollowedFile::new(path.clone(), with_faults).keeping_good(Vec::as_slice, copy.clone())
        };
        std::fs::write(&path, "good").expect("written");
        let mut followed = new();
        followed.require().expect("read");
        assert!(!copy.exists());
        followed.update_copy();
        std::fs::write(&path, "not good!").expect("written");
        followed.refresh();
        assert_eq!((followed.last_faults().len(), followed.text.as_str()), (1, "good"));
        let mut next = new();
        next.require().expect("read");
        assert_eq!((next.last_faults().len(), next.text.as_str()), (1, "good"));
        std::fs::write(&path, "good again").expect("written");
        assert!(next.refresh());
        assert_eq!((next.last_faults().len(), next.text.as_str()), (0, "good again"));
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
