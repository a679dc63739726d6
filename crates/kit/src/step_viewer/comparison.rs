//! Replays a recording with another component, and finds the steps with different actions.
//!
//! The replay uses one input per call, from the beginning of the link to the end of the turn. When
//! the gateway passed several inputs to its guest in one call, the recorded actions belong to all
//! of them. So the actions of all inputs of a call are compared together, and a difference is
//! assigned to the last of them. Only different actions are kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::error::{ReplayError, StepViewerError};
use super::steps::TurnSteps;
use aetheel_model::agent::Action;
use aetheel_model::redact::Redactor;
use aetheel_turn::Backend;
use aetheel_turn::recording::{EntryKind, RecordingEntry, UNSEEN};
use aetheel_turn::replay::{Batches, Replayer};

/// Maximum total size of the kept actions, in bytes.
const MAX_KEPT_BYTES: usize = 16 << 20;
/// Maximum number of actions that are collected before they are compared.
const MAX_PENDING_ACTIONS: usize = 10_000;
/// The number of entries that are read ahead of the guest.
const READ_AHEAD_ENTRIES: usize = 8;

/// The replay of a turn by another component.
#[derive(Clone, Debug, Default)]
pub struct ComponentReplay {
    /// The version in its descriptor.
    pub version: String,
    /// SHA-256 of the component.
    pub digest: String,
    /// Where it failed (step index, or `None` if before the turn), and the failure. The replay ends
    /// there.
    pub failure: Option<(Option<usize>, String)>,
    /// The number of inputs of the turn that were withheld because they answer requests that this
    /// component never made.
    pub withheld: usize,
    /// Its actions at each step where they differ, as a JSON list; `None` if they were too large to
    /// keep.
    other: BTreeMap<usize, Option<Box<str>>>,
}

impl ComponentReplay {
    /// Returns whether its actions differ at a step (index).
    #[must_use]
    pub fn differs(&self, step: usize) -> bool {
        self.other.contains_key(&step)
    }

    /// Returns the number of steps with different actions.
    #[must_use]
    pub fn count(&self) -> usize {
        self.other.len()
    }

    /// Returns the first step (index) with different actions, from this one on.
    #[must_use]
    pub fn next(&self, from: usize) -> Option<usize> {
        self.other.range(from..).next().map(|(step, _)| *step)
    }

    /// Returns its actions at a step (index) where they differ; `Some(None)` if they were not kept.
    #[must_use]
    pub fn actions(&self, step: usize) -> Option<Option<Vec<Action>>> {
        let kept = self.other.get(&step)?;
        Some(kept.as_deref().and_then(|kept| serde_json::from_str(kept).ok()))
    }
}

/// Replays a turn with another backend, and compares.
///
/// # Errors
/// Returns an error if the replay is not possible. A failure of the guest is part of the result
/// instead.
pub(super) async fn read(
    film: Arc<TurnSteps>,
    backend: &dyn Backend,
    redactor: &Redactor,
    mut at: impl FnMut(usize),
) -> Result<ComponentReplay, ReplayError> {
    let opened = Replayer::open(backend, film.keys.clone(), Batches::Single).await;
    let mut player = opened.map_err(ReplayError::FirstGuest)?;
    let mut comparison = Comparison::of(&film, redactor);
    let (entries, mut read) = mpsc::channel(READ_AHEAD_ENTRIES);
    let source = Arc::clone(&film);
    let reader = tokio::task::spawn_blocking(move || send_entries(&source, &entries));
    while let Some((line, entry)) = read.recv().await {
        comparison.entry(line, &entry);
        player.play(line, &entry).await.map_err(ReplayError::FurtherGuest)?;
        if matches!(entry.kind, EntryKind::In(_)) {
            player.flush().await;
        }
        let (steps, failure) = player.take_steps();
        comparison.other.extend(steps.into_iter().flat_map(|step| step.actions));
        if let Some(failure) = failure {
            let step = film.step_of(line);
            comparison.close();
            comparison.reading.failure = Some((step, redactor.redact(failure.to_string())));
            break;
        }
        comparison.reading.withheld +=
            usize::from(film.step_of(line).is_some() && player.withheld(line));
        if let Some(step) = film.step_of(line) {
            at(step);
        }
    }
    drop(read);
    reader.await??;
    comparison.close();
    let Comparison { mut reading, .. } = comparison;
    reading.version.clone_from(&backend.descriptor().version);
    reading.digest.clone_from(&backend.generation().digest);
    Ok(reading)
}

/// Sends the entries up to the turn's end to a channel, each with its line number. Blocks.
fn send_entries(
    film: &TurnSteps,
    entries: &mpsc::Sender<(usize, RecordingEntry)>,
) -> Result<(), StepViewerError> {
    let mut lines = film.lines();
    // The header.
    lines.next().map_err(StepViewerError::Reread)?;
    while let Some(line) = lines.next().map_err(StepViewerError::Reread)? {
        // The turn's steps end at a damaged line too.
        let Ok(entry) = serde_json::from_slice(line.bytes) else { break };
        if entries.blocking_send((line.number, entry)).is_err() {
            break;
        }
    }
    Ok(())
}

/// Compares the recorded actions with those of another component.
struct Comparison<'a> {
    film: &'a TurnSteps,
    redactor: &'a Redactor,
    reading: ComponentReplay,
    /// The step (index) of the latest input, if it belongs to this turn.
    step: Option<usize>,
    recorded: Vec<Action>,
    other: Vec<Action>,
    /// Whether the recorded guest has returned actions for the latest inputs.
    answered: bool,
    /// Whether the following inputs were recorded without a guest.
    unseen: bool,
    bytes: usize,
}

impl<'a> Comparison<'a> {
    fn of(film: &'a TurnSteps, redactor: &'a Redactor) -> Self {
        Self {
            film,
            redactor,
            reading: ComponentReplay::default(),
            step: None,
            recorded: Vec::new(),
            other: Vec::new(),
            answered: false,
            unseen: false,
            bytes: 0,
        }
    }

    /// Processes the next entry of the recording, before the other component gets it.
    fn entry(&mut self, line: usize, entry: &RecordingEntry) {
        match &entry.kind {
            EntryKind::In(_) => {
                if self.answered || self.unseen || self.other.len() > MAX_PENDING_ACTIONS {
                    self.close();
                }
                self.step = self.film.step_of(line);
            }
            EntryKind::Out(action) => {
                self.answered = true;
                self.recorded.push(action.clone());
            }
            EntryKind::Host(did) if did == UNSEEN => {
                self.close();
                self.unseen = true;
            }
            _ => {}
        }
    }

    /// Compares the collected actions, which are complete now.
    fn close(&mut self) {
        let (recorded, other) = (&mut self.recorded, &mut self.other);
        self.answered = false;
        if let Some(step) = self.step {
            let film = self.film;
            let sparse = film.facts().sparse.is_some_and(|from| step >= from);
            let mixed = film.is_mixed(step);
            let counts = |action: &Action| {
                (!sparse || !matches!(action, Action::Event(_)))
                    && (!mixed || film.is_ours(action) == Some(true))
            };
            recorded.retain(&counts);
            other.retain(&counts);
            if recorded != other {
                let text = serde_json::to_string(other).unwrap_or_default();
                let text = self.redactor.redact(text);
                self.bytes = self.bytes.saturating_add(text.len());
                let kept = (self.bytes <= MAX_KEPT_BYTES).then(|| text.into_boxed_str());
                self.reading.other.insert(step, kept);
            }
        }
        recorded.clear();
        other.clear();
    }
}
