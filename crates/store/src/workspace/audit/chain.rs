//! The end of the chain, to which entries are appended. One process at a time has it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

use super::files::{AuditFiles, month_of};
use super::line::{self, AuditHead, ReadLine};
use crate::disk::sync_folder;
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::redact::Redactor;

/// The open end of the chain.
#[derive(Debug)]
pub(super) struct AuditChain {
    files: AuditFiles,
    /// Locked as long as this process writes.
    _lock: File,
    month: Date,
    file: File,
    head: AuditHead,
}

impl AuditChain {
    /// Opens the end of the chain and repairs what a crash left: a line that was cut off is closed
    /// by an entry that says so.
    ///
    /// # Errors
    /// The system's error, or [`io::ErrorKind::WouldBlock`] if another process writes.
    pub(super) fn open(files: &AuditFiles, redactor: &Redactor) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&files.folder)?;
        let lock = appended(&files.folder.join("lock"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                io::Error::new(io::ErrorKind::WouldBlock, "another process writes the audit log")
            }
            TryLockError::Error(error) => error,
        })?;
        let months = files.months()?;
        let month = months.last().copied().unwrap_or_else(|| month_of(Timestamp::now()));
        let (last, torn) = read_end(files, &months)?;
        let known = files.head().unwrap_or_default();
        let file = appended(&files.of(month))?;
        let found = last.unwrap_or_else(AuditHead::start);
        let mut repairs = Vec::new();
        if let Some(torn) = &torn {
            repairs.push(
                AuditEntry::new(AuditKind::LineTorn)
                    .with("bytes", torn.len())
                    .with("sha256", line::digest(torn)),
            );
        }
        let mut head = found.clone();
        if let Some(known) = known.filter(|known| known.number > found.number) {
            // The numbers continue after those that are gone, so that the gap stays visible.
            repairs.push(
                AuditEntry::new(AuditKind::ChainBroken)
                    .with("expected", &known)
                    .with("found", &found),
            );
            head.number = known.number;
        }
        let mut chain = Self { files: files.clone(), _lock: lock, month, file, head };
        chain.end_line()?;
        let now = Timestamp::now();
        let repairs: Vec<_> = repairs.into_iter().map(|entry| (now, entry)).collect();
        chain.append(&repairs, redactor)?;
        Ok(chain)
    }

    /// Ends the last line of the file if it has no line break.
    fn end_line(&mut self) -> io::Result<()> {
        let bytes = self.files.read(self.month)?;
        if bytes.last().is_some_and(|last| *last != b'\n') {
            self.file.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Appends entries and syncs them.
    ///
    /// # Errors
    /// The system's error. The chain must be opened again then.
    pub(super) fn append(
        &mut self,
        entries: &[(Timestamp, AuditEntry)],
        redactor: &Redactor,
    ) -> io::Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        // A clock that was set back does not return to the file of an earlier month.
        let month = month_of(Timestamp::now()).max(self.month);
        if month > self.month {
            self.file = appended(&self.files.of(month))?;
            self.month = month;
            sync_folder(&self.files.folder);
        }
        let (mut text, mut head) = (String::new(), self.head.clone());
        for (time, entry) in entries {
            let (line, next) = line::render(&head, *time, entry, redactor);
            text.push_str(&line);
            head = next;
        }
        let length = self.file.metadata()?.len();
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.inspect_err(|_| {
            // If this fails too, the next start closes the torn line.
            let _ = self.file.set_len(length);
        })?;
        self.head = head;
        if let Err(error) = self.files.save_head(&self.head) {
            tracing::debug!(%error, "cannot save state/audit-head.md; the next entry saves it");
        }
        Ok(())
    }

    /// Removes the months whose entries are all older than `kept`. An entry about it is written
    /// before, so that the remaining chain proves where it begins.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn expire(&mut self, kept: Duration, redactor: &Redactor) -> io::Result<()> {
        let kept = SignedDuration::try_from(kept).unwrap_or(SignedDuration::MAX);
        let Ok(limit) = Timestamp::now().checked_sub(kept) else { return Ok(()) };
        let limit = month_of(limit);
        let months = self.files.months()?;
        let old: Vec<Date> = months
            .into_iter()
            .filter(|month| *month < self.month && month.saturating_add(1.month()) <= limit)
            .collect();
        let Some(last) = old.last() else { return Ok(()) };
        if let (Some(end), _) = read_end(&self.files, &old)? {
            let entry = AuditEntry::new(AuditKind::EntriesExpired)
                .with("through", end.number)
                .with("sha256", &end.hash)
                .with("month", last.strftime("%Y-%m"));
            self.append(&[(Timestamp::now(), entry)], redactor)?;
        }
        for month in old {
            std::fs::remove_file(self.files.of(month))?;
        }
        Ok(())
    }
}

/// Opens a file for appending. A symbolic link is not followed, and a pipe does not block.
fn appended(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

/// Returns the last entry of some months, and the bytes of a line after it that was cut off.
fn read_end(
    files: &AuditFiles,
    months: &[Date],
) -> io::Result<(Option<AuditHead>, Option<Vec<u8>>)> {
    let mut torn = None;
    for (from_end, month) in months.iter().rev().enumerate() {
        let bytes = files.read(*month)?;
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        // The part after the last line break: empty, or a line that was cut off.
        let rest = lines.pop().unwrap_or_default();
        if let Some(whole) = ReadLine::parse(rest) {
            return Ok((Some(whole.head()), None));
        }
        if from_end == 0 {
            // An earlier start may have ended the line, and was killed before it wrote the entry.
            let ended = lines.last().copied().unwrap_or_default();
            let last = if rest.is_empty() { ended } else { rest };
            torn = Some(last).filter(|last| !last.is_empty()).map(<[u8]>::to_owned);
            torn = torn.filter(|last| ReadLine::parse(last).is_none());
        }
        if let Some(last) = lines.iter().rev().find_map(|line| ReadLine::parse(line)) {
            return Ok((Some(last.head()), torn));
        }
    }
    Ok((None, torn))
}
