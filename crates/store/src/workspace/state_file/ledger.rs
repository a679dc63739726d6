//! The text of a state file, and its entries.
//!
//! A list item that begins with a code span is an entry. All other lines are kept unchanged. An
//! item that cannot be parsed is also kept, and a warning names it. The file is read again if it is
//! not the one that was last read or written.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::StateEntry;
use super::line::{EntryError, STOP, code, parse_tokens};
use crate::disk::{Stamp, replace};
use crate::workspace::FileError;
use crate::workspace::stable_read::{self, ReadOutcome, ReadRequest};

/// Maximum size of a file that is read, in bytes.
const MOST: u64 = 1 << 28;
const TORN: &str = "it has neither a line end nor a full stop, so its write was cut off";

#[derive(Debug)]
enum LedgerLine<K> {
    Kept(String),
    Entry(K),
}

#[derive(Debug)]
pub(in crate::workspace) struct LedgerFile<E: StateEntry> {
    pub(super) path: PathBuf,
    heading: &'static str,
    read: bool,
    pub(super) stamp: Option<Stamp>,
    /// Whether the whole file must be written next, because a change could not be written or a line
    /// is cut off.
    outdated: bool,
    lines: Vec<LedgerLine<E::Key>>,
    pub entries: BTreeMap<E::Key, E>,
    /// Parts that could not be read, one line each.
    pub warnings: Vec<String>,
}

impl<E: StateEntry> LedgerFile<E> {
    pub(in crate::workspace) fn open(
        path: &Path,
        heading: &'static str,
    ) -> Result<Self, FileError> {
        let mut ledger = Self {
            path: path.to_owned(),
            heading,
            read: false,
            stamp: None,
            outdated: false,
            lines: Vec::new(),
            entries: BTreeMap::new(),
            warnings: Vec::new(),
        };
        ledger.refresh()?;
        Ok(ledger)
    }

    /// Reads the file again if it changed. Returns whether it did. After an error nothing has
    /// changed.
    pub(in crate::workspace) fn refresh(&mut self) -> Result<bool, FileError> {
        let failed = |source| FileError::new("read", &self.path, source);
        if self.read && stable_read::stamp(&self.path).map_err(failed)? == self.stamp {
            return Ok(false);
        }
        let want = ReadRequest {
            path: self.path.clone(),
            limit: MOST,
            keep_end: false,
            expected: self.stamp.is_some(),
            ours: None,
            shrinks_below: 0,
            now: std::time::SystemTime::now,
        };
        match stable_read::read(&[want]).pop() {
            Some(ReadOutcome::Whole(whole)) if whole.cut => {
                return Err(failed(std::io::Error::other(format!(
                    "it has more than {MOST} bytes"
                ))));
            }
            Some(ReadOutcome::Whole(whole)) => {
                self.stamp = Some(whole.stamp);
                let (text, valid) = whole.text();
                self.parse(&text);
                if !valid {
                    self.warnings.push(format!("`{}` is not valid UTF-8", self.path.display()));
                }
            }
            Some(ReadOutcome::Missing) => {
                self.stamp = None;
                self.parse("");
            }
            Some(ReadOutcome::Failed(error)) => return Err(failed(error)),
            Some(ReadOutcome::Unsettled) | None => {
                return Err(failed(std::io::Error::other("another program keeps writing it")));
            }
        }
        self.read = true;
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
        Ok(true)
    }

    /// Reads the file again if it changed. If it cannot be read, the last content stays in force.
    pub(in crate::workspace) fn refresh_or_warn(&mut self) {
        if let Err(error) = self.refresh() {
            tracing::warn!(error = %error.source, "{error}; the content that was read last stays in force");
        }
    }

    /// Changes the entries and writes them, if that is necessary. The change is in force even if
    /// the file cannot be read or written, and is written with the next one.
    pub(in crate::workspace) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut BTreeMap<E::Key, E>) -> T,
    ) -> Result<T, FileError> {
        let read = self.refresh();
        let before = self.entries.clone();
        let result = change(&mut self.entries);
        E::trim(&mut self.entries);
        self.outdated |= read.is_err() || self.entries != before;
        read?;
        if self.outdated {
            self.save()?;
        }
        Ok(result)
    }

    /// Does the same as [`LedgerFile::change`], but an error leaves the entries as they were.
    pub(in crate::workspace) fn try_change<T, X: From<FileError>>(
        &mut self,
        change: impl FnOnce(&mut BTreeMap<E::Key, E>) -> Result<T, X>,
    ) -> Result<T, X> {
        self.refresh()?;
        let before = self.entries.clone();
        let result = change(&mut self.entries).and_then(|result| {
            E::trim(&mut self.entries);
            if self.outdated || self.entries != before {
                self.save()?;
            }
            Ok(result)
        });
        if result.is_err() {
            self.entries = before;
        }
        result
    }

    /// Writes all entries: existing ones at their positions, new ones at the end.
    pub(in crate::workspace) fn save(&mut self) -> Result<(), FileError> {
        let mut missing: BTreeMap<&E::Key, &E> = self.entries.iter().collect();
        let mut text = String::new();
        if self.lines.is_empty() {
            text.push_str(self.heading);
        }
        let mut lines = Vec::with_capacity(self.entries.len());
        for line in &self.lines {
            match line {
                LedgerLine::Kept(line) => {
                    text.push_str(line);
                    text.push('\n');
                    lines.push(LedgerLine::Kept(line.clone()));
                }
                LedgerLine::Entry(key) => {
                    if let Some(entry) = missing.remove(key) {
                        text.push_str(&line_of(entry));
                        lines.push(LedgerLine::Entry(key.clone()));
                    }
                }
            }
        }
        for (key, entry) in missing {
            text.push_str(&line_of(entry));
            lines.push(LedgerLine::Entry(key.clone()));
        }
        self.outdated = true;
        self.stamp = Some(
            replace(&self.path, text.as_bytes())
                .map_err(|source| FileError::new("write", &self.path, source))?,
        );
        self.outdated = false;
        if self.lines.is_empty() || !self.warnings.is_empty() {
            // The lines of the heading are not parsed yet, or the line numbers of the warnings have
            // changed.
            self.parse(&text);
        } else {
            self.lines = lines;
        }
        Ok(())
    }

    /// Saves an entry and returns once it is on disk. An entry that is already in the file costs
    /// nothing. After an error the entry is in force nevertheless, and is written with the next
    /// change.
    pub(in crate::workspace) fn put(&mut self, entry: E) -> Result<(), FileError> {
        match self.entries.get(&entry.key()) {
            Some(old) if *old == entry && !self.outdated => Ok(()),
            Some(_) => {
                self.entries.insert(entry.key(), entry);
                self.save()
            }
            None => self.append(vec![entry]),
        }
    }

    /// Adds new entries and returns once they are on disk, which costs their lines, however long
    /// the file is. After an error the entries are in force nevertheless, and are written with the
    /// next change.
    pub(in crate::workspace) fn append(&mut self, entries: Vec<E>) -> Result<(), FileError> {
        let text: String = entries.iter().map(line_of).collect();
        let lines: Vec<_> = entries.iter().map(|entry| LedgerLine::Entry(entry.key())).collect();
        self.entries.extend(entries.into_iter().map(|entry| (entry.key(), entry)));
        let Some(stamp) = self.stamp.filter(|_| !self.outdated) else { return self.save() };
        let added = append(&self.path, &text, stamp);
        self.outdated = added.is_err();
        let (stamp, alone) = added.map_err(|(source, stamp)| {
            self.stamp = stamp.or(self.stamp);
            FileError::new("write", &self.path, source)
        })?;
        self.stamp = Some(stamp);
        // Lines that another program appended in the meantime have not been read yet.
        self.read = alone;
        self.lines.extend(lines);
        Ok(())
    }

    /// Returns whether there is a list item that could not be parsed and contains all of these
    /// values.
    pub(in crate::workspace) fn has_unreadable_line_with(&self, values: &[&str]) -> bool {
        let unparsed = self
            .lines
            .iter()
            .filter_map(|line| if let LedgerLine::Kept(line) = line { Some(line) } else { None });
        let mut items = unparsed.filter(|line| line.trim_start().starts_with(['-', '*']));
        items.any(|line| values.iter().all(|value| line.contains(&code(value))))
    }

    /// Returns the number of lines in the file.
    pub(in crate::workspace) fn length(&self) -> usize {
        self.lines.len()
    }

    /// Parses the text of the file. A last line without a line end is valid if it has the full stop
    /// that ends every line of the gateway, because an editor may have removed the line end.
    /// Otherwise the write was cut off, and the line may be incomplete.
    fn parse(&mut self, text: &str) {
        self.outdated = false;
        self.lines.clear();
        self.entries.clear();
        self.warnings.clear();
        let mut numbers: BTreeMap<E::Key, usize> = BTreeMap::new();
        let count = text.lines().count();
        for (number, line) in (1..).zip(text.lines()) {
            let read = parse_tokens(line).and_then(|tokens| {
                match tokens.and_then(|tokens| E::parse(&tokens)) {
                    Err(EntryError::OtherKind) => None,
                    read => Some(read),
                }
            });
            if read.is_some() && number == count && !text.ends_with('\n') && !line.ends_with(STOP) {
                self.warnings
                    .push(format!("`{}` line {number} is left out: {TORN}", self.path.display()));
                // The line is kept so that it can be corrected. It is not an item any more, even
                // after a line end is added.
                self.lines.push(LedgerLine::Kept(format!(
                    "- cut off: {}",
                    line.trim_start().trim_start_matches(['-', '*']).trim_start()
                )));
                self.outdated = true;
                continue;
            }
            let fault = match read {
                None => None,
                Some(Ok(entry)) => match numbers.get(&entry.key()) {
                    None => {
                        numbers.insert(entry.key(), number);
                        self.lines.push(LedgerLine::Entry(entry.key()));
                        self.entries.insert(entry.key(), entry);
                        continue;
                    }
                    Some(first) => Some(format!("it has the same key as line {first}")),
                },
                Some(Err(error)) => Some(error.to_string()),
            };
            if let Some(fault) = fault {
                self.warnings
                    .push(format!("`{}` line {number} is left out: {fault}", self.path.display()));
            }
            self.lines.push(LedgerLine::Kept(line.to_owned()));
        }
    }
}

pub(in crate::workspace) fn line_of(entry: &impl StateEntry) -> String {
    format!("- {}{STOP}\n", entry.write())
}

/// Appends text, on a new line even if the last one is torn, to a file that was last seen in the
/// state `known`. Returns its new state, and whether it was still in the state `known`. After an
/// error, appended text is removed; the error comes with the resulting state, if it is known.
fn append(
    path: &Path,
    text: &str,
    known: Stamp,
) -> Result<(Stamp, bool), (io::Error, Option<Stamp>)> {
    let mut file =
        OpenOptions::new().read(true).append(true).open(path).map_err(|error| (error, None))?;
    let before = file.metadata().map_err(|error| (error, None))?;
    let alone = Stamp::from(&before) == known;
    write_end(&mut file, text).map(|stamp| (stamp, alone)).map_err(|error| {
        let _ = file.set_len(before.len());
        (error, file.metadata().ok().filter(|_| alone).map(|metadata| Stamp::from(&metadata)))
    })
}

fn write_end(file: &mut File, text: &str) -> io::Result<Stamp> {
    let mut last = [b'\n'];
    let size = file.metadata()?.len();
    if size > 0 {
        file.read_exact_at(&mut last, size - 1)?;
    }
    let torn = if last == [b'\n'] { "" } else { "\n" };
    file.write_all(format!("{torn}{text}").as_bytes())?;
    file.sync_data()?;
    Ok(Stamp::from(&file.metadata()?))
}

/// Parses the entries of a text. Lines that cannot be parsed are logged and left out.
pub(in crate::workspace) fn parse_entries<E: StateEntry>(text: &str) -> Vec<E> {
    let read = |line: &str| match parse_tokens(line)?.and_then(|tokens| E::parse(&tokens)) {
        Ok(entry) => Some(entry),
        Err(EntryError::OtherKind) => None,
        Err(error) => {
            tracing::warn!(
                fault = error.to_string(),
                "a line of another node's state files is left out"
            );
            None
        }
    };
    text.lines().filter_map(read).collect()
}
