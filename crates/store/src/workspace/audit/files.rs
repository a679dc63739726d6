//! The files of the audit log: one for each month, and the second place of the newest hash.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::{Date, date};
use jiff::tz::TimeZone;

use super::line::AuditHead;
use crate::disk::{read_ordinary, replace, text_of};

/// Maximum size of a file that is read, in bytes.
const FILE_LIMIT: u64 = 4 << 30;
const HEAD_LIMIT: u64 = 4_096;
const HEAD_TITLE: &str = "# The newest entry of the audit log, as `NUMBER:HASH`";

/// The folder of the audit log and its second place.
#[derive(Clone, Debug)]
pub(super) struct AuditFiles {
    pub(super) folder: PathBuf,
    head: PathBuf,
}

impl AuditFiles {
    /// Names the files below a configuration folder.
    pub(super) fn new(config_dir: &Path) -> Self {
        let state = config_dir.join("state");
        Self { folder: state.join("audit"), head: state.join("audit-head.md") }
    }

    /// Returns the file of a month, which is named by its first day.
    pub(super) fn of(&self, month: Date) -> PathBuf {
        self.folder.join(format!("{:04}-{:02}.jsonl", month.year(), month.month()))
    }

    /// Returns the first days of the months that have a file, the earliest first.
    ///
    /// # Errors
    /// The folder cannot be listed. A folder that does not exist has no months.
    pub(super) fn months(&self) -> io::Result<Vec<Date>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut months = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let month = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
            months.extend(month.and_then(|month| format!("{month}-01").parse::<Date>().ok()));
        }
        months.sort_unstable();
        Ok(months)
    }

    /// Returns the content of a month.
    ///
    /// # Errors
    /// The system's error, or an error if the file is not a regular one.
    pub(super) fn read(&self, month: Date) -> io::Result<Vec<u8>> {
        read_ordinary(&self.of(month), FILE_LIMIT)
    }

    /// Returns the newest entry according to the second place, or `None` if there is no such file.
    ///
    /// # Errors
    /// The system's error, or an error if the file has another content.
    pub(super) fn head(&self) -> io::Result<Option<AuditHead>> {
        let text = match read_ordinary(&self.head, HEAD_LIMIT) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => text_of(bytes?)?,
        };
        let head = text.lines().filter(|line| !line.starts_with('#')).find_map(AuditHead::parse);
        head.map(Some).ok_or_else(|| io::Error::other("it contains no `NUMBER:HASH`"))
    }

    /// Replaces the second place.
    ///
    /// # Errors
    /// The system's error; the old content is unchanged.
    pub(super) fn save_head(&self, head: &AuditHead) -> io::Result<()> {
        replace(&self.head, format!("{HEAD_TITLE}\n\n{head}\n").as_bytes()).map(drop)
    }
}

/// Returns the first day of a time's month, in UTC.
pub(super) fn month_of(time: Timestamp) -> Date {
    let day = TimeZone::UTC.to_datetime(time).date();
    date(day.year(), day.month(), 1)
}
