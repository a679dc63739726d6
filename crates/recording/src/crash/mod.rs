//! Simulates crashes of the gateway: cuts a recording at one point, rebuilds a guest from the rest
//! as after a restart, and checks whether it continues with the recorded actions.

use std::time::{Duration, Instant};

use crate::comparison::{RebuildError, open_guest, replay_entries};
use crate::{
    Backend, Checkpoint, EntryKind, Guest, MASKED, MAX_TRIED, RecordingEntry, SPARSE, UNSEEN,
};
use aetheel_model::agent::{Action, HostCommand, Input};

/// The result of a simulated crash.
#[derive(Debug)]
pub struct SimulatedCrash {
    /// The number of entries that were written before the crash.
    pub at: usize,
    /// The index of the checkpoint from which the guest was rebuilt last. `None` for the beginning
    /// of the recording.
    pub checkpoint: Option<usize>,
    /// The number of inputs that the guest replayed.
    pub replayed: usize,
    /// The time until the guest was rebuilt.
    pub took: Duration,
    /// Why the guest could not be rebuilt, or did not continue with the recorded actions.
    pub failure: Option<RebuildError>,
}

/// Returns the points of a recording at which crashes are simulated: after each input and action,
/// or at most `most` of them at equal distances. A point is the number of entries before it.
///
/// No point lies after the failure of the guest or a request to exit, because the gateway does not
/// rebuild such a link.
#[must_use]
pub fn crash_points(entries: &[RecordingEntry], limit: Option<usize>) -> Vec<usize> {
    let ends = |entry: &RecordingEntry| match &entry.kind {
        EntryKind::Host(what) => what == UNSEEN,
        EntryKind::In(Input::Command(HostCommand::Shutdown)) => true,
        _ => false,
    };
    let end = entries.iter().position(ends).unwrap_or(entries.len());
    let is_step =
        |entry: &RecordingEntry| matches!(entry.kind, EntryKind::In(_) | EntryKind::Out(_));
    let steps = entries[..end].iter().enumerate().filter(|(_, entry)| is_step(entry));
    let points: Vec<usize> = steps.map(|(at, _)| at + 1).collect();
    match limit {
        Some(limit) if limit < points.len() && limit > 1 => {
            let last = points.len() - 1;
            (0..limit).map(|nth| points[nth * last / (limit - 1)]).collect()
        }
        Some(limit) => points.into_iter().rev().take(limit).rev().collect(),
        None => points,
    }
}

/// Rebuilds a guest from the first `at` entries, from the newest checkpoint that can be used or
/// from the beginning, and lets it continue with the other entries.
pub async fn simulate_crash(
    backend: &dyn Backend,
    entries: &[RecordingEntry],
    at: usize,
) -> SimulatedCrash {
    let (written, rest) = entries.split_at(at.min(entries.len()));
    let began = Instant::now();
    let mut crash =
        SimulatedCrash { at, checkpoint: None, replayed: 0, took: Duration::ZERO, failure: None };
    for (checkpoint, state) in starts(written) {
        let replayed = &written[checkpoint.map_or(0, |index| index + 1)..];
        crash.checkpoint = checkpoint;
        crash.replayed += replayed.iter().filter(|entry| entry.input().is_some()).count();
        let rebuilt = rebuild(backend, state, replayed).await;
        crash.took = began.elapsed();
        match rebuilt {
            Ok((guest, performed)) => {
                let sparse = replayed.iter().any(|entry| entry.is_note(SPARSE));
                crash.failure =
                    continue_with(guest, performed, comparable(rest), sparse).await.err();
                return crash;
            }
            Err(error) => crash.failure = Some(error),
        }
    }
    crash
}

/// Returns the points from which the gateway would rebuild a link, in this order.
fn starts(written: &[RecordingEntry]) -> Vec<(Option<usize>, Option<&Checkpoint>)> {
    let checkpoints =
        written.iter().enumerate().rev().filter_map(|(at, entry)| match &entry.kind {
            EntryKind::Checkpoint(checkpoint) => Some((Some(at), Some(&**checkpoint))),
            _ => None,
        });
    let tried = checkpoints.take(MAX_TRIED);
    let usable = tried.filter(|(_, state)| state.is_some_and(Checkpoint::is_intact));
    usable.chain([(None, None)]).collect()
}

/// Opens a guest and replays entries. Also returns its actions that are not among them.
async fn rebuild(
    backend: &dyn Backend,
    state: Option<&Checkpoint>,
    entries: &[RecordingEntry],
) -> Result<(Box<dyn Guest>, Vec<Action>), RebuildError> {
    let mut guest = open_guest(backend, state).await?;
    let performed = replay_entries(&mut *guest, entries, Vec::new(), false).await?;
    Ok((guest, performed))
}

/// Checks whether a rebuilt guest continues with the recorded actions. `performed` are those that
/// it returned already.
async fn continue_with(
    mut guest: Box<dyn Guest>,
    performed: Vec<Action>,
    rest: &[RecordingEntry],
    sparse: bool,
) -> Result<(), RebuildError> {
    replay_entries(&mut *guest, rest, performed, sparse).await.map(drop)
}

/// Returns the entries up to the point at which another guest took over, or inputs are missing.
fn comparable(rest: &[RecordingEntry]) -> &[RecordingEntry] {
    let ends = |entry: &RecordingEntry| match &entry.kind {
        EntryKind::Moved { .. } | EntryKind::Lost(_) | EntryKind::Cut(_) => true,
        EntryKind::Host(what) => what == MASKED || what == UNSEEN,
        EntryKind::In(Input::Command(HostCommand::Shutdown)) => true,
        _ => false,
    };
    &rest[..rest.iter().position(ends).unwrap_or(rest.len())]
}

#[cfg(test)]
mod tests;
