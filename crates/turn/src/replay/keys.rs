//! Which keys the recorded guest used, and which the one it is played to now, each in the order of
//! first use. Pure.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use super::super::recording::{self, What};
use aetheel_model::agent::{Action, Command, Input};

/// The things a guest picks keys for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Process,
    Request,
    Stream,
    Timer,
    Ask,
}

/// Keys in the order of their first use.
#[derive(Clone, Debug, Default)]
struct Order {
    keys: Vec<u32>,
    places: HashMap<u32, usize>,
}

impl Order {
    fn add(&mut self, key: u32) {
        if let Entry::Vacant(place) = self.places.entry(key) {
            place.insert(self.keys.len());
            self.keys.push(key);
        }
    }
}

/// The keys of a recording and of the guest it is played to.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    recorded: BTreeMap<Thing, Order>,
    used: BTreeMap<Thing, Order>,
    /// The recording says what its guest asked for. One made by hand does not.
    complete: bool,
}

/// Whose key something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// This guest's key, whatever it asks for later.
    Certain(u32),
    /// This guest's key by what it has asked for so far.
    Likely(u32),
    /// It has not asked for it.
    Nobody,
}

impl Keys {
    /// Those of a recording, all of it.
    #[must_use]
    pub fn of<'e>(entries: impl IntoIterator<Item = &'e recording::Entry>) -> Self {
        let mut keys = Self::default();
        entries.into_iter().for_each(|entry| keys.record(entry));
        keys
    }

    /// Takes note of the keys in the next entry of the recording.
    pub fn record(&mut self, entry: &recording::Entry) {
        let found = match &entry.what {
            What::Out(action) => {
                self.complete = true;
                picked(action)
            }
            // A recording made by hand has no actions, in others some may be lost: what is told
            // about was asked for.
            What::In(input) => named(input),
            _ => None,
        };
        if let Some((thing, key)) = found {
            self.recorded.entry(thing).or_default().add(key);
        }
    }

    /// Takes note of what the guest asks for.
    pub fn note(&mut self, action: &Action) {
        if let Some((thing, key)) = picked(action) {
            self.used.entry(thing).or_default().add(key);
        }
    }

    /// The guest now is one that was handed the state of the recorded one: it goes on with that
    /// one's keys.
    pub(crate) fn take_over(&mut self, before: &Self) {
        self.used.clone_from(&before.recorded);
    }

    /// Whether this guest's key may be another one once it has got everything before: it has to
    /// get that first.
    pub fn is_open(&self, input: &Input) -> bool {
        named(input)
            .is_some_and(|(thing, key)| !matches!(self.owner(thing, key), Owner::Certain(_)))
    }

    /// The input with this guest's keys; none: it is about something this guest never asked for.
    pub fn translate(&self, input: &Input) -> Option<Input> {
        let mut input = input.clone();
        if let Some((thing, key)) = named(&input) {
            match self.owner(thing, key) {
                Owner::Certain(key) | Owner::Likely(key) => rename(&mut input, key),
                Owner::Nobody => return None,
            }
        }
        Some(input)
    }

    fn owner(&self, thing: Thing, key: u32) -> Owner {
        let used = self.used.get(&thing);
        // Every process is told about, in the order of their starts; of the rest some may never be,
        // as timers that were cancelled, and who writes a recording by hand writes the keys that
        // are in use.
        let counted = self.complete || thing == Thing::Process;
        if !counted && used.is_some_and(|used| used.places.contains_key(&key)) {
            return Owner::Certain(key);
        }
        let at = self.recorded.get(&thing).and_then(|known| known.places.get(&key));
        match at.and_then(|at| used?.keys.get(*at)) {
            Some(key) if counted => Owner::Certain(*key),
            Some(key) => Owner::Likely(*key),
            None => Owner::Nobody,
        }
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
