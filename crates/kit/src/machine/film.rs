//! One turn of a recording as steps: where each stands in the file, and what is in it when somebody
//! looks.
//!
//! A step is an input and what was recorded because of it, until the next input. Of a recording
//! only places and marks are held, 24 bytes a step; it is read again for whoever looks at one. A
//! link may serve several turns at a time: what is of another one alone is no step, and of what
//! came together with another one only this turn's part is told. Everything here blocks.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use super::cutter::{Cut, Cutter, MIXED, Mark, SAYS, SEEN, UNKNOWN, is_own_command, whose};
use super::lines::Lines;
use aetheel_model::agent::{Action, Input, SessionKey, TurnKey};
use aetheel_turn::recording::{Entry, FORMAT, Header, What};
use aetheel_turn::replay::Keys;

/// Bytes of a recording that are read, and of a step.
const LARGEST: u64 = 256 << 20;
/// Notes of the host that are told with a step.
const NOTES: usize = 20;

/// What is known of a recorded turn beside its steps.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The recording's first line.
    pub header: Header,
    /// The lane, as recorded.
    pub lane: String,
    /// Steps beyond those that are held.
    pub left_out: usize,
    /// Inputs of other turns of the link, which are no steps.
    pub of_others: usize,
    /// Lines that were lost because the disk was too slow.
    pub lost: u64,
    /// From this step on (index) agent-events were not written down.
    pub sparse: Option<usize>,
    /// How the turn ended, in the host's words, and after how many milliseconds.
    pub ended: Option<(String, f64)>,
    /// Why the recording does not go on to the turn's end.
    pub fault: Option<String>,
}

/// A recorded turn.
#[derive(Debug)]
pub struct Film {
    file: File,
    /// Bytes of the file when it was opened, and which file it is.
    size: u64,
    inode: u64,
    /// Where the turn's part of it ends.
    pub(super) end: u64,
    pub(super) keys: Keys,
    turn: TurnKey,
    session: SessionKey,
    /// Questions of this turn.
    asks: HashSet<u32>,
    marks: Vec<Mark>,
    facts: Facts,
}

/// One step, whole.
#[derive(Clone, Debug)]
pub struct Step {
    /// The line of the file its input stands in, from 1.
    pub line: usize,
    /// Milliseconds since the turn began.
    pub t_ms: u32,
    /// What the guest was told; none: it came together with something of another turn.
    pub input: Option<Input>,
    /// What the host did meanwhile.
    pub notes: Vec<String>,
    /// What the guest wanted done.
    pub actions: Vec<Action>,
}

/// What a step is looked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// People saw something of it.
    Seen,
    /// Its backend met something it does not know.
    Unknown,
}

impl Film {
    /// Reads through a recording for a turn.
    ///
    /// # Errors
    /// Why there is nothing to look at, in words for an owner.
    pub fn open(file: File, turn: &str) -> Result<Self, String> {
        let unreadable = |error: io::Error| format!("the recording cannot be read: {error}");
        let metadata = file.metadata().map_err(unreadable)?;
        let (size, inode) = (metadata.len(), metadata.ino());
        if size > LARGEST {
            return Err(format!(
                "the recording has {} MiB, and at most {} are read here; `aetheel backend replay` reads it",
                size >> 20,
                LARGEST >> 20
            ));
        }
        let mut lines = Lines::of(&file, 0, size);
        let Some((_, _, first)) = lines.next().map_err(unreadable)? else {
            return Err("the recording is empty".to_owned());
        };
        let header: Header = serde_json::from_slice(first)
            .map_err(|error| format!("line 1 is not a recording's header: {error}"))?;
        if header.aetheel_recording > FORMAT {
            return Err(format!(
                "the recording has format {}, this program reads up to {FORMAT}",
                header.aetheel_recording
            ));
        }
        let mut cutter = Cutter::new(turn);
        let mut fault = None;
        loop {
            let Some((start, number, line)) = lines.next().map_err(unreadable)? else {
                fault.get_or_insert_with(|| "the recording ends before the turn does".to_owned());
                break;
            };
            let entry: Entry = match serde_json::from_slice(line) {
                Ok(entry) => entry,
                Err(error) => {
                    fault = Some(format!("line {number} of the recording is damaged: {error}"));
                    break;
                }
            };
            if let What::Cut(why) = &entry.what {
                fault = Some(format!("the recording was cut: {why}"));
            }
            if cutter.take(&entry, (start, lines.at()), number) {
                fault = None;
                break;
            }
        }
        let end = lines.at();
        let Some(cut) = cutter.finish() else {
            let why = fault.map(|fault| format!(" ({fault})")).unwrap_or_default();
            return Err(format!("the recording does not tell of this turn{why}"));
        };
        let Cut { marks, keys, ours, asks, lane, left_out, of_others, lost, sparse, ended } = cut;
        let facts = Facts { header, lane, left_out, of_others, lost, sparse, ended, fault };
        let (session, turn) = ours;
        Ok(Self { file, size, inode, end, keys, turn, session, asks, marks, facts })
    }

    /// What is known beside the steps.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Whether it still tells what is in the file that is found where its recording is.
    pub(super) fn still_fits(&self, found: &Metadata) -> bool {
        let grown = self.facts.ended.is_some() && found.len() >= self.end;
        found.ino() == self.inode && (found.len() == self.size || grown)
    }

    /// How many steps there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Whether there is no step at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Whether a step (index) has this sign.
    #[must_use]
    pub fn has(&self, step: usize, sign: Sign) -> bool {
        let is = match sign {
            Sign::Seen => SEEN,
            Sign::Unknown => UNKNOWN,
        };
        self.marks.get(step).is_some_and(|mark| mark.is & is != 0)
    }

    /// The next step (index) after this one with a sign.
    #[must_use]
    pub fn next_with(&self, step: usize, sign: Sign) -> Option<usize> {
        (step + 1..self.len()).find(|at| self.has(*at, sign))
    }

    /// The step whose input stands in this line.
    pub(super) fn step_of(&self, line: usize) -> Option<usize> {
        self.marks.binary_search_by_key(&line, |mark| mark.line as usize).ok()
    }

    /// Whether actions were recorded with a step.
    #[must_use]
    pub fn says(&self, step: usize) -> bool {
        self.marks.get(step).is_some_and(|mark| mark.is & SAYS != 0)
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Whether an action is of this turn; none: it does not say.
    #[must_use]
    pub fn is_ours(&self, action: &Action) -> Option<bool> {
        whose(action).map(|whose| whose.is(self.session, self.turn))
    }

    /// Whether a step came together with something of another turn.
    pub(super) fn is_mixed(&self, step: usize) -> bool {
        self.marks.get(step).is_some_and(|mark| mark.is & MIXED != 0)
    }

    /// Reads a step (index).
    ///
    /// # Errors
    /// There is none, or the file cannot be read any more.
    pub fn read(&self, step: usize) -> io::Result<Step> {
        let mark = *self.marks.get(step).ok_or(io::ErrorKind::NotFound)?;
        let mut read = Step {
            line: mark.line as usize,
            t_ms: mark.t_ms,
            input: None,
            notes: Vec::new(),
            actions: Vec::new(),
        };
        let mixed = mark.is & MIXED != 0;
        for entry in self.entries(mark, &mut Vec::new())? {
            match entry {
                What::In(input) => {
                    let shown = !mixed
                        || is_own_command(&input, (self.session, self.turn), &self.asks)
                            == Some(true);
                    read.input = Some(input).filter(|_| shown);
                }
                What::Out(action) if !mixed || self.is_ours(&action) == Some(true) => {
                    read.actions.push(action);
                }
                _ if read.notes.len() >= NOTES || mixed => {}
                What::Host(did) => read.notes.push(did),
                What::Launch { command, cwd, .. } => {
                    read.notes.push(format!("started in {cwd}: {}", command.join(" ")));
                }
                What::Moved { digest, .. } => {
                    read.notes.push(format!("another generation took over: {digest}"));
                }
                What::Lost(lines) => read.notes.push(format!("{lines} lines were lost here")),
                What::Cut(why) => read.notes.push(format!("the recording was cut: {why}")),
                _ => {}
            }
        }
        Ok(read)
    }

    /// Hands on the recorded actions of the steps up to this one (index), in order.
    ///
    /// # Errors
    /// The file cannot be read any more.
    pub fn actions(&self, upto: usize, mut take: impl FnMut(usize, Action)) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (at, mark) in self.marks.iter().enumerate().take(upto.saturating_add(1)) {
            if mark.is & SAYS == 0 {
                continue;
            }
            for entry in self.entries(*mark, &mut bytes)? {
                if let What::Out(action) = entry
                    && (mark.is & MIXED == 0 || self.is_ours(&action) == Some(true))
                {
                    take(at, action);
                }
            }
        }
        Ok(())
    }

    /// What stands in the lines of a step.
    fn entries(&self, mark: Mark, bytes: &mut Vec<u8>) -> io::Result<Vec<What>> {
        bytes.resize(mark.length as usize, 0);
        self.file.read_exact_at(bytes, mark.start)?;
        bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| Ok(serde_json::from_slice::<Entry>(line)?.what))
            .collect()
    }
}
