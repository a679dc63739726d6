//! Maps the keys of a recorded guest to those of a guest that replays the recording, by the order
//! of their first use. Pure.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use crate::{EntryKind, RecordingEntry};
use aetheel_model::agent::{Action, HostCommand, Input};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KeyKind {
    Process,
    Request,
    Stream,
    Timer,
    Ask,
    Call,
}

/// Keys in the order of their first use.
#[derive(Clone, Debug, Default)]
struct KeyOrder {
    keys: Vec<u32>,
    places: HashMap<u32, usize>,
}

impl KeyOrder {
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
    recorded: BTreeMap<KeyKind, KeyOrder>,
    used: BTreeMap<KeyKind, KeyOrder>,
    /// Whether the recording contains the guest's actions. A recording made by hand does not.
    complete: bool,
}

/// The replaying guest's key for a recorded key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyMatch {
    /// The key is certain, whatever the guest requests later.
    Certain(u32),
    /// The key follows from the guest's requests so far.
    Likely(u32),
    /// The guest has not requested this thing.
    Unknown,
}

impl Keys {
    /// Collects the keys of a whole recording.
    #[must_use]
    pub fn of<'e>(entries: impl IntoIterator<Item = &'e RecordingEntry>) -> Self {
        let mut keys = Self::default();
        entries.into_iter().for_each(|entry| keys.record(entry));
        keys
    }

    /// Adds the keys in the next entry of the recording.
    pub fn record(&mut self, entry: &RecordingEntry) {
        let found = match &entry.kind {
            EntryKind::Out(action) => {
                self.complete = true;
                key_in_action(action)
            }
            // A recording made by hand has no actions, and other recordings may have lost some. An
            // input about a thing means that the guest requested it.
            EntryKind::In(input) => key_in_input(input),
            _ => None,
        };
        if let Some((thing, key)) = found {
            self.recorded.entry(thing).or_default().add(key);
        }
    }

    /// Adds the key in an action of the replaying guest.
    pub fn record_used(&mut self, action: &Action) {
        if let Some((thing, key)) = key_in_action(action) {
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
    pub fn is_undecided(&self, input: &Input) -> bool {
        key_in_input(input)
            .is_some_and(|(thing, key)| !matches!(self.owner(thing, key), KeyMatch::Certain(_)))
    }

    /// Returns the input with the replaying guest's keys, or `None` if the input is about something
    /// that this guest never requested.
    pub fn translate(&self, input: &Input) -> Option<Input> {
        let mut input = input.clone();
        if let Some((thing, key)) = key_in_input(&input) {
            match self.owner(thing, key) {
                KeyMatch::Certain(key) | KeyMatch::Likely(key) => set_key(&mut input, key),
                KeyMatch::Unknown => return None,
            }
        }
        Some(input)
    }

    fn owner(&self, thing: KeyKind, key: u32) -> KeyMatch {
        let used = self.used.get(&thing);
        // Every process appears in inputs, in the order of the starts. Some other things never
        // appear, such as cancelled timers. In a recording made by hand the keys are those of the
        // guest.
        let counted = self.complete || thing == KeyKind::Process;
        if !counted && used.is_some_and(|used| used.places.contains_key(&key)) {
            return KeyMatch::Certain(key);
        }
        let at = self.recorded.get(&thing).and_then(|known| known.places.get(&key));
        match at.and_then(|at| used?.keys.get(*at)) {
            Some(key) if counted => KeyMatch::Certain(*key),
            Some(key) => KeyMatch::Likely(*key),
            None => KeyMatch::Unknown,
        }
    }
}

fn key_in_action(action: &Action) -> Option<(KeyKind, u32)> {
    Some(match action {
        Action::Spawn(spawn) => (KeyKind::Process, spawn.proc),
        Action::Http(request) => (KeyKind::Request, request.request),
        Action::OpenStream(open) => (KeyKind::Stream, open.stream),
        Action::SetTimer(timer) => (KeyKind::Timer, timer.timer),
        Action::Ask(ask) => (KeyKind::Ask, ask.ask),
        Action::ToolRequest(request) => (KeyKind::Call, request.call),
        _ => return None,
    })
}

/// Returns the guest's key that an input contains.
fn key_in_input(input: &Input) -> Option<(KeyKind, u32)> {
    Some(match input {
        Input::Spawned(it) => (KeyKind::Process, it.proc),
        Input::SpawnFailed(it) => (KeyKind::Process, it.proc),
        Input::Line(it) => (KeyKind::Process, it.proc),
        Input::Exited(it) => (KeyKind::Process, it.proc),
        Input::HttpResponse(it) => (KeyKind::Request, it.request),
        Input::HttpFailed(it) => (KeyKind::Request, it.request),
        Input::StreamOpened(it) => (KeyKind::Stream, it.stream),
        Input::StreamEvent(it) => (KeyKind::Stream, it.stream),
        Input::StreamClosed(it) => (KeyKind::Stream, it.stream),
        Input::Timer(timer) => (KeyKind::Timer, *timer),
        Input::ToolResult(it) => (KeyKind::Call, it.call),
        Input::Command(HostCommand::Answer(answer)) => (KeyKind::Ask, answer.ask),
        Input::Command(_) => return None,
    })
}

/// Replaces the key that [`key_in_input`] found.
fn set_key(input: &mut Input, to: u32) {
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
        Input::ToolResult(it) => it.call = to,
        Input::Command(HostCommand::Answer(answer)) => answer.ask = to,
        Input::Command(_) => {}
    }
}
