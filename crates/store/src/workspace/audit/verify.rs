//! Checks the chain, and reads its entries.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::ops::ControlFlow;

use super::files::AuditFiles;
use super::line::{self, AuditHead, AuditRecord, FIRST_PREVIOUS, ReadLine};
use aetheel_model::audit::AuditKind;

/// Maximum length of a line in bytes, with its line break. Entries are much shorter.
const MAX_LINE: u64 = 1 << 20;

/// Hashes by the number of their entry.
type EntryHashes = BTreeMap<u64, String>;

/// The first fault of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFault {
    /// The file and the line, or only the file if no line is at fault.
    pub place: String,
    /// The fault.
    pub problem: String,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Number of entries that were checked.
    pub entries: u64,
    /// The newest entry.
    pub head: Option<AuditHead>,
    /// Observations beside faults, such as a line that is not complete yet.
    pub notes: Vec<String>,
    /// The first fault, or `None` if the chain is complete.
    pub fault: Option<AuditFault>,
}

struct PlacedLine {
    place: String,
    bytes: Vec<u8>,
    /// Whether it ends with a line break.
    is_ended: bool,
}

/// Passes all lines to `take`, in order, until it breaks. Holds one line in memory. Leaves out
/// the rest of a line that is longer than any entry.
fn each_line<T>(
    files: &AuditFiles,
    mut take: impl FnMut(PlacedLine) -> ControlFlow<T>,
) -> io::Result<Option<T>> {
    for month in files.months()? {
        let mut reader = BufReader::new(files.open(month)?);
        let name = files.name_of(month);
        for number in 1_u64.. {
            let mut bytes = Vec::new();
            reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes)?;
            if bytes.is_empty() {
                break;
            }
            let is_ended = bytes.pop_if(|last| *last == b'\n').is_some();
            if !is_ended && bytes.len() as u64 == MAX_LINE {
                reader.skip_until(b'\n')?;
            }
            let place = format!("state/audit/{name} line {number}");
            if let ControlFlow::Break(found) = take(PlacedLine { place, bytes, is_ended }) {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// Passes the entries that can be read to `take`, in order, without a check.
pub(super) fn read(files: &AuditFiles, mut take: impl FnMut(AuditRecord)) -> io::Result<()> {
    each_line::<()>(files, |line| {
        if let Some(read) = ReadLine::parse(&line.bytes) {
            take(read.record);
        }
        ControlFlow::Continue(())
    })
    .map(drop)
}

/// Checks the whole chain. `anchor` is an entry that somebody stored elsewhere.
///
/// # Errors
/// The files cannot be read.
pub(super) fn verify(files: &AuditFiles, anchor: Option<&AuditHead>) -> io::Result<AuditReport> {
    // Read first, because a running gateway may append entries in the meantime.
    let known = files.head();
    let wanted = [known.as_ref().ok().and_then(Option::as_ref), anchor];
    let wanted = wanted.into_iter().flatten().map(|head| head.number).collect();
    let mut check = ChainCheck::new(expired(files)?, wanted);
    let mut fault = each_line(files, |line| match check.line(&line) {
        Some(fault) => ControlFlow::Break(fault),
        None => ControlFlow::Continue(()),
    })?;
    fault = fault.or_else(|| check.end());
    let mut report = AuditReport {
        entries: check.entries,
        head: check.head.clone(),
        notes: std::mem::take(&mut check.notes),
        fault: None,
    };
    let in_head = |problem| AuditFault { place: "state/audit-head.md".to_owned(), problem };
    fault = fault.or_else(|| match known {
        Err(error) => Some(in_head(format!("cannot be read: {error}"))),
        Ok(None) if report.entries == 0 => None,
        Ok(None) => Some(in_head("is missing, so entries may be cut off".to_owned())),
        Ok(Some(known)) => check.compare(&known).map(in_head),
    });
    fault = fault.or_else(|| {
        let place = "the entry that was stored elsewhere".to_owned();
        check.compare(anchor?).map(|problem| AuditFault { place, problem })
    });
    report.fault = fault;
    Ok(report)
}

/// Returns the hashes of removed entries by number, according to the entries about their removal.
fn expired(files: &AuditFiles) -> io::Result<EntryHashes> {
    let mut expired = EntryHashes::new();
    each_line::<()>(files, |line| {
        // A cheap check, because most lines are other entries.
        let word = AuditKind::EntriesExpired.word().as_bytes();
        let may_be = line.bytes.windows(word.len()).any(|part| part == word);
        let read = may_be.then(|| ReadLine::parse(&line.bytes)).flatten();
        let read = read.filter(|read| read.record.kind == AuditKind::EntriesExpired.word());
        let pair = read.and_then(|read| {
            let fields = read.record.fields;
            Some((fields.get("through")?.parse().ok()?, fields.get("sha256")?.clone()))
        });
        expired.extend(pair);
        ControlFlow::Continue(())
    })?;
    Ok(expired)
}

struct ChainCheck {
    /// The hashes of removed entries, see [`expired`].
    expired: EntryHashes,
    /// The numbers of the entries that are compared later.
    wanted: BTreeSet<u64>,
    /// The hashes of the wanted entries.
    hashes: EntryHashes,
    head: Option<AuditHead>,
    entries: u64,
    /// A line that is not an entry, which the next entry must explain.
    torn: Option<(String, Vec<u8>)>,
    notes: Vec<String>,
}

impl ChainCheck {
    fn new(expired: EntryHashes, wanted: BTreeSet<u64>) -> Self {
        Self {
            expired,
            wanted,
            hashes: EntryHashes::new(),
            head: None,
            entries: 0,
            torn: None,
            notes: Vec::new(),
        }
    }

    fn line(&mut self, line: &PlacedLine) -> Option<AuditFault> {
        let fault = |problem: String| Some(AuditFault { place: line.place.clone(), problem });
        let Some(read) = ReadLine::parse(&line.bytes) else {
            if self.torn.is_some() || line.is_ended && line.bytes.is_empty() {
                return fault("is not an entry".to_owned());
            }
            self.torn = Some((line.place.clone(), line.bytes.clone()));
            return None;
        };
        if let Some((place, bytes)) = self.torn.take()
            && !explains(&read.record, &bytes)
        {
            return Some(AuditFault {
                place,
                problem: "was changed: it is not an entry".to_owned(),
            });
        }
        let number = read.record.number;
        let (expected, previous) = match &self.head {
            Some(head) => (head.number + 1, head.hash.clone()),
            None if number == 1 => (1, FIRST_PREVIOUS.to_owned()),
            None => match self.expired.get(&number.saturating_sub(1)) {
                Some(hash) => (number, hash.clone()),
                None => {
                    let last = number.saturating_sub(1);
                    return fault(format!("the entries 1 to {last} before it are missing"));
                }
            },
        };
        if number > expected {
            let last = number - 1;
            return fault(format!("the entries {expected} to {last} before it are missing"));
        }
        if number < expected {
            return fault(format!("entry {number} is in the wrong place: {expected} is next"));
        }
        if !read.follows(&previous) {
            return fault(format!("entry {number} does not match its hash: it was changed"));
        }
        if !line.is_ended {
            self.notes.push(format!("{} has no line break yet", line.place));
        }
        self.head = Some(read.head());
        if self.wanted.contains(&number) {
            self.hashes.insert(number, read.hash);
        }
        self.entries += 1;
        None
    }

    fn end(&mut self) -> Option<AuditFault> {
        let (place, _) = self.torn.take()?;
        // The second place shows whether it was an entry that was known before.
        self.notes.push(format!("{place} was cut off; the next start of the gateway closes it"));
        None
    }

    /// Compares an entry that was stored elsewhere with the chain. Returns the difference.
    fn compare(&self, known: &AuditHead) -> Option<String> {
        let last = self.head.as_ref().map_or(0, |head| head.number);
        if known.number > last {
            return Some(format!(
                "names entry {}, but the chain ends with {last}: entries were cut off",
                known.number
            ));
        }
        match self.hashes.get(&known.number).or_else(|| self.expired.get(&known.number)) {
            Some(hash) if *hash == known.hash => None,
            Some(_) => Some(format!(
                "has another hash for entry {}: the chain was written again",
                known.number
            )),
            None => Some(format!("names entry {}, which was removed", known.number)),
        }
    }
}

/// Returns whether an entry closes a line with these bytes.
fn explains(record: &AuditRecord, bytes: &[u8]) -> bool {
    let field = |name: &str| record.fields.get(name).map(String::as_str);
    record.kind == AuditKind::LineTorn.word()
        && field("bytes") == Some(&bytes.len().to_string())
        && field("sha256") == Some(&line::digest(bytes))
}
