//! The stamp of a file, which changes whenever the file changes.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Identifies one state of a file: device, inode, size, and times to the nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the stamp of the file at a path, following links, or `None` if it cannot be
    /// examined.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|metadata| Self::from(&metadata))
    }

    /// Returns the size of the file in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns when the content last changed: seconds and nanoseconds since 1970.
    #[must_use]
    pub fn modified(&self) -> (i64, i64) {
        self.modified
    }

    /// Returns the time since the last change of the file, or `None` if that lies in the future,
    /// for example after a clock was set back.
    ///
    /// Clocks of file systems tick every few milliseconds, and the second of two writes within one
    /// tick leaves the stamp unchanged. So a stamp identifies the content only if the file has been
    /// unchanged for a while.
    #[must_use]
    pub fn age(&self, now: SystemTime) -> Option<Duration> {
        let (seconds, nanoseconds) = self.changed.max(self.modified);
        // A time before 1970 is long ago.
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
    fn a_stamp_changes_with_the_file_and_has_an_age() {
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
        assert_eq!(after.age(now - Duration::from_secs(60)), None, "a clock that was set back");
    }
}
