//! The files of the audit log: one for each month, and the second place of the newest hash, which
//! also has the number of entries that were lost since then.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::{Date, date};
use jiff::tz::TimeZone;

use super::line::AuditHead;
use crate::disk::{replace, text_of};
use aetheel_runtime::ordinary::{open_ordinary, read_ordinary};

const HEAD_LIMIT: u64 = 4_096;
const HEAD_TITLE: &str = "# The newest entry of the audit log, as `NUMBER:HASH`";
/// The beginning of the line about lost entries.
const GAP_TITLE: &str = "Entries lost since then: `";

/// The folder of the audit log and its second place.
#[derive(Clone, Debug)]
pub(super) struct AuditFiles {
    pub(super) folder: PathBuf,
    head: PathBuf,
}

impl AuditFiles {
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

    pub(super) fn name_of(&self, month: Date) -> String {
        self.of(month).file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Opens a month for reading.
    ///
    /// # Errors
    /// The system's error, or an error if the file is not a regular one. Both name the file.
    pub(super) fn open(&self, month: Date) -> io::Result<File> {
        open_ordinary(&self.of(month)).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.name_of(month)))
        })
    }

    /// Returns the last bytes of a month, at most `max_bytes`, and whether they are all of it.
    ///
    /// # Errors
    /// See [`AuditFiles::open`].
    pub(super) fn tail(&self, month: Date, max_bytes: u64) -> io::Result<(Vec<u8>, bool)> {
        let mut file = self.open(month)?;
        let start = file.metadata()?.len().saturating_sub(max_bytes);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(max_bytes).read_to_end(&mut bytes)?;
        Ok((bytes, start == 0))
    }

    /// Returns the newest entry according to the second place, or `None` if it names no entry yet.
    ///
    /// # Errors
    /// The system's error, or an error if the file has another content.
    pub(super) fn head(&self) -> io::Result<Option<AuditHead>> {
        let Some(text) = self.second_place()? else { return Ok(None) };
        let head = head_in(&text);
        if head.is_none() && gap_in(&text).is_none() {
            return Err(io::Error::other("it contains no `NUMBER:HASH`"));
        }
        Ok(head)
    }

    /// Returns the entries that were lost after the newest one, according to the second place.
    ///
    /// # Errors
    /// The system's error, or an error if the file is not text.
    pub(super) fn gap(&self) -> io::Result<Option<AuditGap>> {
        let text = self.second_place()?;
        Ok(text.as_deref().and_then(gap_in).filter(|gap| gap.count > 0))
    }

    /// Replaces the newest entry in the second place, and removes the gap there if `noted` contains
    /// it.
    ///
    /// # Errors
    /// The system's error; the old content is unchanged.
    pub(super) fn save_head(&self, head: &AuditHead, noted: &[AuditGap]) -> io::Result<()> {
        let is_noted = |gap: &AuditGap| {
            noted.iter().any(|noted| noted.since == gap.since && noted.count >= gap.count)
        };
        let gap = self.gap().ok().flatten().filter(|gap| !is_noted(gap));
        let gap = gap.unwrap_or(AuditGap { count: 0, since: Timestamp::UNIX_EPOCH });
        replace(&self.head, second_place(Some(head), &gap).as_bytes()).map(drop)
    }

    /// Notes entries that could not be written, so that the next process knows of them. If the disk
    /// is full, the file is changed in place, because that needs no space.
    ///
    /// # Errors
    /// The system's error; the old content is unchanged.
    pub(super) fn save_gap(&self, gap: &AuditGap) -> io::Result<()> {
        let text = self.second_place()?.unwrap_or_default();
        let content = second_place(head_in(&text).as_ref(), gap);
        replace(&self.head, content.as_bytes()).map(drop).or_else(|error| {
            if text.len() != content.len() {
                return Err(error);
            }
            let file = OpenOptions::new()
                .write(true)
                .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
                .open(&self.head)?;
            file.write_all_at(content.as_bytes(), 0)?;
            file.sync_data()
        })
    }

    fn second_place(&self) -> io::Result<Option<String>> {
        match read_ordinary(&self.head, HEAD_LIMIT) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            bytes => text_of(bytes?).map(Some),
        }
    }
}

/// Entries that could not be written. The time, in whole milliseconds, identifies the gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AuditGap {
    pub(super) count: u64,
    pub(super) since: Timestamp,
}

impl AuditGap {
    /// Returns all entries of some gaps as one gap, with the time of the first.
    pub(super) fn sum(gaps: impl IntoIterator<Item = Self>) -> Option<Self> {
        gaps.into_iter().reduce(|sum, gap| Self { count: sum.count + gap.count, ..sum })
    }
}

/// Returns the content of the second place. Its length depends on the head alone.
fn second_place(head: Option<&AuditHead>, gap: &AuditGap) -> String {
    let head = head.map(|head| format!("{head}\n\n")).unwrap_or_default();
    format!("{HEAD_TITLE}\n\n{head}{GAP_TITLE}{:020}` since `{:.3}`\n", gap.count, gap.since)
}

fn head_in(text: &str) -> Option<AuditHead> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(AuditHead::parse)
}

fn gap_in(text: &str) -> Option<AuditGap> {
    let line = text.lines().find_map(|line| line.strip_prefix(GAP_TITLE))?;
    let (count, since) = line.strip_suffix('`')?.split_once("` since `")?;
    Some(AuditGap { count: count.parse().ok()?, since: since.parse().ok()? })
}

/// Returns the first day of a time's month, in UTC.
pub(super) fn month_of(time: Timestamp) -> Date {
    let day = TimeZone::UTC.to_datetime(time).date();
    date(day.year(), day.month(), 1)
}
