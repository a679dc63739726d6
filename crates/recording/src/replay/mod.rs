//! Replays recordings to guests: to test a backend, to compare two backends, and to read output
//! that an older parser could not read.
//!
//! A guest has no clock and no I/O, so the recording is all it needs. Another parser may use other
//! keys for its processes, requests and timers; they are matched in the order of first use. If it
//! requests something else (another command line, another HTTP request), it gets the inputs of the
//! recorded request. Inputs about things that it never requested are withheld, because no host
//! could send them. `tests/kit` replays every recording of every backend.

mod endings;
mod keys;
mod lost;

use std::collections::BTreeMap;

pub use self::endings::endings;
pub use self::keys::Keys;
pub use self::lost::{examine, lost_text};
use crate::{Backend, Guest, GuestFailure};
use crate::{EntryKind, RecordingEntry};
use aetheel_model::agent::{
    Action, HostCommand, Input, SessionKey, SessionReady, TimedInput, TurnDone, TurnKey,
};
use aetheel_model::fold::{Transcript, bounded};

/// How many inputs a guest gets in one call. The guest's actions must not depend on it, and tests
/// check that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batches {
    /// One input per call, so that the cause of every action is known.
    Single,
    /// A fixed number of inputs per call.
    Of(usize),
    /// 1 to 16 inputs per call, in a pseudo-random sequence that depends on the seed.
    Seeded(u64),
    /// All inputs in one call.
    Whole,
}

impl Batches {
    /// Returns the number of inputs in the next call.
    fn next(&mut self) -> usize {
        match self {
            Self::Single => 1,
            Self::Of(most) => (*most).max(1),
            Self::Whole => usize::MAX,
            Self::Seeded(seed) => {
                // Knuth's MMIX generator. Its upper bits have the best quality.
                *seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                1 + (*seed >> 60) as usize
            }
        }
    }
}

/// The actions that a guest returned in one call.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayStep {
    /// The index of the last input of the call in the entries.
    pub entry: usize,
    /// The actions.
    pub actions: Vec<Action>,
}

/// A turn as a guest reported it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayedTurn {
    /// The agent events.
    pub transcript: Transcript,
    /// The agent's session.
    pub session: Option<SessionReady>,
    /// How the turn ended, or `None` if the guest did not end it.
    pub done: Option<TurnDone>,
}

impl ReplayedTurn {
    /// Adds an action of the guest about this turn. Only the first end of a turn counts, and the
    /// host drops everything after it.
    pub fn apply(&mut self, action: &Action) {
        match action {
            _ if self.done.is_some() => {}
            Action::Event(event) => self.transcript.apply(&event.kind),
            Action::SessionReady(ready) => self.session = Some(ready.clone()),
            Action::TurnDone(done) => self.done = Some(done.clone()),
            _ => {}
        }
    }

    /// Returns the text of the answer.
    #[must_use]
    pub fn text(&self) -> String {
        let text = self.done.as_ref().and_then(|done| done.text.clone());
        text.map_or_else(|| self.transcript.text(), bounded)
    }
}

/// The result of a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayResult {
    /// The calls in order, including those without actions.
    pub steps: Vec<ReplayStep>,
    /// All turns on which the guest reported.
    pub turns: BTreeMap<TurnKey, ReplayedTurn>,
    /// The index of the entry at which the guest failed, and the failure. The guest got no input
    /// after that.
    pub failure: Option<(usize, GuestFailure)>,
    /// The indexes of the inputs that the guest did not get, because it never requested their
    /// subjects.
    pub withheld: Vec<usize>,
    /// The last turn of each session.
    sessions: BTreeMap<SessionKey, TurnKey>,
}

impl ReplayResult {
    /// Returns the actions in a recording as the result of a replay.
    #[must_use]
    pub fn recorded(entries: &[RecordingEntry]) -> Self {
        let mut recorded = Self::default();
        for (entry, line) in entries.iter().enumerate() {
            if line.input().is_some() {
                if let Some(start) = line.turn_start() {
                    recorded.sessions.insert(start.session, start.turn);
                }
                recorded.steps.push(ReplayStep { entry, actions: Vec::new() });
            } else if let Some(action) = line.action() {
                recorded.apply(action);
                match recorded.steps.last_mut() {
                    Some(step) => step.actions.push(action.clone()),
                    None => {
                        recorded.steps.push(ReplayStep { entry, actions: vec![action.clone()] })
                    }
                }
            }
        }
        recorded
    }

    /// Returns all actions in order.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.steps.iter().flat_map(|step| &step.actions)
    }
}

/// Replays a recording to a fresh guest of a backend.
///
/// A turn always begins with a separate call, however the inputs are batched: the host learns only
/// from the guest that the previous turn is over.
///
/// # Errors
/// [`GuestFailure`] if no guest can be opened. Later failures of the guest are part of the result.
pub async fn replay(
    backend: &dyn Backend,
    entries: &[RecordingEntry],
    batches: Batches,
) -> Result<ReplayResult, GuestFailure> {
    Replayer::open(backend, Keys::of(entries), batches).await?.play_all(entries).await
}

/// Like [`replay`] with one input per call, but before the entry with index `before` the state of
/// the guest is moved to a fresh one. Returns `None` if the guest cannot be moved.
///
/// # Errors
/// [`GuestFailure`] if no guest can be opened, or the state is refused.
pub async fn replay_moving(
    backend: &dyn Backend,
    entries: &[RecordingEntry],
    before: usize,
) -> Result<Option<ReplayResult>, GuestFailure> {
    let mut player = Replayer::open(backend, Keys::of(entries), Batches::Single).await?;
    let before = before.min(entries.len());
    player.play_range(entries, 0..before).await?;
    player.flush().await;
    if player.replayed.failure.is_none() {
        let Some(state) = player.guest.save().await? else { return Ok(None) };
        player.guest = backend.open().await?;
        player.guest.load(&state, &backend.descriptor().version).await?;
    }
    player.play_range(entries, before..entries.len()).await?;
    player.flush().await;
    Ok(Some(player.replayed))
}

/// A guest to which a recording is replayed, entry by entry.
struct Replayer<'a> {
    backend: &'a dyn Backend,
    guest: Box<dyn Guest>,
    keys: Keys,
    /// The keys of the entries replayed so far.
    played: Keys,
    batches: Batches,
    /// The number of inputs in the next call.
    batch_size: usize,
    pending: Vec<TimedInput>,
    /// The index of the last entry in `pending`.
    last: usize,
    replayed: ReplayResult,
}

impl<'a> Replayer<'a> {
    /// Opens a guest for a recording with these keys ([`Keys::of`]).
    ///
    /// # Errors
    /// [`GuestFailure`] if no guest can be opened.
    async fn open(
        backend: &'a dyn Backend,
        keys: Keys,
        mut batches: Batches,
    ) -> Result<Self, GuestFailure> {
        let guest = backend.open().await?;
        let most = batches.next();
        Ok(Self {
            backend,
            guest,
            keys,
            played: Keys::default(),
            batches,
            batch_size: most,
            pending: Vec::new(),
            last: 0,
            replayed: ReplayResult::default(),
        })
    }

    /// Replays the next entry, whose index is `at`. Entries without inputs count as well. Does
    /// nothing after a failure.
    ///
    /// # Errors
    /// [`GuestFailure`] if the link moved to a fresh guest at this entry and none can be opened.
    async fn play(&mut self, at: usize, entry: &RecordingEntry) -> Result<(), GuestFailure> {
        if self.replayed.failure.is_some() {
            return Ok(());
        }
        match &entry.kind {
            EntryKind::In(input) => {
                let begins = matches!(input, Input::Command(HostCommand::StartTurn(_)));
                // The next input may be about something that the guest has not requested yet.
                if self.pending.len() >= self.batch_size || begins || self.keys.is_undecided(input)
                {
                    self.flush().await;
                }
                match self.keys.translate(input) {
                    Some(input) => {
                        self.pending.push(TimedInput { at_ms: entry.t, input });
                        self.last = at;
                    }
                    None => self.replayed.withheld.push(at),
                }
            }
            EntryKind::Moved { state, saved_by, .. } => {
                self.flush().await;
                if self.replayed.failure.is_none() {
                    self.guest = self.backend.open().await?;
                    self.keys.take_over(&self.played);
                    if let Err(failure) = self.guest.load(state, saved_by).await {
                        self.replayed.failure = Some((at, failure));
                    }
                }
            }
            _ => {}
        }
        self.played.record(entry);
        Ok(())
    }

    async fn play_all(mut self, entries: &[RecordingEntry]) -> Result<ReplayResult, GuestFailure> {
        self.play_range(entries, 0..entries.len()).await?;
        self.flush().await;
        Ok(self.replayed)
    }

    async fn play_range(
        &mut self,
        entries: &[RecordingEntry],
        range: std::ops::Range<usize>,
    ) -> Result<(), GuestFailure> {
        for at in range {
            self.play(at, &entries[at]).await?;
        }
        Ok(())
    }

    /// Calls the guest with the pending inputs.
    async fn flush(&mut self) {
        if self.pending.is_empty() || self.replayed.failure.is_some() {
            return;
        }
        self.batch_size = self.batches.next();
        for waiting in &self.pending {
            if let Input::Command(HostCommand::StartTurn(start)) = &waiting.input {
                self.replayed.sessions.insert(start.session, start.turn);
            }
        }
        match self.guest.handle(std::mem::take(&mut self.pending)).await {
            Ok(actions) => {
                for action in &actions {
                    self.keys.record_used(action);
                    self.replayed.apply(action);
                }
                self.replayed.steps.push(ReplayStep { entry: self.last, actions });
            }
            Err(failure) => self.replayed.failure = Some((self.last, failure)),
        }
    }
}

impl ReplayResult {
    /// Returns the entry that caused an action (counted from 1).
    #[must_use]
    pub fn entry_of(&self, number: usize) -> Option<usize> {
        let mut before = 0;
        for step in &self.steps {
            before += step.actions.len();
            if before >= number {
                return Some(step.entry);
            }
        }
        self.failure.as_ref().map(|(at, _)| *at).or(self.steps.last().map(|step| step.entry))
    }

    fn apply(&mut self, action: &Action) {
        let turn = match action {
            Action::Event(event) => Some(event.turn),
            Action::TurnDone(done) => Some(done.turn),
            // The host drops the session if it has no open turn.
            Action::SessionReady(ready) => self.sessions.get(&ready.session).copied(),
            _ => None,
        };
        if let Some(turn) = turn {
            self.turns.entry(turn).or_default().apply(action);
        }
    }
}

#[cfg(test)]
mod tests;
