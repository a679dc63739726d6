//! The files of turns, one for each day: appends lines, reads them one by one, and removes lines
//! that are too old.
//!
//! Only complete lines are read. Everything else in a file is skipped, such as a line that a crash
//! cut off or that a person added.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::line::TurnLine;
use crate::disk::replace_with;
use aetheel_runtime::ordinary::open_ordinary;

/// Maximum length of a line that is read, in bytes. The gateway writes no longer lines.
pub(super) const LINE_LIMIT: usize = 128 << 10;

/// How long turns are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnRetention {
    /// Age limit of prompts, answers and paths of recordings, which is that of recordings.
    pub texts: Duration,
    /// Age limit of everything else.
    pub lines: Duration,
}

/// Returns the day of a time, in UTC.
pub(super) fn day_of(time: Timestamp) -> Date {
    TimeZone::UTC.to_datetime(time).date()
}

fn file_of(folder: &Path, day: Date) -> PathBuf {
    folder.join(format!("{day}.jsonl"))
}

/// Returns the days that have a file, the latest first.
///
/// # Errors
/// The folder cannot be listed. A folder that does not exist has no days.
pub(super) fn days(folder: &Path) -> io::Result<Vec<Date>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut days: Vec<Date> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let day: Date = name.to_str()?.strip_suffix(".jsonl")?.parse().ok()?;
            (entry.path() == file_of(folder, day)).then_some(day)
        })
        .collect();
    days.sort_unstable_by(|one, other| other.cmp(one));
    Ok(days)
}

/// Appends a line to the file of its day. If that fails, the file is unchanged.
///
/// # Errors
/// Returns the error of the system.
pub(super) fn append(folder: &Path, line: &TurnLine) -> io::Result<()> {
    let path = file_of(folder, day_of(line.ended));
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    let mut file = match options.open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            options.open(&path)?
        }
        file => file?,
    };
    let length = file.metadata()?.len();
    let mut text = Vec::new();
    if length > 0 {
        let mut last = [0];
        file.read_exact_at(&mut last, length - 1)?;
        if last != *b"\n" {
            // A crash cut the last line off; it must not corrupt this one.
            text.push(b'\n');
        }
    }
    serde_json::to_writer(&mut text, line)?;
    text.push(b'\n');
    file.write_all(&text).inspect_err(|_| {
        // If this fails too, the next line begins after the remaining bytes.
        let _ = file.set_len(length);
    })
}

/// Reads the lines of a day in order, until `take` breaks. Returns the size of the file in bytes.
///
/// # Errors
/// Returns the error of the system. A day without a file has no lines.
pub(super) fn read(
    folder: &Path,
    day: Date,
    mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<u64> {
    let file = match open_ordinary(&file_of(folder, day)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        file => file?,
    };
    let bytes = file.metadata()?.len();
    each_line(BufReader::with_capacity(LINE_LIMIT, file), &mut take)?;
    Ok(bytes)
}

/// Calls `take` with each line that is not longer than [`LINE_LIMIT`].
fn each_line(
    mut from: impl BufRead,
    take: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<()> {
    let (mut partial, mut skipped) = (Vec::new(), false);
    loop {
        let chunk = from.fill_buf()?;
        if chunk.is_empty() {
            if !partial.is_empty() {
                let _ = take(&partial);
            }
            return Ok(());
        }
        let end = memchr::memchr(b'\n', chunk);
        let piece = &chunk[..end.unwrap_or(chunk.len())];
        let used = piece.len() + usize::from(end.is_some());
        skipped |= partial.len() + piece.len() > LINE_LIMIT;
        let mut over = false;
        if skipped {
            partial.clear();
        } else if end.is_some() && partial.is_empty() {
            over = take(piece).is_break();
        } else {
            partial.extend_from_slice(piece);
        }
        if end.is_some() {
            if !partial.is_empty() {
                over = take(&partial).is_break();
                partial.clear();
            }
            skipped = false;
        }
        from.consume(used);
        if over {
            return Ok(());
        }
    }
}

/// Returns whether the file of the day already has a line of this turn.
///
/// # Errors
/// See [`read`].
pub(super) fn contains_turn(folder: &Path, line: &TurnLine) -> io::Result<bool> {
    let mut found = false;
    read(folder, day_of(line.ended), |other| {
        found = may_mention(other, &line.turn)
            && serde_json::from_slice::<TurnLine>(other).is_ok_and(|other| other.turn == line.turn);
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// Returns whether a line contains the id of a turn anywhere, which is cheaper than parsing it.
pub(super) fn may_mention(line: &[u8], turn: &str) -> bool {
    memchr::memmem::find(line, turn.as_bytes()).is_some()
}

/// Removes the files of days that are too old, and the texts of lines that are too old. Days before
/// `clean_until` are known to have no such texts. Returns the first day that must be checked the
/// next time.
///
/// # Errors
/// Returns the error of the system; the rest is removed by the next call.
pub(super) fn tidy(
    folder: &Path,
    retention: TurnRetention,
    clean_until: Date,
    now: Timestamp,
) -> io::Result<Date> {
    let ago = |age: Duration| {
        SignedDuration::try_from(age).ok().and_then(|age| now.checked_sub(age).ok())
    };
    let (texts, lines) = (ago(retention.texts), ago(retention.lines));
    for day in days(folder)? {
        // The last turn of the day must be too old.
        if lines.is_some_and(|oldest| day < day_of(oldest)) {
            fs::remove_file(file_of(folder, day))?;
        } else if let Some(oldest) = texts
            && (clean_until..=day_of(oldest)).contains(&day)
        {
            strip_texts(folder, day, oldest)?;
        }
    }
    Ok(texts.map_or(clean_until, day_of))
}

/// Removes the texts from the lines of a day that ended before a time. Lines that cannot be parsed
/// are removed, because they may contain texts.
fn strip_texts(folder: &Path, day: Date, before: Timestamp) -> io::Result<()> {
    let mut any = false;
    let parsed = |line: &[u8]| serde_json::from_slice::<TurnLine>(line).ok();
    let old = |line: &TurnLine| line.ended < before;
    read(folder, day, |line| {
        any = parsed(line).is_none_or(|line| old(&line) && line.has_texts());
        if any { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if !any {
        return Ok(());
    }
    replace_with(&file_of(folder, day), |file: &mut File| {
        let (mut out, mut written) = (io::BufWriter::new(file), Ok(()));
        read(folder, day, |line| {
            let Some(line) = parsed(line) else { return ControlFlow::Continue(()) };
            let line = if old(&line) { line.without_texts() } else { line };
            written = serde_json::to_writer(&mut out, &line)
                .map_err(io::Error::from)
                .and_then(|()| out.write_all(b"\n"));
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        written.and_then(|()| out.flush())
    })?;
    Ok(())
}
