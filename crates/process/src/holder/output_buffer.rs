//! The output of one process that the gateway has not yet recorded, in memory and then in a file.
//!
//! No output is dropped. If there is no more space, the process is not read, so that it has to
//! wait.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use super::protocol::{encode_line, lines_between, lines_message};
use super::spool::{HoldLimits, Spool};
use aetheel_model::agent::Exit;
use aetheel_turn::{OutputLine, ProcessEvent};

/// Largest piece to which lines are appended, so that many short lines need few pieces.
const MAX_SEGMENT_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct OutputBuffer {
    limits: HoldLimits,
    segments: VecDeque<OutputSegment>,
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
    exceeded_limit: bool,
    limit_sent: bool,
    end: Option<BufferedEnd>,
}

#[derive(Debug)]
struct BufferedEnd {
    how: Exit,
    stderr_tail: String,
    sent: bool,
}

#[derive(Debug)]
struct OutputSegment {
    /// Number of its first line, from 0.
    first: u64,
    count: u64,
    length: usize,
    storage: SegmentStorage,
    /// Whether it was sent completely.
    sent: bool,
}

#[derive(Debug)]
enum SegmentStorage {
    Memory(Vec<u8>),
    Spool(u64),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum BufferedEvent {
    Lines(Vec<u8>),
    OutputLimit,
    Exited(Exit, String),
}

impl OutputBuffer {
    /// Creates an empty buffer, whose file is created in `folder` when it is needed.
    pub(super) fn new(limits: HoldLimits, folder: &Path) -> Self {
        Self {
            limits,
            segments: VecDeque::new(),
            spool: Spool::new(folder),
            total: 0,
            sent: 0,
            recorded: 0,
            bytes: 0,
            in_memory: 0,
            bytes_sent: 0,
            exceeded_limit: false,
            limit_sent: false,
            end: None,
        }
    }

    /// Returns whether there is space for more output. `connected` is whether a gateway reads it.
    pub(super) fn has_room(&self, connected: bool) -> bool {
        if connected {
            return self.total - self.recorded < self.limits.window_lines
                && self.bytes < self.limits.window_bytes;
        }
        (self.in_memory < self.limits.memory && self.spool.length == 0)
            || self.spool.has_room(self.limits.spool)
    }

    pub(super) fn push(&mut self, event: ProcessEvent, connected: bool) {
        match event {
            ProcessEvent::Lines(lines) => self.push_lines(&lines, connected),
            ProcessEvent::OutputLimit => self.exceeded_limit = true,
            ProcessEvent::Exited { how, stderr_tail } => self.set_end(how, stderr_tail),
        }
    }

    fn set_end(&mut self, how: Exit, stderr_tail: String) {
        self.end = Some(BufferedEnd { how, stderr_tail, sent: self.is_end_sent() });
    }

    fn is_end_sent(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.sent)
    }

    fn push_lines(&mut self, lines: &[OutputLine], connected: bool) {
        let mut bytes = Vec::with_capacity(lines.iter().map(|line| line.text.len() + 7).sum());
        lines.iter().for_each(|line| encode_line(&mut bytes, line));
        let (count, length) = (lines.len() as u64, bytes.len());
        self.total += count;
        self.bytes += length;
        let spooled = !connected && self.in_memory + length > self.limits.memory;
        let offset = if spooled { self.spool.append(&bytes) } else { None };
        let storage = offset.map_or(SegmentStorage::Memory(bytes), SegmentStorage::Spool);
        if let SegmentStorage::Memory(_) = storage {
            self.in_memory += length;
        }
        let first = self.total - count;
        let piece = OutputSegment { first, count, length, storage, sent: false };
        if let Some(piece) = self.merge_into_last(piece) {
            self.segments.push_back(piece);
        }
    }

    /// Appends a piece to the last one, or returns it if that is impossible.
    fn merge_into_last(&mut self, piece: OutputSegment) -> Option<OutputSegment> {
        let joined = self.segments.back_mut().is_some_and(|last| {
            if last.sent || last.length + piece.length > MAX_SEGMENT_BYTES {
                return false;
            }
            match (&mut last.storage, &piece.storage) {
                (SegmentStorage::Memory(bytes), SegmentStorage::Memory(more)) => bytes.extend(more),
                (SegmentStorage::Spool(at), SegmentStorage::Spool(next))
                    if *at + last.length as u64 == *next => {}
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
    pub(super) fn next(&mut self, stream: u64) -> Option<BufferedEvent> {
        if self.sent < self.total {
            return self.next_lines(stream).unwrap_or_else(|error| {
                tracing::error!(%error, "cannot read an agent's output back; its process counts as lost");
                self.discard();
                self.set_end(Exit::Unknown, format!("its output is lost: {error}"));
                None
            });
        }
        if self.exceeded_limit && !std::mem::replace(&mut self.limit_sent, true) {
            return Some(BufferedEvent::OutputLimit);
        }
        let end = self.end.as_mut().filter(|end| !end.sent)?;
        end.sent = true;
        Some(BufferedEvent::Exited(end.how, end.stderr_tail.clone()))
    }

    fn next_lines(&mut self, stream: u64) -> io::Result<Option<BufferedEvent>> {
        let room = self.limits.window_lines.saturating_sub(self.sent - self.recorded);
        if room == 0 || self.bytes_sent >= self.limits.window_bytes {
            return Ok(None);
        }
        let at = self.segments.partition_point(|piece| piece.first + piece.count <= self.sent);
        let Some(piece) = self.segments.get_mut(at) else { return Ok(None) };
        let skipped = self.sent - piece.first;
        let count = (piece.count - skipped).min(room);
        let read;
        let bytes = match &piece.storage {
            SegmentStorage::Memory(bytes) => bytes,
            SegmentStorage::Spool(offset) => {
                read = self.spool.read(*offset, piece.length)?;
                &read
            }
        };
        let is_whole = count == piece.count;
        let lines = if is_whole { bytes } else { lines_between(bytes, skipped, count) };
        let message = lines_message(stream, count, lines);
        self.sent += count;
        if self.sent == piece.first + piece.count {
            piece.sent = true;
            self.bytes_sent += piece.length;
        }
        Ok(Some(BufferedEvent::Lines(message)))
    }

    /// Drops lines that the gateway has recorded. Returns `true` if the exit is recorded too.
    pub(super) fn record(&mut self, lines: u64) -> bool {
        let over = self.is_end_sent() && lines > self.total;
        self.recorded = lines.min(self.sent).max(self.recorded);
        while let Some(piece) =
            self.segments.pop_front_if(|piece| piece.first + piece.count <= self.recorded)
        {
            self.bytes -= piece.length;
            if piece.sent {
                self.bytes_sent -= piece.length;
            }
            if let SegmentStorage::Memory(_) = piece.storage {
                self.in_memory -= piece.length;
            }
        }
        if self.spool.length > 0
            && self.segments.iter().all(|piece| matches!(piece.storage, SegmentStorage::Memory(_)))
        {
            self.spool.clear();
        }
        over
    }

    /// Continues after the first `lines` lines, for a new listener. The exit counts as one more
    /// line.
    ///
    /// # Errors
    /// The smallest and the largest possible value of `lines`.
    pub(super) fn rewind(&mut self, lines: u64) -> Result<(), (u64, u64)> {
        let most = self.total + u64::from(self.end.is_some());
        if lines < self.recorded || lines > most {
            return Err((self.recorded, most));
        }
        for piece in &mut self.segments {
            piece.sent = false;
        }
        (self.sent, self.bytes_sent, self.spool.failed) = (lines.min(self.total), 0, false);
        let ended = lines > self.total;
        self.limit_sent = ended;
        self.end.iter_mut().for_each(|end| end.sent = ended);
        self.record(lines);
        Ok(())
    }

    pub(super) fn discard(&mut self) {
        self.segments.clear();
        self.spool.clear();
        (self.bytes, self.in_memory, self.bytes_sent) = (0, 0, 0);
        (self.sent, self.recorded) = (self.total, self.total);
    }

    pub(super) fn recorded(&self) -> u64 {
        self.recorded
    }
}
