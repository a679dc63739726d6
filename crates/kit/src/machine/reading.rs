//! The same recording read by another component: the steps at which it wants something else done.
//!
//! One input a call, from the beginning of the link to the end of the turn. What a gateway told its
//! guest in one call was answered in one: compared is what came of the inputs of a call together,
//! and a difference stands at the last of them. Only where something differs is anything kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::film::Film;
use super::lines::Lines;
use aetheel_model::agent::Action;
use aetheel_model::redact::Redactor;
use aetheel_turn::Backend;
use aetheel_turn::recording::{Entry, UNSEEN, What};
use aetheel_turn::replay::{Batches, Player};

/// Bytes of what another component wants done that are kept.
const KEPT: usize = 16 << 20;
/// Actions that wait to be compared; where there are more, they are compared as they are.
const WAITING: usize = 10_000;
/// Entries that are read ahead of the guest.
const AHEAD: usize = 8;

/// What another component made of a turn.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The version its descriptor gives.
    pub version: String,
    /// SHA-256 of the component.
    pub digest: String,
    /// Where it failed (step, index; none: before the turn), and how. It was told nothing after.
    pub failure: Option<(Option<usize>, String)>,
    /// Inputs of the turn about things it never asked for. It was not told of them.
    pub withheld: usize,
    /// What it wants done at each step where that is something else, as a JSON list; none: there
    /// was no room to keep it.
    other: BTreeMap<usize, Option<Box<str>>>,
}

impl Reading {
    /// Whether it wants something else done at a step (index).
    #[must_use]
    pub fn differs(&self, step: usize) -> bool {
        self.other.contains_key(&step)
    }

    /// At how many steps it does.
    #[must_use]
    pub fn count(&self) -> usize {
        self.other.len()
    }

    /// The first step (index) where it does, from this one on.
    #[must_use]
    pub fn next(&self, from: usize) -> Option<usize> {
        self.other.range(from..).next().map(|(step, _)| *step)
    }

    /// What it wants done at a step where that is something else; `Some(None)`: it is not kept.
    #[must_use]
    pub fn actions(&self, step: usize) -> Option<Option<Vec<Action>>> {
        let kept = self.other.get(&step)?;
        Some(kept.as_deref().and_then(|kept| serde_json::from_str(kept).ok()))
    }
}

/// Has a backend read a turn, and compares.
///
/// # Errors
/// Why that cannot be; how its guest fails on the way is part of the reading.
pub(super) async fn read(
    film: Arc<Film>,
    backend: &dyn Backend,
    redactor: &Redactor,
    mut at: impl FnMut(usize),
) -> Result<Reading, String> {
    let opened = Player::open(backend, film.keys.clone(), Batches::Single).await;
    let mut player = opened.map_err(|failure| format!("no guest can be opened: {failure}"))?;
    let mut comparison = Comparison::of(&film, redactor);
    let (entries, mut read) = mpsc::channel(AHEAD);
    let source = Arc::clone(&film);
    let reader = tokio::task::spawn_blocking(move || tell(&source, &entries));
    while let Some((line, entry)) = read.recv().await {
        comparison.entry(line, &entry);
        let played = player.play(line, &entry).await;
        played.map_err(|failure| format!("no further guest can be opened: {failure}"))?;
        if matches!(entry.what, What::In(_)) {
            player.flush().await;
        }
        let (steps, failure) = player.take_steps();
        comparison.other.extend(steps.into_iter().flat_map(|step| step.actions));
        if let Some(failure) = failure {
            let step = film.step_of(line);
            comparison.close();
            comparison.reading.failure = Some((step, redactor.clean(failure.to_string())));
            break;
        }
        comparison.reading.withheld +=
            usize::from(film.step_of(line).is_some() && player.withheld(line));
        if let Some(step) = film.step_of(line) {
            at(step);
        }
    }
    drop(read);
    reader.await.map_err(|error| error.to_string())??;
    comparison.close();
    let Comparison { mut reading, .. } = comparison;
    reading.version.clone_from(&backend.descriptor().version);
    reading.digest.clone_from(&backend.generation().digest);
    Ok(reading)
}

/// Reads the entries up to the turn's end for whoever takes them, each with its line. Blocks.
fn tell(film: &Film, entries: &mpsc::Sender<(usize, Entry)>) -> Result<(), String> {
    let mut lines = Lines::of(film.file(), 0, film.end);
    let gone = |error: std::io::Error| format!("the recording cannot be read any more: {error}");
    let mut first = true;
    while let Some((_, number, line)) = lines.next().map_err(gone)? {
        if std::mem::take(&mut first) {
            continue;
        }
        // Where it is damaged the film ends.
        let Ok(entry) = serde_json::from_slice(line) else { break };
        if entries.blocking_send((number, entry)).is_err() {
            break;
        }
    }
    Ok(())
}

/// Compares what was recorded with what another component wants done.
struct Comparison<'a> {
    film: &'a Film,
    redactor: &'a Redactor,
    reading: Reading,
    /// The step (index) told last, where it is one of this turn's.
    step: Option<usize>,
    recorded: Vec<Action>,
    other: Vec<Action>,
    /// The recorded guest had answered what was told.
    answered: bool,
    /// No guest was told what stands here.
    unseen: bool,
    bytes: usize,
}

impl<'a> Comparison<'a> {
    fn of(film: &'a Film, redactor: &'a Redactor) -> Self {
        Self {
            film,
            redactor,
            reading: Reading::default(),
            step: None,
            recorded: Vec::new(),
            other: Vec::new(),
            answered: false,
            unseen: false,
            bytes: 0,
        }
    }

    /// The next entry of the recording, before anybody is told of it.
    fn entry(&mut self, line: usize, entry: &Entry) {
        match &entry.what {
            What::In(_) => {
                if self.answered || self.unseen || self.other.len() > WAITING {
                    self.close();
                }
                self.step = self.film.step_of(line);
            }
            What::Out(action) => {
                self.answered = true;
                self.recorded.push(action.clone());
            }
            What::Host(did) if did == UNSEEN => {
                self.close();
                self.unseen = true;
            }
            _ => {}
        }
    }

    /// Everything that came of what was told is there.
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
                let text = self.redactor.clean(text);
                self.bytes = self.bytes.saturating_add(text.len());
                let kept = (self.bytes <= KEPT).then(|| text.into_boxed_str());
                self.reading.other.insert(step, kept);
            }
        }
        recorded.clear();
        other.clear();
    }
}
