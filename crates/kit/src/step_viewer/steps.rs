//! One turn of a recording, divided into steps.
//!
//! A step is an input, and everything that was recorded until the next input. Only the positions
//! and flags of the steps are kept in memory, 24 bytes each; the content of a step is read from the
//! file on demand. A link may serve several turns at a time: inputs that belong only to other turns
//! are left out, and a step that is mixed with another turn shows only this turn's part. All
//! functions here block.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::{self, Read, Take};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use super::error::StepViewerError;
use super::slicer::{
    HAS_ACTIONS, MIXED, StepPosition, TurnSlice, TurnSlicer, UNRECOGNISED, VISIBLE, is_own_command,
    owner_of,
};
use aetheel_model::agent::{Action, Input, TurnRef};
use aetheel_model::plain::counted;
use aetheel_recording::{
    EntryKind, Header, MAX_READ_BYTES, ReadError, RecordingEntry, RecordingLine, RecordingLines,
};

const MAX_NOTES: usize = 20;

/// Properties of a recorded turn.
#[derive(Clone, Debug)]
pub struct TurnFacts {
    /// The recording's first line.
    pub header: Header,
    /// The lane, as recorded.
    pub lane: String,
    /// The number of further steps that are not kept.
    pub left_out: usize,
    /// The number of inputs that belong to other turns of the link.
    pub of_others: usize,
    /// The number of lines that were lost because the disk was too slow.
    pub lost: u64,
    /// The step (index) from which on agent events were not recorded.
    pub sparse: Option<usize>,
    /// How the turn ended, as the host recorded it, and its duration in milliseconds.
    pub ended: Option<(String, f64)>,
    /// The reason why the recording does not reach the turn's end.
    pub fault: Option<String>,
}

/// A recorded turn.
#[derive(Debug)]
pub struct TurnSteps {
    file: File,
    /// Size of the file in bytes when it was opened.
    size: u64,
    inode: u64,
    /// The position at which the turn ends.
    end: u64,
    own: TurnRef,
    /// The keys of the turn's questions.
    asks: HashSet<u32>,
    marks: Vec<StepPosition>,
    facts: TurnFacts,
}

/// The content of a step.
#[derive(Clone, Debug)]
pub struct RecordedStep {
    /// The line number of its input in the file, from 1.
    pub line: usize,
    /// Milliseconds since the turn began.
    pub t_ms: u32,
    /// The input, or `None` if it is not shown because the step is mixed with another turn.
    pub input: Option<Input>,
    /// Notes about the host's activity during the step.
    pub notes: Vec<String>,
    /// The guest's actions.
    pub actions: Vec<Action>,
}

/// A property by which steps can be searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepSign {
    /// Users saw something of it.
    Seen,
    /// It has output that the backend does not know.
    Unknown,
}

/// The complete lines of a file up to a position.
pub(super) struct CompleteLines<'a>(RecordingLines<Take<FileReader<'a>>>);

impl<'a> CompleteLines<'a> {
    fn new(file: &'a File, end: u64) -> Self {
        Self(RecordingLines::new(FileReader { file, at: 0 }.take(end), usize::MAX))
    }

    pub(super) fn next(&mut self) -> io::Result<Option<RecordingLine<'_>>> {
        Ok(self.0.next_line()?.filter(|line| line.is_complete))
    }
}

/// Reads a file without changing the file's own position.
struct FileReader<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FileReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl TurnSteps {
    /// Reads a recording and finds the steps of a turn.
    ///
    /// # Errors
    /// Returns an error, with a text for an owner, if the turn cannot be shown.
    pub fn open(file: File, turn: &str) -> Result<Self, StepViewerError> {
        let unreadable = StepViewerError::Read;
        let metadata = file.metadata().map_err(unreadable)?;
        let (size, inode) = (metadata.len(), metadata.ino());
        if size > MAX_READ_BYTES {
            return Err(StepViewerError::TooLarge(size));
        }
        let mut lines = CompleteLines::new(&file, size);
        let first = lines.next().map_err(unreadable)?.ok_or(ReadError::Empty)?;
        let (header, mut end) = (Header::parse(first.bytes)?, first.end);
        let mut cutter = TurnSlicer::new(turn);
        let mut fault = None;
        loop {
            let Some(line) = lines.next().map_err(unreadable)? else {
                fault.get_or_insert_with(|| "the recording ends before the turn does".to_owned());
                break;
            };
            end = line.end;
            let entry: RecordingEntry = match serde_json::from_slice(line.bytes) {
                Ok(entry) => entry,
                Err(error) => {
                    let number = line.number;
                    fault = Some(format!("line {number} of the recording is damaged: {error}"));
                    break;
                }
            };
            if let EntryKind::Cut(why) = &entry.kind {
                fault = Some(format!("the recording was cut: {why}"));
            }
            if cutter.take(&entry, line.start..end, line.number) {
                fault = None;
                break;
            }
        }
        let Some(cut) = cutter.finish() else {
            return Err(StepViewerError::NoSuchTurn(fault));
        };
        let TurnSlice { marks, own, asks, lane, left_out, of_others, lost, sparse, ended } = cut;
        let facts = TurnFacts { header, lane, left_out, of_others, lost, sparse, ended, fault };
        Ok(Self { file, size, inode, end, own, asks, marks, facts })
    }

    /// Returns the properties of the turn.
    #[must_use]
    pub fn facts(&self) -> &TurnFacts {
        &self.facts
    }

    /// Returns whether the file that is found at the recording's path still has this content.
    pub(super) fn still_fits(&self, found: &Metadata) -> bool {
        let grown = self.facts.ended.is_some() && found.len() >= self.end;
        found.ino() == self.inode && (found.len() == self.size || grown)
    }

    /// Returns the number of steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Returns whether there are no steps.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Returns whether a step (index) has a property.
    #[must_use]
    pub fn has_sign(&self, step: usize, sign: StepSign) -> bool {
        let is = match sign {
            StepSign::Seen => VISIBLE,
            StepSign::Unknown => UNRECOGNISED,
        };
        self.marks.get(step).is_some_and(|mark| mark.flags & is != 0)
    }

    /// Returns the next step (index) after this one that has a property.
    #[must_use]
    pub fn next_with(&self, step: usize, sign: StepSign) -> Option<usize> {
        (step + 1..self.len()).find(|at| self.has_sign(*at, sign))
    }

    /// Returns whether an action belongs to this turn, or `None` if it does not name a turn.
    #[must_use]
    pub fn is_ours(&self, action: &Action) -> Option<bool> {
        owner_of(action).map(|whose| whose.is(self.own))
    }

    /// Reads the content of a step (index).
    ///
    /// # Errors
    /// Returns an error if there is no such step, or if the file cannot be read any more.
    pub fn read(&self, step: usize) -> io::Result<RecordedStep> {
        let mark = *self.marks.get(step).ok_or(io::ErrorKind::NotFound)?;
        let mut read = RecordedStep {
            line: mark.line as usize,
            t_ms: mark.t_ms,
            input: None,
            notes: Vec::new(),
            actions: Vec::new(),
        };
        let mixed = mark.flags & MIXED != 0;
        for entry in self.entries(mark, &mut Vec::new())? {
            match entry {
                EntryKind::In(input) => {
                    let shown =
                        !mixed || is_own_command(&input, self.own, &self.asks) == Some(true);
                    read.input = Some(input).filter(|_| shown);
                }
                EntryKind::Out(action) if !mixed || self.is_ours(&action) == Some(true) => {
                    read.actions.push(action);
                }
                _ if read.notes.len() >= MAX_NOTES || mixed => {}
                EntryKind::Host(did) => read.notes.push(did),
                EntryKind::Launch { command, cwd, .. } => {
                    read.notes.push(format!("started in {cwd}: {}", command.join(" ")));
                }
                EntryKind::Attached { artifact, .. } => {
                    let name = artifact.name.unwrap_or_default();
                    read.notes.push(format!("attached a file to the answer: {name}"));
                }
                EntryKind::Called(request) => {
                    let (name, input) = (request.name, request.input);
                    read.notes.push(format!("the agent called {name} with {input}"));
                }
                EntryKind::Returned(result) => {
                    let how = if result.failed { "failed" } else { "returned" };
                    read.notes.push(format!("the call {how}: {}", result.text));
                }
                EntryKind::Ruled(ruling) => read.notes.push(match ruling.line() {
                    Some(line) => format!("policies decided: {line}"),
                    None => "policies left the decision to people".to_owned(),
                }),
                EntryKind::Moved { digest, .. } => {
                    read.notes.push(format!("another generation took over: {digest}"));
                }
                EntryKind::Checkpoint(_) => read.notes.push("a checkpoint".to_owned()),
                EntryKind::Lost(lines) => {
                    read.notes.push(format!("{} lost here", counted(lines, "line")))
                }
                EntryKind::Cut(why) => read.notes.push(format!("the recording was cut: {why}")),
                _ => {}
            }
        }
        Ok(read)
    }

    /// Calls `take` with each recorded action of the steps up to this one (index), in order.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read any more.
    pub fn actions(&self, upto: usize, mut take: impl FnMut(Action)) -> io::Result<()> {
        let mut bytes = Vec::new();
        for mark in self.marks.iter().take(upto.saturating_add(1)) {
            if mark.flags & HAS_ACTIONS == 0 {
                continue;
            }
            for entry in self.entries(*mark, &mut bytes)? {
                if let EntryKind::Out(action) = entry
                    && (mark.flags & MIXED == 0 || self.is_ours(&action) == Some(true))
                {
                    take(action);
                }
            }
        }
        Ok(())
    }

    fn entries(&self, mark: StepPosition, bytes: &mut Vec<u8>) -> io::Result<Vec<EntryKind>> {
        bytes.resize(mark.length as usize, 0);
        self.file.read_exact_at(bytes, mark.start)?;
        bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| Ok(serde_json::from_slice::<RecordingEntry>(line)?.kind))
            .collect()
    }
}
