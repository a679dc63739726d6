//! The stamp of a file: it differs when the file was changed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Tells one state of a file from another: device, inode, size, times to the nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Stamps what a path leads to, links followed; none: there is nothing.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|metadata| Self::from(&metadata))
    }

    /// The size of the file in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// When its content last changed: seconds and nanoseconds since 1970.
    #[must_use]
    pub fn modified(&self) -> (i64, i64) {
        self.modified
    }

    /// How long nothing has happened to the file; none: the last change lies in the future, as
    /// after a clock that was put back. Clocks of file systems tick every few milliseconds: of two
    /// writes within one tick the second leaves no trace, so a stamp stands for a content only once
    /// the file has been left alone for a while.
    #[must_use]
    pub fn age(&self, now: SystemTime) -> Option<Duration> {
        let (seconds, nanoseconds) = self.changed.max(self.modified);
        // Before 1970: long ago.
        let Ok(seconds) = u64::try_from(seconds) else { return Some(Duration::MAX) };
        let last = Duration::new(seconds, u32::try_from(nanoseconds).unwrap_or(0));
        now.duration_since(SystemTime::UNIX_EPOCH).ok()?.checked_sub(last)
    }
}

impl From<&Metadata> for Stamp {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_changes_with_the_file_and_knows_how_long_it_was_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        assert_eq!(Stamp::of(&path), None);
        std::fs::write(&path, "1").expect("written");
        let (before, now) = (Stamp::of(&path).expect("a file"), SystemTime::now());
        assert_eq!(Stamp::of(&path), Some(before));
        std::fs::write(&path, "22").expect("written");
        let after = Stamp::of(&path).expect("a file");
        assert!(after != before && after.size() == 2);
        assert!(
            after
                .age(now + Duration::from_secs(60))
                .is_some_and(|age| age > Duration::from_secs(50))
        );
        assert_eq!(after.age(now - Duration::from_secs(60)), None, "a clock that was put back");
    }
}
