//! Recordings told once more to a guest: to test a backend, to compare two, and to read what an older parser could not.
//!
//! A guest has no clock and no I/O, so what was recorded is all there is to tell it. Another parser may use other keys for
//! its processes, requests and timers; they are matched in the order in which they were first used. What it would have done
//! otherwise (another command line, another request) cannot be known: it gets what was said to the one that was recorded.
//! Pinned by the tests below and, over every recording of every backend, by `tests/guests.rs`.

use std::collections::BTreeMap;

use super::recording::{Entry, Header, What, read_numbered};
use super::{Backend, Guest, GuestFailure};
use crate::agent::{Action, Command, Input, SessionKey, SessionReady, TimedInput, TurnDone, TurnKey};
use crate::fold::Transcript;

/// A recording, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Tape {
    /// What it says of itself.
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

    /// The key under which the guest knew a turn, by its correlation id.
    #[must_use]
    pub fn key_of(&self, id: &str) -> Option<TurnKey> {
        self.entries.iter().find_map(|entry| match &entry.what {
            What::Turn { turn, key, .. } if turn == id => Some(*key),
            _ => None,
        })
    }
}

/// How many inputs a guest gets in a call. However they are cut, the actions are the same; that is what is tested with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batches {
    /// One a call: every action is known to come from its line.
    Single,
    /// So many a call.
    Of(usize),
    /// All at once.
    Whole,
}

/// What a guest made of a stretch of the recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Index of its last input among the entries.
    pub entry: usize,
    /// Everything it wanted done.
    pub actions: Vec<Action>,
}

/// A turn as a guest told it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// Its agent-events.
    pub transcript: Transcript,
    /// The agent's session.
    pub session: Option<SessionReady>,
    /// How it ended; none: the guest did not end it.
    pub done: Option<TurnDone>,
}

impl Told {
    /// The answer.
    #[must_use]
    pub fn text(&self) -> String {
        self.done.as_ref().and_then(|done| done.text.clone()).unwrap_or_else(|| self.transcript.text())
    }
}

/// What a guest made of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replayed {
    /// In order, those without actions too.
    pub steps: Vec<Step>,
    /// Every turn it said anything about.
    pub turns: BTreeMap<TurnKey, Told>,
    /// Where it failed (index among the entries), and how. Nothing after that was told to it.
    pub failure: Option<(usize, GuestFailure)>,
    /// The last turn of each session.
    sessions: BTreeMap<SessionKey, TurnKey>,
}

impl Replayed {
    /// Everything it wanted done, in order.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.steps.iter().flat_map(|step| &step.actions)
    }
}

/// Tells a fresh guest of a backend what was recorded.
///
/// # Errors
/// When no guest can be opened; how a guest fails later is part of what it made of the recording.
pub async fn replay(backend: &dyn Backend, entries: &[Entry], batches: Batches) -> Result<Replayed, GuestFailure> {
    let mut guest = backend.open().await?;
    let mut keys = Keys::of(entries);
    let mut replayed = Replayed::default();
    let most = match batches {
        Batches::Single => 1,
        Batches::Of(most) => most.max(1),
        Batches::Whole => usize::MAX,
    };
    let mut waiting = Vec::new();
    let mut last = 0;
    for (at, entry) in entries.iter().enumerate() {
        match &entry.what {
            What::In(input) => {
                // What comes next may name what the guest is yet to ask for: it has to ask first.
                if waiting.len() >= most || (!waiting.is_empty() && keys.is_unknown(input)) {
                    tell(&mut *guest, &mut waiting, last, &mut keys, &mut replayed).await;
                }
                waiting.push(TimedInput { at_ms: entry.t, input: keys.translate(input) });
                last = at;
            }
            What::Moved { state, saved_by, .. } => {
                tell(&mut *guest, &mut waiting, last, &mut keys, &mut replayed).await;
                if replayed.failure.is_none() {
                    guest = backend.open().await?;
                    if let Err(failure) = guest.load(state, saved_by).await {
                        replayed.failure = Some((at, failure));
                    }
                }
            }
            _ => {}
        }
        if replayed.failure.is_some() {
            return Ok(replayed);
        }
    }
    tell(&mut *guest, &mut waiting, last, &mut keys, &mut replayed).await;
    Ok(replayed)
}

async fn tell(guest: &mut dyn Guest, waiting: &mut Vec<TimedInput>, at: usize, keys: &mut Keys, replayed: &mut Replayed) {
    if waiting.is_empty() {
        return;
    }
    for told in &*waiting {
        if let Input::Command(Command::StartTurn(start)) = &told.input {
            replayed.sessions.insert(start.session, start.turn);
        }
    }
    match guest.handle(std::mem::take(waiting)).await {
        Ok(actions) => {
            for action in &actions {
                keys.note(action);
                replayed.take(action);
            }
            replayed.steps.push(Step { entry: at, actions });
        }
        Err(failure) => replayed.failure = Some((at, failure)),
    }
}

impl Replayed {
    fn take(&mut self, action: &Action) {
        match action {
            Action::Event(event) => self.turns.entry(event.turn).or_default().transcript.apply(&event.kind),
            Action::TurnDone(done) => {
                self.turns.entry(done.turn).or_default().done.get_or_insert_with(|| done.clone());
            }
            Action::SessionReady(ready) => {
                if let Some(turn) = self.sessions.get(&ready.session) {
                    self.turns.entry(*turn).or_default().session = Some(ready.clone());
                }
            }
            _ => {}
        }
    }
}

/// What a guest picks keys for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Process,
    Request,
    Stream,
    Timer,
    Ask,
}

/// Which keys the recorded guest used, and which this one does, each in the order of first use.
struct Keys {
    recorded: BTreeMap<Thing, Vec<u32>>,
    used: BTreeMap<Thing, Vec<u32>>,
}

impl Keys {
    fn of(entries: &[Entry]) -> Self {
        let mut keys = Self { recorded: BTreeMap::new(), used: BTreeMap::new() };
        for entry in entries {
            let found = match &entry.what {
                What::Out(action) => picked(action),
                // A recording made by hand has no actions; what is told about must have been asked for.
                What::In(input) => named(input),
                _ => None,
            };
            if let Some((thing, key)) = found {
                add(&mut keys.recorded, thing, key);
            }
        }
        keys
    }

    fn note(&mut self, action: &Action) {
        if let Some((thing, key)) = picked(action) {
            add(&mut self.used, thing, key);
        }
    }

    /// This guest's key for what the recorded guest called so.
    fn theirs(&self, thing: Thing, key: u32) -> Option<u32> {
        let at = self.recorded.get(&thing)?.iter().position(|known| *known == key)?;
        self.used.get(&thing)?.get(at).copied()
    }

    fn is_unknown(&self, input: &Input) -> bool {
        named(input).is_some_and(|(thing, key)| self.theirs(thing, key).is_none())
    }

    fn translate(&self, input: &Input) -> Input {
        let mut input = input.clone();
        if let Some(key) = named(&input).and_then(|(thing, key)| self.theirs(thing, key)) {
            rename(&mut input, key);
        }
        input
    }
}

fn add(keys: &mut BTreeMap<Thing, Vec<u32>>, thing: Thing, key: u32) {
    let known = keys.entry(thing).or_default();
    if !known.contains(&key) {
        known.push(key);
    }
}

/// The key an action picks.
fn picked(action: &Action) -> Option<(Thing, u32)> {
    Some(match action {
        Action::Spawn(spawn) => (Thing::Process, spawn.proc),
        Action::Http(request) => (Thing::Request, request.request),
        Action::OpenStream(open) => (Thing::Stream, open.stream),
        Action::SetTimer(timer) => (Thing::Timer, timer.timer),
        Action::Ask(ask) => (Thing::Ask, ask.ask),
        _ => return None,
    })
}

/// The key an input names that a guest picked.
fn named(input: &Input) -> Option<(Thing, u32)> {
    Some(match input {
        Input::Spawned(it) => (Thing::Process, it.proc),
        Input::SpawnFailed(it) => (Thing::Process, it.proc),
        Input::Line(it) => (Thing::Process, it.proc),
        Input::Exited(it) => (Thing::Process, it.proc),
        Input::HttpResponse(it) => (Thing::Request, it.request),
        Input::HttpFailed(it) => (Thing::Request, it.request),
        Input::StreamOpened(it) => (Thing::Stream, it.stream),
        Input::StreamEvent(it) => (Thing::Stream, it.stream),
        Input::StreamClosed(it) => (Thing::Stream, it.stream),
        Input::Timer(timer) => (Thing::Timer, *timer),
        Input::Command(Command::Answer(answer)) => (Thing::Ask, answer.ask),
        Input::Command(_) => return None,
    })
}

/// Puts this guest's key in place of the one [`named`] found.
fn rename(input: &mut Input, to: u32) {
    match input {
        Input::Spawned(it) => it.proc = to,
        Input::SpawnFailed(it) => it.proc = to,
        Input::Line(it) => it.proc = to,
        Input::Exited(it) => it.proc = to,
        Input::HttpResponse(it) => it.request = to,
        Input::HttpFailed(it) => it.request = to,
        Input::StreamOpened(it) => it.stream = to,
        Input::StreamEvent(it) => it.stream = to,
        Input::StreamClosed(it) => it.stream = to,
        Input::Timer(timer) => *timer = to,
        Input::Command(Command::Answer(answer)) => answer.ask = to,
        Input::Command(_) => {}
    }
}
