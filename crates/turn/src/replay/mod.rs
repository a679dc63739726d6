//! Recordings played once more to a guest: to test a backend, to compare two, and to read what an
//! older parser could not.
//!
//! A guest has no clock and no I/O, so what was recorded is all it needs. Another parser
//! may use other keys for its processes, requests and timers; they are matched in the order in
//! which they were first used. What it would have done otherwise (another command line, another
//! request) cannot be known: it gets the inputs of the one that was recorded, but for those
//! about something it never asked for, which are withheld, as no host could send them. Pinned by the
//! tests below and, over every recording of every backend, by `tests/kit`.

mod endings;
mod keys;
mod lost;

use std::collections::BTreeMap;

pub use self::endings::endings;
pub use self::keys::Keys;
pub use self::lost::lost_text;
use super::recording::{Entry, Header, What, read_numbered};
use super::{Backend, Guest, GuestFailure};
use aetheel_model::agent::{
    Action, Command, Input, SessionKey, SessionReady, TimedInput, TurnDone, TurnKey,
};
use aetheel_model::fold::Transcript;

/// A recording, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Tape {
    /// Its first line, which says whose recording it is.
    pub header: Header,
    /// Everything after the header.
    pub entries: Vec<Entry>,
    /// The line of the file each entry stands in, from 1.
    pub lines: Vec<usize>,
}

impl Tape {
    /// Reads a recording.
    ///
    /// # Errors
    /// Names the line that is not a recording's.
    pub fn read(text: &str) -> Result<Self, String> {
        let (header, entries) = read_numbered(text)?;
        let (lines, entries) = entries.into_iter().unzip();
        Ok(Self { header, entries, lines })
    }

    /// Why it ends before its link did, where it does.
    #[must_use]
    pub fn cut(&self) -> Option<&str> {
        self.entries.iter().find_map(|entry| {
            if let What::Cut(why) = &entry.what { Some(why.as_str()) } else { None }
        })
    }

    /// The key under which the guest knew a turn, by its correlation id.
    #[must_use]
    pub fn key_of(&self, id: &str) -> Option<TurnKey> {
        self.entries.iter().find_map(|entry| match &entry.what {
            What::Turn { turn, key, .. } if turn == id => Some(*key),
            _ => None,
        })
    }
}

/// How many inputs a guest gets in a call. However they are cut, the actions are the same; that is
/// what is tested with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batches {
    /// One a call: every action is known to come from its line.
    Single,
    /// So many a call.
    Of(usize),
    /// 1 to 16 a call, different ones for every seed.
    Seeded(u64),
    /// All inputs in one call.
    Whole,
}

impl Batches {
    /// How many the next call gets.
    fn next(&mut self) -> usize {
        match self {
            Self::Single => 1,
            Self::Of(most) => (*most).max(1),
            Self::Whole => usize::MAX,
            Self::Seeded(seed) => {
                // Knuth's MMIX generator; its upper bits are the good ones.
                *seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                1 + (*seed >> 60) as usize
            }
        }
    }
}

/// A guest's actions upon a stretch of the recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Index of its last input among the entries.
    pub entry: usize,
    /// Everything it wanted done.
    pub actions: Vec<Action>,
}

/// A turn as a guest reported it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayedTurn {
    /// Its agent-events.
    pub transcript: Transcript,
    /// The agent's session.
    pub session: Option<SessionReady>,
    /// How it ended; none: the guest did not end it.
    pub done: Option<TurnDone>,
}

impl ReplayedTurn {
    /// The answer.
    #[must_use]
    pub fn text(&self) -> String {
        self.done
            .as_ref()
            .and_then(|done| done.text.clone())
            .unwrap_or_else(|| self.transcript.text())
    }
}

/// Everything a guest made of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replayed {
    /// In order, those without actions too.
    pub steps: Vec<Step>,
    /// Every turn it reported anything of.
    pub turns: BTreeMap<TurnKey, ReplayedTurn>,
    /// Where it failed (index among the entries), and how. It got nothing after that.
    pub failure: Option<(usize, GuestFailure)>,
    /// Inputs (indexes among the entries) about things it never asked for. It did not get
    /// them.
    pub withheld: Vec<usize>,
    /// The last turn of each session.
    sessions: BTreeMap<SessionKey, TurnKey>,
}

impl Replayed {
    /// Everything it wanted done, in order.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.steps.iter().flat_map(|step| &step.actions)
    }
}

/// Plays a recording to a fresh guest of a backend.
///
/// However the inputs are batched, a turn begins with a call of its own: the host knows that the
/// one before is over only from the guest.
///
/// # Errors
/// When no guest can be opened; how a guest fails later is part of what it made of the recording.
pub async fn replay(
    backend: &dyn Backend,
    entries: &[Entry],
    batches: Batches,
) -> Result<Replayed, GuestFailure> {
    Player::open(backend, Keys::of(entries), batches).await?.play_all(entries).await
}

/// Like [`replay`] with one input a call, but before the entry with this index the guest hands its
/// state to a fresh one. None: it cannot move.
///
/// # Errors
/// When no guest can be opened, or the state is refused.
pub async fn replay_moving(
    backend: &dyn Backend,
    entries: &[Entry],
    before: usize,
) -> Result<Option<Replayed>, GuestFailure> {
    let mut player = Player::open(backend, Keys::of(entries), Batches::Single).await?;
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

/// A guest to which a recording is played, entry by entry.
pub struct Player<'a> {
    backend: &'a dyn Backend,
    guest: Box<dyn Guest>,
    keys: Keys,
    /// Those of the entries that were played.
    played: Keys,
    batches: Batches,
    /// How many the coming call gets.
    most: usize,
    waiting: Vec<TimedInput>,
    /// The entry of the last one that waits.
    last: usize,
    replayed: Replayed,
}

impl<'a> Player<'a> {
    /// Opens a guest for a recording whose guests used these keys ([`Keys::of`]).
    ///
    /// # Errors
    /// When no guest can be opened.
    pub async fn open(
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
            most,
            waiting: Vec::new(),
            last: 0,
            replayed: Replayed::default(),
        })
    }

    /// Plays the next entry, the one with this number; entries without inputs count as well. After
    /// a failure nothing happens any more.
    ///
    /// # Errors
    /// When the link went over to a fresh guest there, and none can be opened.
    pub async fn play(&mut self, at: usize, entry: &Entry) -> Result<(), GuestFailure> {
        if self.replayed.failure.is_some() {
            return Ok(());
        }
        match &entry.what {
            What::In(input) => {
                let begins = matches!(input, Input::Command(Command::StartTurn(_)));
                // What comes next may name what the guest is yet to ask for: it has to ask first.
                if self.waiting.len() >= self.most || begins || self.keys.is_open(input) {
                    self.flush().await;
                }
                match self.keys.translate(input) {
                    Some(input) => {
                        self.waiting.push(TimedInput { at_ms: entry.t, input });
                        self.last = at;
                    }
                    None => self.replayed.withheld.push(at),
                }
            }
            What::Moved { state, saved_by, .. } => {
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

    /// The steps made since they were taken last, and how the guest failed, once it did.
    pub fn take_steps(&mut self) -> (Vec<Step>, Option<&GuestFailure>) {
        let failure = self.replayed.failure.as_ref().map(|(_, failure)| failure);
        (std::mem::take(&mut self.replayed.steps), failure)
    }

    /// Whether this entry was the last input that was withheld.
    #[must_use]
    pub fn withheld(&self, at: usize) -> bool {
        self.replayed.withheld.last() == Some(&at)
    }

    async fn play_all(mut self, entries: &[Entry]) -> Result<Replayed, GuestFailure> {
        self.play_range(entries, 0..entries.len()).await?;
        self.flush().await;
        Ok(self.replayed)
    }

    async fn play_range(
        &mut self,
        entries: &[Entry],
        range: std::ops::Range<usize>,
    ) -> Result<(), GuestFailure> {
        for at in range {
            self.play(at, &entries[at]).await?;
        }
        Ok(())
    }

    /// Makes the call for what waits.
    pub async fn flush(&mut self) {
        if self.waiting.is_empty() || self.replayed.failure.is_some() {
            return;
        }
        self.most = self.batches.next();
        for waiting in &self.waiting {
            if let Input::Command(Command::StartTurn(start)) = &waiting.input {
                self.replayed.sessions.insert(start.session, start.turn);
            }
        }
        match self.guest.handle(std::mem::take(&mut self.waiting)).await {
            Ok(actions) => {
                for action in &actions {
                    self.keys.note(action);
                    self.replayed.take(action);
                }
                self.replayed.steps.push(Step { entry: self.last, actions });
            }
            Err(failure) => self.replayed.failure = Some((self.last, failure)),
        }
    }
}

impl Replayed {
    fn take(&mut self, action: &Action) {
        match action {
            Action::Event(event) => {
                let turn = self.turns.entry(event.turn).or_default();
                // After its end the host drops it.
                if turn.done.is_none() {
                    turn.transcript.apply(&event.kind);
                }
            }
            Action::TurnDone(done) => {
                self.turns.entry(done.turn).or_default().done.get_or_insert_with(|| done.clone());
            }
            Action::SessionReady(ready) => {
                // Without an open turn the host drops it.
                if let Some(turn) = self.sessions.get(&ready.session) {
                    let turn = self.turns.entry(*turn).or_default();
                    if turn.done.is_none() {
                        turn.session = Some(ready.clone());
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
