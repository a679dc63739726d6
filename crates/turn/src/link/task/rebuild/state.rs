//! The state that is collected while a link is rebuilt.

use std::collections::{BTreeMap, BTreeSet};

use super::processes::RebuiltProcesses;
use super::recorded::RecordedActions;
use super::turns::RebuiltTurns;
use crate::link::FormerLink;
use aetheel_recording::comparison::RebuildError;
use aetheel_recording::{Checkpoint, EntryKind};

#[derive(Default)]
pub(super) struct RebuildState {
    pub(super) recorded: RecordedActions,
    /// The actions of the guest that are not recorded, and notes about them.
    pub(super) unrecorded: Vec<EntryKind>,
    /// The number of inputs that the guest got.
    pub(super) replayed: u64,
    pub(super) turns: RebuiltTurns,
    pub(super) processes: RebuiltProcesses,
    /// The open HTTP requests.
    pub(super) requests: BTreeSet<u32>,
    /// The open streams.
    pub(super) streams: BTreeSet<u32>,
    /// When each timer expires, in milliseconds of the link's time.
    pub(super) timers: BTreeMap<u32, f64>,
}

impl RebuildState {
    pub(super) fn of(former: &FormerLink<'_>) -> Result<Self, RebuildError> {
        let entries = &former.tail.entries;
        Ok(Self {
            recorded: RecordedActions::of(entries)?,
            turns: RebuiltTurns::of(entries),
            processes: RebuiltProcesses::of(former.survivor),
            ..Self::default()
        })
    }

    /// Adds the processes, requests, streams and timers of a checkpoint.
    ///
    /// # Errors
    /// [`RebuildError::Incomplete`] if a process did not receive all commands from before the
    /// checkpoint.
    pub(super) fn start_from(&mut self, checkpoint: &Checkpoint) -> Result<(), RebuildError> {
        self.processes.start_from(checkpoint)?;
        self.requests.extend(&checkpoint.requests);
        self.streams.extend(&checkpoint.streams);
        let timers = checkpoint.timers.iter().map(|timer| (timer.timer, timer.at_ms as f64));
        self.timers.extend(timers);
        Ok(())
    }
}
