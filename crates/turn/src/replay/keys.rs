//! Maps the keys of a recorded guest to those of a guest that replays the recording, by the order
//! of their first use. Pure.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use super::super::recording::{self, What};
use aetheel_model::agent::{Action, Command, Input};

/// The things for which a guest chooses keys.
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

/// The keys of a recording and of the guest that replays it.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    recorded: BTreeMap<Thing, Order>,
    used: BTreeMap<Thing, Order>,
    /// Whether the recording contains the guest's actions. A recording made by hand does not.
    complete: bool,
}

/// The replaying guest's key for a recorded key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The key is certain, whatever the guest requests later.
    Certain(u32),
    /// The key follows from the guest's requests so far.
    Likely(u32),
    /// The guest has not requested this thing.
    Nobody,
}

impl Keys {
    /// Collects the keys of a whole recording.
    #[must_use]
    pub fn of<'e>(entries: impl IntoIterator<Item = &'e recording::Entry>) -> Self {
        let mut keys = Self::default();
        entries.into_iter().for_each(|entry| keys.record(entry));
        keys
    }

    /// Adds the keys in the next entry of the recording.
    pub fn record(&mut self, entry: &recording::Entry) {
        let found = match &entry.what {
            What::Out(action) => {
                self.complete = true;
                picked(action)
            }
            // A recording made by hand has no actions, and other recordings may have lost some. An
            // input about a thing means that the guest requested it.
            What::In(input) => named(input),
            _ => None,
        };
        if let Some((thing, key)) = found {
            self.recorded.entry(thing).or_default().add(key);
        }
    }

    /// Adds the key in an action of the replaying guest.
    pub fn note(&mut self, action: &Action) {
        if let Some((thing, key)) = picked(action) {
            self.used.entry(thing).or_default().add(key);
        }
    }

    /// Takes over the recorded keys, because the replaying guest has loaded the state of the
    /// recorded guest.
    pub(crate) fn take_over(&mut self, before: &Self) {
        self.used.clone_from(&before.recorded);
    }

    /// Returns whether the guest must process all earlier inputs before the key in this input is
    /// certain.
    pub fn is_open(&self, input: &Input) -> bool {
        named(input)
            .is_some_and(|(thing, key)| !matches!(self.owner(thing, key), Owner::Certain(_)))
    }

    /// Returns the input with the replaying guest's keys, or `None` if the input is about something
    /// that this guest never requested.
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
        // Every process appears in inputs, in the order of the starts. Some other things never
        // appear, such as cancelled timers. In a recording made by hand the keys are those of the
        // guest.
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

/// Returns the key that an action chooses.
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

/// Returns the guest's key that an input contains.
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

/// Replaces the key that [`named`] found.
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
