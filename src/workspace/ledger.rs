//! State files: markdown lists that the gateway writes and a person can read and mend.
//!
//! A list item that begins with a code span is an entry; every other line is kept as it stands, and so is an item that
//! cannot be read, which is named in a warning. The file is read again when it is not the one last read or written.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::FileError;
use super::fresh::{self, Outcome, Stamp, Want};
use super::replace::replace;

/// A kind of list item.
pub(super) trait Entry: Sized {
    type Key: Ord + Clone + Debug;

    /// Reads the tokens of an item; none: it is not of this kind and to be kept as it stands.
    fn read(tokens: &[Token]) -> Option<Result<Self, String>>;
    fn key(&self) -> Self::Key;
    /// The item without its dash.
    fn write(&self) -> String;
}

/// A piece of a list item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Outside code spans, without punctuation.
    Word(String),
    /// In a code span, decoded.
    Code(String),
}

#[derive(Debug)]
enum Line<K> {
    Kept(String),
    Entry(K),
}

#[derive(Debug)]
pub(super) struct Ledger<E: Entry> {
    path: PathBuf,
    /// What a new file begins with.
    heading: &'static str,
    read: bool,
    stamp: Option<Stamp>,
    lines: Vec<Line<E::Key>>,
    pub entries: BTreeMap<E::Key, E>,
    /// What could not be read, one line each.
    pub warnings: Vec<String>,
}

impl<E: Entry> Ledger<E> {
    pub(super) fn open(path: &Path, heading: &'static str) -> Result<Self, FileError> {
        let mut ledger = Self {
            path: path.to_owned(),
            heading,
            read: false,
            stamp: None,
            lines: Vec::new(),
            entries: BTreeMap::new(),
            warnings: Vec::new(),
        };
        ledger.refresh()?;
        Ok(ledger)
    }

    /// Reads the file again if it changed; returns whether it did. After an error everything is as it was.
    pub(super) fn refresh(&mut self) -> Result<bool, FileError> {
        let failed = |source| FileError::new("read", &self.path, source);
        if self.read && fresh::stamp(&self.path).map_err(failed)? == self.stamp {
            return Ok(false);
        }
        let want = Want { path: self.path.clone(), limit: u64::MAX, keep_end: false, expected: self.stamp.is_some(), ours: None };
        match fresh::read(&[want]).pop() {
            Some(Outcome::Whole(whole)) => {
                self.stamp = Some(whole.stamp);
                let (text, valid) = whole.text();
                self.parse(&text);
                if !valid {
                    self.warnings.push(format!("`{}` is not valid UTF-8", self.path.display()));
                }
            }
            Some(Outcome::Missing) => {
                self.stamp = None;
                self.parse("");
            }
            Some(Outcome::Failed(error)) => return Err(failed(error)),
            Some(Outcome::Unsettled) | None => return Err(failed(std::io::Error::other("another program keeps writing it"))),
        }
        self.read = true;
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
        Ok(true)
    }

    /// Writes all entries, in the places they had, new ones at the end.
    pub(super) fn save(&mut self) -> Result<(), FileError> {
        let mut missing: BTreeMap<&E::Key, &E> = self.entries.iter().collect();
        let mut text = String::new();
        if self.lines.is_empty() {
            text.push_str(self.heading);
        }
        for line in &self.lines {
            let line = match line {
                Line::Kept(line) => line.clone(),
                Line::Entry(key) => match missing.remove(key) {
                    Some(entry) => format!("- {}", entry.write()),
                    None => continue,
                },
            };
            text.push_str(&line);
            text.push('\n');
        }
        for entry in missing.values() {
            text.push_str(&format!("- {}\n", entry.write()));
        }
        self.stamp = Some(replace(&self.path, text.as_bytes()).map_err(|source| FileError::new("write", &self.path, source))?);
        self.parse(&text);
        Ok(())
    }

    /// Whether there is a list item that could not be read and names all of these values.
    pub(super) fn leaves_out(&self, values: &[&str]) -> bool {
        let kept = self.lines.iter().filter_map(|line| if let Line::Kept(line) = line { Some(line) } else { None });
        let mut items = kept.filter(|line| line.trim_start().starts_with(['-', '*']));
        items.any(|line| values.iter().all(|value| line.contains(&code(value))))
    }

    /// Adds new entries at the end and returns when they are on disk, which costs far less than [`Ledger::save`] where
    /// there are many. After an error they are not known.
    pub(super) fn append(&mut self, entries: Vec<E>) -> Result<(), FileError> {
        let failed = |source| FileError::new("write", &self.path, source);
        let text: String = entries.iter().map(|entry| format!("- {}\n", entry.write())).collect();
        if self.stamp.is_none() {
            let whole = format!("{}{text}", self.heading);
            self.stamp = Some(replace(&self.path, whole.as_bytes()).map_err(failed)?);
            self.parse(&whole);
            return Ok(());
        }
        self.stamp = Some(append(&self.path, &text).map_err(failed)?);
        for entry in entries {
            self.lines.push(Line::Entry(entry.key()));
            self.entries.insert(entry.key(), entry);
        }
        Ok(())
    }

    /// Lines of the file.
    pub(super) fn length(&self) -> usize {
        self.lines.len()
    }

    fn parse(&mut self, text: &str) {
        self.lines.clear();
        self.entries.clear();
        self.warnings.clear();
        let mut numbers: BTreeMap<E::Key, usize> = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let read = tokens(line).and_then(|tokens| tokens.map_or_else(|fault| Some(Err(fault)), |tokens| E::read(&tokens)));
            let fault = match read {
                None => None,
                Some(Ok(entry)) => match numbers.get(&entry.key()) {
                    None => {
                        numbers.insert(entry.key(), number);
                        self.lines.push(Line::Entry(entry.key()));
                        self.entries.insert(entry.key(), entry);
                        continue;
                    }
                    Some(first) => Some(format!("it says something else about what line {first} is about")),
                },
                Some(Err(fault)) => Some(fault),
            };
            if let Some(fault) = fault {
                self.warnings.push(format!("`{}` line {number} is left out: {fault}", self.path.display()));
            }
            self.lines.push(Line::Kept(line.to_owned()));
        }
    }
}

/// Adds text to a file that is there, on a line of its own even behind a torn one.
fn append(path: &Path, text: &str) -> std::io::Result<Stamp> {
    let mut file = OpenOptions::new().read(true).append(true).open(path)?;
    let mut last = [b'\n'];
    let size = file.metadata()?.len();
    if size > 0 {
        file.read_exact_at(&mut last, size - 1)?;
    }
    let torn = if last == [b'\n'] { "" } else { "\n" };
    file.write_all(format!("{torn}{text}").as_bytes())?;
    file.sync_data()?;
    Ok(Stamp::of(&file.metadata()?))
}

/// Reads a list item that begins with a code span; none: it is something else.
pub(super) fn tokens(line: &str) -> Option<Result<Vec<Token>, String>> {
    let item = line.trim_start().strip_prefix(['-', '*'])?.trim_start();
    if !item.starts_with('`') {
        return None;
    }
    let pieces: Vec<&str> = item.split('`').collect();
    if pieces.len().is_multiple_of(2) {
        return Some(Err("a backtick is missing".to_owned()));
    }
    let mut tokens = Vec::new();
    for (n, piece) in pieces.into_iter().enumerate() {
        if n % 2 == 1 {
            match decode(piece) {
                Some(text) => tokens.push(Token::Code(text)),
                None => return Some(Err(format!("`{piece}` has a `%` that is not `%` and two hexadecimal digits"))),
            }
        } else {
            let words = piece.split(|c: char| c.is_whitespace() || ",;:()".contains(c)).filter(|word| !word.is_empty());
            tokens.extend(words.map(|word| Token::Word(word.to_owned())));
        }
    }
    Some(Ok(tokens))
}

/// Writes a code span that no value can break out of: backticks, `%` and control characters become `%` and two digits.
pub(super) fn code(value: &str) -> String {
    let mut span = String::with_capacity(value.len() + 2);
    span.push('`');
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
        bytes.push(u8::from_str_radix(piece.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?, 16).ok()?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}
