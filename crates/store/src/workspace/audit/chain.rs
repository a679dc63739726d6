//! The end of the chain, to which entries are appended. Several processes may append entries, such
//! as a gateway and a console; a lock lets one of them write at a time.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

use super::files::{AuditFiles, AuditGap, month_of};
use super::line::{self, AuditHead, ReadLine};
use crate::disk::sync_folder;
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::redact::Redactor;

/// Number of bytes at the end of a file in which the last entry is searched first.
const TAIL_BYTES: u64 = 256 << 10;
/// Maximum time for another process to finish its writing.
const LOCK_LIMIT: Duration = Duration::from_secs(2);
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// The open end of the chain.
#[derive(Debug)]
pub(super) struct AuditChain {
    files: AuditFiles,
    /// Locked while this process writes.
    lock: File,
    month: Date,
    file: File,
    /// The size of the file after the last entry of this process.
    length: u64,
    head: AuditHead,
}

impl AuditChain {
    /// Opens the end of the chain and repairs what a crash left: a line that was cut off is closed
    /// by an entry that says so.
    ///
    /// # Errors
    /// The system's error, or [`io::ErrorKind::WouldBlock`] if another process writes for too long.
    pub(super) fn open(files: &AuditFiles, redactor: &Redactor) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&files.folder)?;
        let lock = appended(&files.folder.join("lock"))?;
        let _alone = ChainLock::of(&lock)?;
        Self::at_end(files, lock.try_clone()?, redactor)
    }

    /// Opens the end of the chain. The lock must be held.
    fn at_end(files: &AuditFiles, lock: File, redactor: &Redactor) -> io::Result<Self> {
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
        let length = file.metadata()?.len();
        let mut chain = Self { files: files.clone(), lock, month, file, length, head };
        chain.end_line()?;
        let now = Timestamp::now();
        let repairs: Vec<_> = repairs.into_iter().map(|entry| (now, entry)).collect();
        chain.write(&repairs, redactor)?;
        Ok(chain)
    }

    /// Ends the last line of the file if it has no line break.
    fn end_line(&mut self) -> io::Result<()> {
        let (last, _) = self.files.tail(self.month, 1)?;
        if last.last().is_some_and(|last| *last != b'\n') {
            self.file.write_all(b"\n")?;
            self.length += 1;
        }
        Ok(())
    }

    /// Returns how many of the entries that were lost since a time are counted by entries of the
    /// chain. The time identifies the gap: another process may have written the entry about it.
    fn noted(&self, since: Timestamp) -> io::Result<u64> {
        let mut noted = 0;
        for month in self.files.months()?.into_iter().filter(|month| *month >= month_of(since)) {
            let mut most = TAIL_BYTES;
            loop {
                let (bytes, is_whole) = self.files.tail(month, most)?;
                let mut lines = bytes.split(|byte| *byte == b'\n').filter_map(ReadLine::parse);
                if !is_whole && lines.clone().next().is_none_or(|line| line.record.time >= since) {
                    most = most.saturating_mul(8);
                    continue;
                }
                noted +=
                    lines.by_ref().filter_map(|line| line.record.lost_since(since)).sum::<u64>();
                break;
            }
        }
        Ok(noted)
    }

    /// Appends entries and syncs them. Continues after entries that another process has appended.
    ///
    /// # Errors
    /// The system's error, or [`io::ErrorKind::WouldBlock`] if another process writes for too long.
    /// The chain must be opened again then.
    pub(super) fn append(
        &mut self,
        entries: &[(Timestamp, AuditEntry)],
        redactor: &Redactor,
    ) -> io::Result<()> {
        self.append_after(&[], entries, redactor)
    }

    /// Does the same as [`AuditChain::append`], after entries about gaps as far as no entry counts
    /// them.
    ///
    /// # Errors
    /// See [`AuditChain::append`].
    pub(super) fn append_after(
        &mut self,
        gaps: &[AuditGap],
        entries: &[(Timestamp, AuditEntry)],
        redactor: &Redactor,
    ) -> io::Result<()> {
        if entries.is_empty() && gaps.is_empty() {
            return Ok(());
        }
        let lock = self.lock.try_clone()?;
        let _alone = ChainLock::of(&lock)?;
        if !self.is_at_end()? {
            *self = Self::at_end(&self.files, lock.try_clone()?, redactor)?;
        }
        let mut batch = Vec::new();
        for gap in gaps {
            let missing = gap.count.saturating_sub(self.noted(gap.since)?);
            if missing > 0 {
                let entry = AuditEntry::new(AuditKind::EntriesLost)
                    .with("count", missing)
                    .with("since", gap.since);
                batch.push((Timestamp::now(), entry));
            }
        }
        batch.extend_from_slice(entries);
        self.write(&batch, redactor)?;
        if let Some(sum) = AuditGap::sum(gaps.iter().copied()) {
            // The second place has either the gap of one process, or the sum of this one.
            self.save_head(&[gaps, &[sum]].concat());
        }
        Ok(())
    }

    /// Returns whether nobody has appended entries since this process did.
    fn is_at_end(&self) -> io::Result<bool> {
        if self.files.months()?.last() != Some(&self.month) {
            return Ok(false);
        }
        let (ours, now) = (self.file.metadata()?, std::fs::metadata(self.files.of(self.month))?);
        Ok((ours.dev(), ours.ino(), self.length) == (now.dev(), now.ino(), now.len()))
    }

    /// Writes entries at the end. The lock must be held.
    fn write(
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
            (self.month, self.length) = (month, self.file.metadata()?.len());
            sync_folder(&self.files.folder);
        }
        let (mut text, mut head) = (String::new(), self.head.clone());
        for (time, entry) in entries {
            let (line, next) = line::render(&head, *time, entry, redactor);
            text.push_str(&line);
            head = next;
        }
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.inspect_err(|_| {
            // If this fails too, the next start closes the torn line.
            let _ = self.file.set_len(self.length);
        })?;
        self.length += text.len() as u64;
        self.head = head;
        self.save_head(&[]);
        Ok(())
    }

    /// Saves the newest entry in the second place. Gaps that `noted` does not contain stay there,
    /// because another process has not written the entry about them yet.
    fn save_head(&self, noted: &[AuditGap]) {
        if let Err(error) = self.files.save_head(&self.head, noted) {
            tracing::debug!(%error, "cannot save state/audit-head.md; the next entry saves it");
        }
    }

    /// Removes the months whose entries are all older than `retention`. An entry about it is
    /// written before, so that the remaining chain proves where it begins.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn expire(&mut self, retention: Duration, redactor: &Redactor) -> io::Result<()> {
        let retention = SignedDuration::try_from(retention).unwrap_or(SignedDuration::MAX);
        let Ok(limit) = Timestamp::now().checked_sub(retention) else { return Ok(()) };
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

/// The lock of the chain. Dropping it releases the lock.
struct ChainLock<'a>(&'a File);

impl<'a> ChainLock<'a> {
    /// Waits until no other process writes, for a short time.
    #[expect(clippy::disallowed_methods, reason = "the log has a thread of its own")]
    fn of(lock: &'a File) -> io::Result<Self> {
        let limit = Instant::now() + LOCK_LIMIT;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Self(lock)),
                Err(TryLockError::WouldBlock) if Instant::now() < limit => {
                    std::thread::sleep(LOCK_INTERVAL);
                }
                Err(TryLockError::WouldBlock) => {
                    let text = "another process writes the audit log";
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

impl Drop for ChainLock<'_> {
    fn drop(&mut self) {
        // The lock also ends with its last file descriptor.
        let _ = self.0.unlock();
    }
}

/// Returns the last entry of some months, and the bytes of a line after it that was cut off.
fn read_end(
    files: &AuditFiles,
    months: &[Date],
) -> io::Result<(Option<AuditHead>, Option<Vec<u8>>)> {
    let mut torn = None;
    for (from_end, month) in months.iter().rev().enumerate() {
        let mut most = TAIL_BYTES;
        loop {
            let (bytes, is_whole) = files.tail(*month, most)?;
            let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
            if !is_whole {
                // The first line lacks its beginning.
                lines.remove(0);
            }
            // The part after the last line break: empty, or a line that was cut off.
            let rest = lines.pop().unwrap_or_default();
            if let Some(whole) = ReadLine::parse(rest) {
                return Ok((Some(whole.head()), None));
            }
            let last = lines.iter().rev().find_map(|line| ReadLine::parse(line));
            if last.is_none() && !is_whole {
                most = most.saturating_mul(8);
                continue;
            }
            if from_end == 0 {
                // An earlier start may have ended the line, and was killed before it wrote the
                // entry.
                let ended = lines.last().copied().unwrap_or_default();
                let cut = if rest.is_empty() { ended } else { rest };
                torn = Some(cut).filter(|cut| !cut.is_empty()).map(<[u8]>::to_owned);
                torn = torn.filter(|cut| ReadLine::parse(cut).is_none());
            }
            if let Some(last) = last {
                return Ok((Some(last.head()), torn));
            }
            break;
        }
    }
    Ok((None, torn))
}
