//! The shipped backends, and two wrappers around one: a component that reports nothing unknown, and
//! one that knows a changed format.

use std::collections::HashMap;
use std::sync::Arc;

use aetheel_model::agent::{Action, AgentEventKind, Descriptor, Input, TimedInput};
use aetheel_model::limits::ResourceLimits;
use aetheel_recording::{Backend, EntryKind, Generation, Guest, GuestFailure, RecordingEntry};
use aetheel_turn::Backends as _;
use aetheel_wasm::{Engine, Registry, RegistryOptions};
use async_trait::async_trait;

use crate::support::built;

/// Returns a shipped backend, as a component.
pub async fn shipped(name: &str) -> Arc<dyn Backend> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{name}.wasm"));
    std::fs::write(file, built(&format!("{name}.wasm"))).unwrap();
    let engine = Engine::new(&ResourceLimits::default(), None, aetheel_settings::NAMES).unwrap();
    let (registry, reports) = Registry::start(engine, RegistryOptions::new(folder.path())).await;
    registry.get(name).unwrap_or_else(|| panic!("{reports:?}"))
}

/// A backend that does not report unknown output.
pub struct Mute(pub Arc<dyn Backend>);

/// A backend that understands a changed recording as `backend` understands the original.
pub struct Knowing {
    backend: Arc<dyn Backend>,
    /// Maps a changed text to the original. The first half of a split line maps to `None`, both
    /// halves together to the line: different lines may have the same second half.
    original: Arc<HashMap<String, Option<String>>>,
}

impl Knowing {
    pub fn new(
        backend: Arc<dyn Backend>,
        original: &[RecordingEntry],
        changed: &[RecordingEntry],
    ) -> Self {
        let mut known = HashMap::new();
        let mut changed = changed.iter().filter_map(said);
        for original in original.iter().filter_map(said) {
            let Some(text) = changed.next() else { break };
            let is_half = text.len() < original.len() && original.starts_with(text);
            if text == original {
                continue;
            }
            let mut whole = text.to_owned();
            if is_half {
                known.insert(whole.clone(), None);
                whole.push_str(changed.next().unwrap());
            }
            known.insert(whole, Some(original.to_owned()));
        }
        Self { backend, original: Arc::new(known) }
    }
}

fn said(entry: &RecordingEntry) -> Option<&str> {
    match &entry.kind {
        EntryKind::In(Input::Line(line)) => Some(&line.text),
        EntryKind::In(Input::HttpResponse(response)) => Some(&response.body),
        EntryKind::In(Input::StreamEvent(event)) => Some(&event.data),
        _ => None,
    }
}

#[async_trait]
impl Backend for Mute {
    fn descriptor(&self) -> &Descriptor {
        self.0.descriptor()
    }

    fn generation(&self) -> &Generation {
        self.0.generation()
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        Ok(Box::new(Wrapped { guest: self.0.open().await?, original: None, half: String::new() }))
    }
}

#[async_trait]
impl Backend for Knowing {
    fn descriptor(&self) -> &Descriptor {
        self.backend.descriptor()
    }

    fn generation(&self) -> &Generation {
        self.backend.generation()
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        let original = Some(self.original.clone());
        Ok(Box::new(Wrapped { guest: self.backend.open().await?, original, half: String::new() }))
    }
}

/// The guest of either.
struct Wrapped {
    guest: Box<dyn Guest>,
    original: Option<Arc<HashMap<String, Option<String>>>>,
    /// The first half of a split line whose second half has not arrived.
    half: String,
}

impl Wrapped {
    /// Replaces a changed text by the original. Returns `None` for the first half of a line.
    fn read(&mut self, mut timed: TimedInput) -> Option<TimedInput> {
        let Some(known) = &self.original else { return Some(timed) };
        let text = match &mut timed.input {
            Input::Line(line) => &mut line.text,
            Input::HttpResponse(response) => &mut response.body,
            Input::StreamEvent(event) => &mut event.data,
            _ => return Some(timed),
        };
        if let Some(Some(line)) = known.get(&format!("{}{text}", self.half)) {
            self.half.clear();
            text.clone_from(line);
        } else if let Some(None) = known.get(text) {
            self.half = std::mem::take(text);
            return None;
        }
        Some(timed)
    }
}

#[async_trait]
impl Guest for Wrapped {
    async fn handle(&mut self, inputs: Vec<TimedInput>) -> Result<Vec<Action>, GuestFailure> {
        let inputs: Vec<_> = inputs.into_iter().filter_map(|input| self.read(input)).collect();
        let mut actions = self.guest.handle(inputs).await?;
        if self.original.is_none() {
            actions.retain(|action| match action {
                Action::Event(event) => !matches!(event.kind, AgentEventKind::Unrecognised(_)),
                Action::Diagnostic(_) => false,
                _ => true,
            });
        }
        Ok(actions)
    }

    async fn save(&mut self) -> Result<Option<String>, GuestFailure> {
        self.guest.save().await
    }

    async fn load(&mut self, state: &str, saved_by: &str) -> Result<(), GuestFailure> {
        self.guest.load(state, saved_by).await
    }
}
