//! State files: markdown lists that the gateway writes and that a person can read and edit.
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

use super::FileError;
use super::stable_read::{self, ReadOutcome, ReadRequest};
use crate::disk::{Stamp, replace};
use aetheel_model::event::LaneError;

/// Maximum size of a file that is read, in bytes.
const MOST: u64 = 1 << 28;
/// The last character of an item, which shows that the item is complete.
const STOP: char = '.';
const TORN: &str = "it has neither a line end nor a full stop, so its write was cut off";

/// The reason why an item of a state file is left out.
#[derive(Debug, thiserror::Error)]
pub(super) enum EntryError {
    /// The number of backticks is odd.
    #[error("a backtick is missing")]
    BacktickMissing,
    /// A code span contains an invalid escape.
    #[error("`{0}` has a `%` that is not `%` and two hexadecimal digits")]
    InvalidEscape(String),
    /// The item does not have the parts of its kind. The text says which are expected.
    #[error("{0}")]
    Parts(&'static str),
    /// A part with this name is missing.
    #[error("it has no `{0}`")]
    PartMissing(&'static str),
    /// A word or value is not of the expected kind.
    #[error("{text:?} is not {expected}")]
    InvalidValue { text: String, expected: &'static str },
    /// The content of a code span is not of the expected kind.
    #[error("`{text}` is not {expected}")]
    InvalidCode { text: String, expected: &'static str },
    /// The name of a setting has no value after it.
    #[error("{0:?} has no value in backticks after it")]
    ValueMissing(String),
    /// A value has no name of a setting before it.
    #[error("`{0}` has no name before it")]
    NameMissing(String),
    /// Neither of two values is certain to be a time.
    #[error("{first:?} or {last:?} is not a time such as `2026-03-01T09:00:00Z`")]
    InvalidPeriod { first: String, last: String },
    #[error("its time cannot be read: {0}")]
    InvalidTime(#[source] jiff::Error),
    #[error(transparent)]
    InvalidLane(#[from] LaneError),
    /// A session id is invalid.
    #[error(transparent)]
    InvalidSession(Box<dyn std::error::Error + Send + Sync>),
}

impl EntryError {
    pub(super) fn invalid_session(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::InvalidSession(Box::new(error))
    }

    pub(super) fn value(text: &str, expected: &'static str) -> Self {
        Self::InvalidValue { text: text.to_owned(), expected }
    }

    pub(super) fn code(text: &str, expected: &'static str) -> Self {
        Self::InvalidCode { text: text.to_owned(), expected }
    }
}

/// A kind of list item.
pub(super) trait LedgerEntry: Sized {
    type Key: Ord + Clone + Debug;

    /// Parses the tokens of an item. Returns `None` if the item is of another kind and must be kept
    /// unchanged.
    fn read(tokens: &[Token]) -> Option<Result<Self, EntryError>>;
    fn key(&self) -> Self::Key;
    /// Returns the text of the item without its dash.
    fn write(&self) -> String;
}

/// A piece of a list item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A word outside code spans, without punctuation.
    Word(String),
    /// The decoded content of a code span.
    Code(String),
}

#[derive(Debug)]
enum LedgerLine<K> {
    Kept(String),
    Entry(K),
}

#[derive(Debug)]
pub(super) struct LedgerFile<E: LedgerEntry> {
    path: PathBuf,
    /// The first lines of a new file.
    heading: &'static str,
    read: bool,
    stamp: Option<Stamp>,
    /// Whether the whole file must be written next, because a change could not be written or a line
    /// is cut off.
    outdated: bool,
    lines: Vec<LedgerLine<E::Key>>,
    pub entries: BTreeMap<E::Key, E>,
    /// Parts that could not be read, one line each.
    pub warnings: Vec<String>,
}

impl<E: LedgerEntry> LedgerFile<E> {
    pub(super) fn open(path: &Path, heading: &'static str) -> Result<Self, FileError> {
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
    pub(super) fn refresh(&mut self) -> Result<bool, FileError> {
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

    /// Writes all entries: existing ones at their positions, new ones at the end.
    pub(super) fn save(&mut self) -> Result<(), FileError> {
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
    /// nothing, and a new one costs one line at the end, however long the file is. After an error
    /// the entry is in force nevertheless, and is written with the next change.
    pub(super) fn put(&mut self, entry: E) -> Result<(), FileError>
    where
        E: PartialEq,
    {
        let (key, line) = (entry.key(), line_of(&entry));
        let old = self.entries.get(&key).map(|old| *old == entry);
        self.entries.insert(key.clone(), entry);
        match (old, self.stamp) {
            (Some(true), _) if !self.outdated => Ok(()),
            (None, Some(stamp)) if !self.outdated => {
                let added = append_and_undo_on_error(&self.path, &line, stamp);
                self.outdated = added.is_err();
                let (stamp, alone) = added.map_err(|(source, stamp)| {
                    self.stamp = stamp.or(self.stamp);
                    FileError::new("write", &self.path, source)
                })?;
                self.stamp = Some(stamp);
                // Lines that another program appended in the meantime have not been read yet.
                self.read = alone;
                self.lines.push(LedgerLine::Entry(key));
                Ok(())
            }
            _ => self.save(),
        }
    }

    /// Returns whether there is a list item that could not be parsed and contains all of these
    /// values.
    pub(super) fn has_unreadable_line_with(&self, values: &[&str]) -> bool {
        let kept = self
            .lines
            .iter()
            .filter_map(|line| if let LedgerLine::Kept(line) = line { Some(line) } else { None });
        let mut items = kept.filter(|line| line.trim_start().starts_with(['-', '*']));
        items.any(|line| values.iter().all(|value| line.contains(&code(value))))
    }

    /// Appends new entries and returns once they are on disk. For many entries this costs far less
    /// than [`LedgerFile::save`]. After an error the entries are unknown.
    pub(super) fn append(&mut self, entries: Vec<E>) -> Result<(), FileError> {
        let failed = |source| FileError::new("write", &self.path, source);
        let text: String = entries.iter().map(line_of).collect();
        if self.outdated {
            self.entries.extend(entries.into_iter().map(|entry| (entry.key(), entry)));
            return self.save();
        }
        if self.stamp.is_none() {
            let whole = format!("{}{text}", self.heading);
            self.stamp = Some(replace(&self.path, whole.as_bytes()).map_err(failed)?);
            self.parse(&whole);
            return Ok(());
        }
        self.stamp = Some(append(&self.path, &text).map_err(failed)?);
        for entry in entries {
            self.lines.push(LedgerLine::Entry(entry.key()));
            self.entries.insert(entry.key(), entry);
        }
        Ok(())
    }

    /// Returns the number of lines in the file.
    pub(super) fn length(&self) -> usize {
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
                tokens.map_or_else(|error| Some(Err(error)), |tokens| E::read(&tokens))
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

pub(super) fn line_of(entry: &impl LedgerEntry) -> String {
    format!("- {}{STOP}\n", entry.write())
}

/// Appends text to an existing file, on a new line even if the last one is torn.
fn append(path: &Path, text: &str) -> io::Result<Stamp> {
    let mut file = OpenOptions::new().read(true).append(true).open(path)?;
    write_end(&mut file, text)
}

/// Appends text to a file that was last seen in the state `known`. Returns its new state, and
/// whether it was still in the state `known`. After an error, appended text is removed; the error
/// comes with the resulting state, if it is known.
fn append_and_undo_on_error(
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
pub(super) fn parse_entries<E: LedgerEntry>(text: &str) -> Vec<E> {
    let read = |line: &str| match parse_tokens(line)?.map(|tokens| E::read(&tokens)) {
        Ok(None) => None,
        Ok(Some(Ok(entry))) => Some(entry),
        Ok(Some(Err(error))) | Err(error) => {
            tracing::warn!(
                fault = error.to_string(),
                "a line of another node's state files is left out"
            );
            None
        }
    };
    text.lines().filter_map(read).collect()
}

/// Splits a list item that begins with a code span into tokens. Returns `None` for other lines.
pub(super) fn parse_tokens(line: &str) -> Option<Result<Vec<Token>, EntryError>> {
    let item = line.trim_start().strip_prefix(['-', '*'])?.trim();
    let item = item.strip_suffix(STOP).unwrap_or(item);
    if !item.starts_with('`') {
        return None;
    }
    let pieces: Vec<&str> = item.split('`').collect();
    if pieces.len().is_multiple_of(2) {
        return Some(Err(EntryError::BacktickMissing));
    }
    let mut tokens = Vec::new();
    for (n, piece) in pieces.into_iter().enumerate() {
        if n % 2 == 1 {
            match decode(piece) {
                Some(text) => tokens.push(Token::Code(text)),
                None => {
                    return Some(Err(EntryError::InvalidEscape(piece.to_owned())));
                }
            }
        } else {
            let words = piece
                .split(|c: char| c.is_whitespace() || ",;:()".contains(c))
                .filter(|word| !word.is_empty());
            tokens.extend(words.map(|word| Token::Word(word.to_owned())));
        }
    }
    Some(Ok(tokens))
}

/// Returns a code span that contains the value. Backticks, `%` and control characters become `%`
/// and two digits, so that the value cannot end the span.
pub(super) fn code(value: &str) -> String {
    let mut span = String::with_capacity(value.len() + 2);
    span.push('`');
    if value.bytes().all(|b| b.is_ascii_graphic() && b != b'`' && b != b'%') {
        span.push_str(value);
        span.push('`');
        return span;
    }
    for c in value.chars() {
        if c == '`' || c == '%' || c.is_control() {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                span.push_str(&format!("%{byte:02X}"));
            }
        } else {
            span.push(c);
        }
    }
    span.push('`');
    span
}

fn decode(span: &str) -> Option<String> {
    let mut pieces = span.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        bytes.push(
            u8::from_str_radix(
                piece.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?,
                16,
            )
            .ok()?,
        );
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {

    use std::fs;

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Item(String, String);

    impl LedgerEntry for Item {
        type Key = String;

        fn read(tokens: &[Token]) -> Option<Result<Self, EntryError>> {
            match tokens {
                [Token::Code(key), Token::Code(value)] => {
                    Some(Ok(Self(key.clone(), value.clone())))
                }
                _ => Some(Err(EntryError::Parts("two values"))),
            }
        }

        fn key(&self) -> String {
            self.0.clone()
        }

        fn write(&self) -> String {
            format!("{} {}", code(&self.0), code(&self.1))
        }
    }

    fn item(key: &str, value: &str) -> Item {
        Item(key.to_owned(), value.to_owned())
    }

    fn stamp(path: &Path) -> Stamp {
        stable_read::stamp(path).unwrap().unwrap()
    }

    fn inode(path: &Path) -> u64 {
        std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap())
    }

    #[test]
    fn a_new_entry_is_appended_and_a_known_one_does_not_change_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.md");
        let mut ledger = LedgerFile::open(&path, "# Heading\n\n").unwrap();
        ledger.put(item("a", "1")).unwrap();
        let first = inode(&path);
        ledger.put(item("b", "2`%\n")).unwrap();
        assert_eq!(inode(&path), first, "the file was rewritten");
        let before = stamp(&path);
        ledger.put(item("a", "1")).unwrap();
        assert_eq!(stamp(&path), before);
        ledger.put(item("a", "3")).unwrap();
        ledger.entries.remove("b");
        ledger.save().unwrap();
        ledger.put(item("c", "4")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "# Heading\n\n- `a` `3`.\n- `c` `4`.\n");
        assert!(!ledger.refresh().unwrap(), "it knows the state after its own write");
        assert_eq!(LedgerFile::<Item>::open(&path, "").unwrap().entries, ledger.entries);
    }

    #[test]
    fn an_entry_that_cannot_be_written_is_in_force_and_written_with_the_next_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.md");
        let mut ledger = LedgerFile::open(&path, "").unwrap();
        ledger.put(item("a", "1")).unwrap();
        // A full disk.
        let whole = (ledger.path.clone(), ledger.stamp);
        (ledger.path, ledger.stamp) = ("/dev/full".into(), Some(stamp(Path::new("/dev/full"))));
        ledger.put(item("b", "2")).unwrap_err();
        assert!(!ledger.refresh().unwrap() && ledger.entries.contains_key("b"), "it is forgotten");
        (ledger.path, ledger.stamp) = whole;
        ledger.put(item("b", "2")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "- `a` `1`.\n- `b` `2`.\n");
    }

    #[test]
    fn a_last_line_that_was_cut_off_anywhere_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.md");
        let whole = "- `a` `1`.\n- `b` `2`.";
        for cut in 11..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut ledger = LedgerFile::<Item>::open(&path, "").unwrap();
            assert_eq!(ledger.entries.keys().collect::<Vec<_>>(), ["a"], "{}", &whole[..cut]);
            assert_eq!(ledger.warnings.len(), usize::from(cut > 13), "{:?}", ledger.warnings);
            // The result stays the same once another line follows.
            ledger.put(item("c", "4")).unwrap();
            let again = LedgerFile::<Item>::open(&path, "").unwrap();
            assert_eq!(again.entries.keys().collect::<Vec<_>>(), ["a", "c"], "{}", &whole[..cut]);
        }
        // An editor removed the line end.
        fs::write(&path, "- `a` `1`.\n- `b` `2`.").unwrap();
        let mut ledger = LedgerFile::<Item>::open(&path, "").unwrap();
        assert_eq!(ledger.entries.len(), 2);
        assert_eq!(ledger.warnings, Vec::<String>::new());
        ledger.put(item("c", "4")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "- `a` `1`.\n- `b` `2`.\n- `c` `4`.\n");
    }

    #[test]
    fn a_line_is_appended_after_a_torn_one_and_changes_by_others_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.md");
        let mut ledger = LedgerFile::open(&path, "").unwrap();
        ledger.put(item("a", "1")).unwrap();
        // Another program changes the file, and the line is cut off.
        fs::write(&path, "- `a` `1`\n- `by hand` `5`").unwrap();
        ledger.put(item("b", "2")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "- `a` `1`\n- `by hand` `5`\n- `b` `2`.\n");
        assert!(ledger.refresh().unwrap());
        assert_eq!(ledger.entries.keys().collect::<Vec<_>>(), ["a", "b", "by hand"]);
    }
}
