//! The output of one process that the gateway has not yet recorded, in memory and then in a file.
//!
//! No output is dropped. If there is no more space, the process is not read, so that it has to
//! wait.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use super::protocol::{encode_line, lines_between};
use super::spool::{HoldLimits, Spool};
use aetheel_model::agent::Exit;
use aetheel_turn::{OutputLine, ProcessEvent};

/// Largest piece to which lines are appended, so that many short lines need few pieces.
const PIECE: usize = 64 << 10;

/// The buffered output of a process.
#[derive(Debug)]
pub(super) struct Kept {
    limits: HoldLimits,
    pieces: VecDeque<Piece>,
    spool: Spool,
    /// Lines that the process has printed.
    total: u64,
    /// Lines that were sent to the gateway.
    sent: u64,
    /// Lines that the gateway has recorded.
    recorded: u64,
    /// Bytes of all pieces.
    bytes: usize,
    /// Bytes of the pieces in memory.
    in_memory: usize,
    /// Bytes of the pieces that were sent completely.
    bytes_sent: usize,
    /// Whether the process exceeded its output limit.
    over: bool,
    /// How the process ended, and the end of its stderr.
    end: Option<(Exit, String)>,
    /// Whether `over` was sent.
    over_sent: bool,
    /// Whether `end` was sent.
    end_sent: bool,
    /// Whether writing to the file failed. Until the file is empty, it is not written again.
    stuck: bool,
}

#[derive(Debug)]
struct Piece {
    /// Number of its first line, from 0.
    first: u64,
    count: u64,
    length: usize,
    place: Place,
    /// Whether it was sent completely.
    sent: bool,
}

#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    Spool(u64),
}

/// An event to send to the gateway.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Lines, encoded.
    Lines(Vec<u8>),
    OutputLimit,
    Exited(Exit, String),
}

impl Kept {
    /// Creates an empty buffer, whose file is created in `folder` when it is needed.
    pub(super) fn new(limits: HoldLimits, folder: &Path) -> Self {
        Self {
            limits,
            pieces: VecDeque::new(),
            spool: Spool::new(folder),
            total: 0,
            sent: 0,
            recorded: 0,
            bytes: 0,
            in_memory: 0,
            bytes_sent: 0,
            over: false,
            end: None,
            over_sent: false,
            end_sent: false,
            stuck: false,
        }
    }

    /// Returns whether there is space for more output. `heard` is whether a gateway is connected.
    pub(super) fn has_room(&self, heard: bool) -> bool {
        if heard {
            return self.total - self.recorded < self.limits.window_lines
                && self.bytes < self.limits.window_bytes;
        }
        (self.in_memory < self.limits.memory && self.spool.length == 0)
            || (!self.stuck && self.spool.length < self.limits.spool)
    }

    /// Adds an event of the process.
    pub(super) fn take(&mut self, event: ProcessEvent, heard: bool) {
        match event {
            ProcessEvent::Lines(lines) => self.take_lines(&lines, heard),
            ProcessEvent::OutputLimit => self.over = true,
            ProcessEvent::Exited { how, stderr_tail } => self.end = Some((how, stderr_tail)),
        }
    }

    fn take_lines(&mut self, lines: &[OutputLine], heard: bool) {
        let mut bytes = Vec::with_capacity(lines.iter().map(|line| line.text.len() + 5).sum());
        lines.iter().for_each(|line| encode_line(&mut bytes, line));
        let (count, length) = (lines.len() as u64, bytes.len());
        self.total += count;
        self.bytes += length;
        let spooled = !heard && self.in_memory + length > self.limits.memory;
        let place = if spooled { self.write(bytes) } else { Place::Memory(bytes) };
        if let Place::Memory(_) = place {
            self.in_memory += length;
        }
        let first = self.total - count;
        let piece = Piece { first, count, length, place, sent: false };
        if let Some(piece) = self.join(piece) {
            self.pieces.push_back(piece);
        }
    }

    /// Appends bytes to the file, or keeps them in memory if that fails.
    fn write(&mut self, bytes: Vec<u8>) -> Place {
        if self.stuck {
            return Place::Memory(bytes);
        }
        match self.spool.append(&bytes) {
            Ok(offset) => Place::Spool(offset),
            Err(error) => {
                self.stuck = true;
                tracing::warn!(%error, "cannot keep an agent's output in a file; the agent has to wait for the gateway; hint: make room on the disk");
                Place::Memory(bytes)
            }
        }
    }

    /// Appends a piece to the last one, or returns it if that is impossible.
    fn join(&mut self, piece: Piece) -> Option<Piece> {
        let joined = self.pieces.back_mut().is_some_and(|last| {
            if last.sent || last.length + piece.length > PIECE {
                return false;
            }
            match (&mut last.place, &piece.place) {
                (Place::Memory(bytes), Place::Memory(more)) => bytes.extend(more),
                (Place::Spool(at), Place::Spool(next)) if *at + last.length as u64 == *next => {}
                _ => return false,
            }
            last.count += piece.count;
            last.length += piece.length;
            true
        });
        (!joined).then_some(piece)
    }

    /// Returns the next event that may be sent. Lines wait while the window of unrecorded lines is
    /// full.
    pub(super) fn next(&mut self) -> Option<Next> {
        if self.sent < self.total {
            return self.next_lines().unwrap_or_else(|error| {
                tracing::error!(%error, "cannot read an agent's output back; its process counts as lost");
                self.discard();
                self.end = Some((Exit::Unknown, format!("its output is lost: {error}")));
                None
            });
        }
        if self.over && !std::mem::replace(&mut self.over_sent, true) {
            return Some(Next::OutputLimit);
        }
        let (how, tail) = self.end.as_ref()?;
        if std::mem::replace(&mut self.end_sent, true) {
            return None;
        }
        Some(Next::Exited(*how, tail.clone()))
    }

    fn next_lines(&mut self) -> io::Result<Option<Next>> {
        let room = self.limits.window_lines.saturating_sub(self.sent - self.recorded);
        if room == 0 || self.bytes_sent >= self.limits.window_bytes {
            return Ok(None);
        }
        let at = self.pieces.partition_point(|piece| piece.first + piece.count <= self.sent);
        let Some(piece) = self.pieces.get_mut(at) else { return Ok(None) };
        let skipped = self.sent - piece.first;
        let count = (piece.count - skipped).min(room);
        let read;
        let bytes = match &piece.place {
            Place::Memory(bytes) => bytes,
            Place::Spool(offset) => {
                read = self.spool.read(*offset, piece.length)?;
                &read
            }
        };
        let lines = if count == piece.count {
            bytes.clone()
        } else {
            lines_between(bytes, skipped, count).to_vec()
        };
        self.sent += count;
        if self.sent == piece.first + piece.count {
            piece.sent = true;
            self.bytes_sent += piece.length;
        }
        Ok(Some(Next::Lines(lines)))
    }

    /// Drops lines that the gateway has recorded. Returns `true` if the exit is recorded too.
    pub(super) fn record(&mut self, lines: u64) -> bool {
        let over = self.end_sent && lines > self.total;
        self.recorded = lines.min(self.sent).max(self.recorded);
        while let Some(piece) =
            self.pieces.pop_front_if(|piece| piece.first + piece.count <= self.recorded)
        {
            self.bytes -= piece.length;
            if piece.sent {
                self.bytes_sent -= piece.length;
            }
            if let Place::Memory(_) = piece.place {
                self.in_memory -= piece.length;
            }
        }
        if self.spool.length > 0
            && self.pieces.iter().all(|piece| matches!(piece.place, Place::Memory(_)))
        {
            self.spool.clear();
            self.stuck = false;
        }
        over
    }

    /// Continues after the first `heard` lines, for a new listener. The exit counts as one more
    /// line.
    ///
    /// # Errors
    /// The smallest and the largest possible value of `heard`.
    pub(super) fn rewind(&mut self, heard: u64) -> Result<(), (u64, u64)> {
        let most = self.total + u64::from(self.end.is_some());
        if heard < self.recorded || heard > most {
            return Err((self.recorded, most));
        }
        for piece in &mut self.pieces {
            piece.sent = false;
        }
        (self.sent, self.bytes_sent, self.stuck) = (heard.min(self.total), 0, false);
        let ended = heard > self.total;
        (self.over_sent, self.end_sent) = (ended, ended);
        self.record(heard);
        Ok(())
    }

    /// Drops all lines.
    pub(super) fn discard(&mut self) {
        self.pieces.clear();
        self.spool.clear();
        (self.bytes, self.in_memory, self.bytes_sent) = (0, 0, 0);
        (self.sent, self.recorded) = (self.total, self.total);
    }

    /// Returns the number of recorded lines.
    pub(super) fn recorded(&self) -> u64 {
        self.recorded
    }
}
