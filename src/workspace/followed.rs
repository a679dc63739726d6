//! A file that somebody else writes and that is read again when it changed.

use std::path::PathBuf;
use std::sync::Arc;

use super::DOCUMENT_LIMIT;
use super::fresh::{self, Outcome, Want};
use crate::disk::Stamp;

/// The meaning of a file, as it was last read whole.
#[derive(Debug)]
pub(super) struct Followed<T> {
    path: PathBuf,
    parse: fn(&str) -> T,
    stamp: Option<Stamp>,
    read: bool,
    value: Arc<T>,
}

impl<T> Followed<T> {
    /// Nothing is read yet; until then, and where there is no file, it means what an empty one
    /// means.
    pub(super) fn new(path: PathBuf, parse: fn(&str) -> T) -> Self {
        Self { path, parse, stamp: None, read: false, value: Arc::new(parse("")) }
    }

    /// Reads the file again if it changed and returns whether it did. One that cannot be read whole
    /// stays what it was, which is logged. Blocks for at most 100 ms on top of reading.
    pub(super) fn refresh(&mut self) -> bool {
        let stamp = fresh::stamp(&self.path);
        if self.read && stamp.as_ref().is_ok_and(|stamp| *stamp == self.stamp) {
            return false;
        }
        let want = Want {
            path: self.path.clone(),
            limit: DOCUMENT_LIMIT,
            keep_end: false,
            expected: self.stamp.is_some(),
            ours: None,
        };
        let (text, stamp) = match fresh::read(&[want]).pop() {
            Some(Outcome::Whole(whole)) => {
                let stamp = whole.stamp;
                (whole.text().0, Some(stamp))
            }
            Some(Outcome::Missing) => (String::new(), None),
            Some(Outcome::Failed(error)) => {
                tracing::warn!(path = %self.path.display(), %error, "the file cannot be read; what was read last stays in force");
                return false;
            }
            Some(Outcome::Unsettled) | None => return false,
        };
        let changed = !self.read || stamp != self.stamp;
        (self.read, self.stamp) = (true, stamp);
        self.value = Arc::new((self.parse)(&text));
        changed
    }

    pub(super) fn value(&self) -> Arc<T> {
        self.value.clone()
    }

    /// Whether there was a file when it was last looked at.
    pub(super) fn is_there(&self) -> bool {
        self.stamp.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_from_its_next_look_on_and_a_missing_one_is_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("it.md");
        let mut followed = Followed::new(path.clone(), str::len);
        assert_eq!((followed.refresh(), *followed.value()), (true, 0));
        assert!(!followed.refresh());
        std::fs::write(&path, "abc").expect("written");
        assert_eq!((followed.refresh(), *followed.value()), (true, 3));
        assert!(!followed.refresh());
        std::fs::remove_file(&path).expect("removed");
        assert_eq!((followed.refresh(), *followed.value()), (true, 0));
    }
}
