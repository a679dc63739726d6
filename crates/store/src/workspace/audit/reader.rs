//! Reads the audit log for pages that show it: the newest entries first, in parts, with a bounded
//! amount of reading each. Checks the chain in the background.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use tokio::sync::watch;
use tokio::time::timeout;

use super::files::AuditFiles;
use super::line::{AuditRecord, ReadLine};
use super::verify::{self, AuditReport};
use crate::workspace::blocking;

/// Number of bytes that are read at once.
const BLOCK: u64 = 256 << 10;
/// Maximum length of a line in bytes. A longer one is not an entry.
const LINE_LIMIT: u64 = 1 << 20;
/// Maximum number of bytes that are read for one part. The next part continues there.
const PART_LIMIT: u64 = 16 << 20;

/// The entries to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only entries of this kind.
    pub kind: Option<String>,
    /// Only entries of a person: the id, or a part of the name.
    pub person: Option<String>,
    /// Only entries of this lane.
    pub lane: Option<String>,
    /// Only entries of this day (UTC) in the file of its month.
    pub day: Option<Date>,
}

impl AuditQuery {
    /// Returns whether an entry is to be shown.
    #[must_use]
    pub fn matches(&self, record: &AuditRecord) -> bool {
        let is_day = |day: Date| TimeZone::UTC.to_datetime(record.time).date() == day;
        self.kind.as_deref().is_none_or(|kind| record.kind == kind)
            && self.person.as_deref().is_none_or(|person| record.names_person(person))
            && self
                .lane
                .as_deref()
                .is_none_or(|lane| record.fields.get("lane").is_some_and(|of| of == lane))
            && self.day.is_none_or(is_day)
    }
}

/// A place in the files, from which earlier entries are read. Its text form is
/// `YYYY-MM.OFFSET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditPosition {
    /// The first day of the month of the file.
    month: Date,
    /// Number of bytes of the file before the place.
    offset: u64,
}

impl fmt::Display for AuditPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}.{}", self.month.year(), self.month.month(), self.offset)
    }
}

/// A text is not a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a position is a month and a number, such as `2026-11.4096`")]
pub struct NotAPosition;

impl FromStr for AuditPosition {
    type Err = NotAPosition;

    fn from_str(text: &str) -> Result<Self, NotAPosition> {
        let (month, offset) = text.split_once('.').ok_or(NotAPosition)?;
        let month = format!("{month}-01").parse().map_err(|_| NotAPosition)?;
        Ok(Self { month, offset: offset.parse().map_err(|_| NotAPosition)? })
    }
}

/// A line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditRow {
    /// An entry. Its hash was not checked.
    Entry(AuditRecord),
    /// A line that is not an entry, with its file and the number of bytes before it.
    NotAnEntry(String),
}

/// A part of the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditSlice {
    /// The lines that match, the newest first. Lines that are not entries match every query.
    pub rows: Vec<AuditRow>,
    /// Where earlier entries are, or `None` if there are no more.
    pub earlier: Option<AuditPosition>,
    /// Whether reading ended because the limit was reached, so that there may be fewer rows than
    /// wanted.
    pub is_limited: bool,
}

/// The state of the check of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditCheck {
    /// No check was started since the start of the program.
    NotStarted,
    /// The check runs since this time.
    Running(Timestamp),
    /// The check ended at this time.
    Ended(Timestamp, AuditReport),
    /// The check failed at this time, for this reason.
    Failed(Timestamp, String),
}

/// Reads and checks the audit log of a configuration folder. Cheap to clone; clones share the check.
#[derive(Clone, Debug)]
pub struct AuditReader {
    files: AuditFiles,
    check: Arc<watch::Sender<AuditCheck>>,
}

impl AuditReader {
    /// Creates a reader. Does no I/O.
    #[must_use]
    pub fn new(config_dir: &Path) -> Self {
        let check = Arc::new(watch::channel(AuditCheck::NotStarted).0);
        Self { files: AuditFiles::new(config_dir), check }
    }

    /// Returns at most `limit` lines before a place, or the newest ones.
    ///
    /// # Errors
    /// The files cannot be read. The error names the file.
    pub async fn part(
        &self,
        query: AuditQuery,
        before: Option<AuditPosition>,
        limit: usize,
    ) -> io::Result<AuditSlice> {
        let files = self.files.clone();
        blocking(move || part(&files, &query, before, limit)).await
    }

    /// Starts a check of the whole chain in the background, unless one runs.
    pub fn start_check(&self) {
        let began = self.check.send_if_modified(|check| {
            let starts = !matches!(check, AuditCheck::Running(_));
            if starts {
                *check = AuditCheck::Running(Timestamp::now());
            }
            starts
        });
        if !began {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let files = this.files.clone();
            let checked = tokio::task::spawn_blocking(move || verify::verify(&files, None)).await;
            let now = Timestamp::now();
            this.check.send_replace(match checked {
                Ok(Ok(report)) => AuditCheck::Ended(now, report),
                Ok(Err(error)) => AuditCheck::Failed(now, error.to_string()),
                Err(_) => AuditCheck::Failed(now, "the log has the reason".to_owned()),
            });
        });
    }

    /// Returns the state of the check. Waits until it ends, at most for `limit`.
    pub async fn check(&self, limit: Duration) -> AuditCheck {
        let mut check = self.check.subscribe();
        let ended = check.wait_for(|check| !matches!(check, AuditCheck::Running(_)));
        // The last known state is returned if it does not end in time.
        let _ = timeout(limit, ended).await;
        self.check.borrow().clone()
    }
}

fn part(
    files: &AuditFiles,
    query: &AuditQuery,
    before: Option<AuditPosition>,
    limit: usize,
) -> io::Result<AuditSlice> {
    let mut slice = AuditSlice::default();
    let wanted = query.day.map(|day| day.first_of_month());
    // An entry is in the file of its month, or in a later one if the clock was set back.
    let months = files.months()?.into_iter().rev().filter(|month| {
        before.is_none_or(|before| *month <= before.month)
            && wanted.is_none_or(|wanted| *month == wanted)
    });
    let mut budget = PART_LIMIT;
    for month in months {
        let file = files.open(month)?;
        let size = file.metadata()?.len();
        let start = before.filter(|before| before.month == month).map(|before| before.offset);
        let mut lines = LinesBackwards { file: &file, before: start.unwrap_or(size).min(size) };
        loop {
            let place = AuditPosition { month, offset: lines.before };
            if lines.before > 0 && (slice.rows.len() >= limit || budget == 0) {
                slice.is_limited = slice.rows.len() < limit;
                slice.earlier = Some(place);
                return Ok(slice);
            }
            let room = limit - slice.rows.len();
            let found = lines.take(room, |offset, line| match ReadLine::parse(line) {
                Some(read) => {
                    let record = read.record;
                    query.matches(&record).then_some(AuditRow::Entry(record))
                }
                None => {
                    let name = files.name_of(month);
                    Some(AuditRow::NotAnEntry(format!("state/audit/{name}, byte {offset}")))
                }
            });
            let Some(rows) = found.map_err(|error| named(files, month, &error))? else { break };
            budget = budget.saturating_sub(place.offset - lines.before);
            slice.rows.extend(rows);
        }
    }
    Ok(slice)
}

fn named(files: &AuditFiles, month: Date, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", files.name_of(month)))
}

/// Reads the lines of a file from its end to its beginning, a block at a time.
struct LinesBackwards<'a> {
    file: &'a File,
    /// Number of bytes before the last line that was passed on.
    before: u64,
}

impl LinesBackwards<'_> {
    /// Passes the lines of the previous block to `each`, the last one first, with the number of bytes
    /// before each, until `limit` rows were made. Returns the rows, or `None` at the beginning of
    /// the file.
    fn take(
        &mut self,
        limit: usize,
        mut each: impl FnMut(u64, &[u8]) -> Option<AuditRow>,
    ) -> io::Result<Option<Vec<AuditRow>>> {
        if self.before == 0 {
            return Ok(None);
        }
        let (start, bytes) = self.block()?;
        let mut rows = Vec::new();
        let mut end = bytes.len();
        while end > 0 && rows.len() < limit {
            let text = bytes[..end].strip_suffix(b"\n").unwrap_or(&bytes[..end]);
            let begin = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let offset = start + begin as u64;
            rows.extend(each(offset, &text[begin..]));
            end = begin;
            self.before = offset;
        }
        Ok(Some(rows))
    }

    /// Reads the bytes before [`Self::before`], from the beginning of a line. Returns them and their
    /// place.
    fn block(&self) -> io::Result<(u64, Vec<u8>)> {
        let mut length = BLOCK;
        loop {
            let start = self.before.saturating_sub(length);
            let mut bytes = vec![0; usize::try_from(self.before - start).unwrap_or_default()];
            self.file.read_exact_at(&mut bytes, start)?;
            if start == 0 {
                return Ok((0, bytes));
            }
            // The last byte may be the line break of the last line.
            let inner = bytes.len().saturating_sub(1);
            match bytes[..inner].iter().position(|byte| *byte == b'\n') {
                Some(at) => {
                    let line = at + 1;
                    return Ok((start + line as u64, bytes.split_off(line)));
                }
                None if length >= LINE_LIMIT => return Ok((start, bytes)),
                None => length *= 2,
            }
        }
    }
}
