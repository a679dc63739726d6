//! The sandbox against hostile guests, and admission against everything that is not a backend.

mod admission;
mod contract;
mod frozen;
mod hostile;
mod wasi;

use std::path::Path;
use std::time::{Duration, Instant};

use aetheel::agent::{Action, Command, EventKind, Input, Safety, StartTurn, TimedInput};
use aetheel::backend::{Engine, LoadReport, Registry, RegistryOptions};
use aetheel::config::Limits;
use aetheel::turn::{Guest, GuestFailure};

/// Limits small enough for tests that run into them.
pub fn limits() -> Limits {
    Limits { guest_call: Duration::from_millis(300), guest_memory: 16 << 20, ..Limits::default() }
}

/// A registry over a folder holding these files, with times short enough for tests.
pub async fn registry(folder: &Path, limits: &Limits, files: &[(&str, &[u8])]) -> (Registry, Vec<LoadReport>) {
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    let options = RegistryOptions { directory: folder.to_owned(), quiet: Duration::from_millis(20), rescan: Duration::from_secs(3600) };
    Registry::start(Engine::new(limits, None).unwrap(), options).await
}

pub fn timed(input: Input) -> TimedInput {
    TimedInput { at_ms: 1.0, input }
}

/// A first prompt in this session and turn.
pub fn prompt(session: u32, turn: u32) -> Vec<TimedInput> {
    vec![timed(Input::Command(Command::StartTurn(StartTurn { session, turn, ..StartTurn::plain("hello", Safety::Default) })))]
}

/// The answer of a guest of `support::guests` to `timer` and `start-turn`: its version.
pub fn version_told(actions: &[Action]) -> &str {
    match actions.first() {
        Some(Action::Event(event)) => match &event.kind {
            EventKind::Text(text) => &text.text,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Lets the guest do its worst, and returns how it failed and after how long.
pub async fn provoke(guest: &mut dyn Guest) -> (GuestFailure, Duration) {
    let begun = Instant::now();
    let failure = guest.handle(vec![timed(Input::Timer(1))]).await.expect_err("it did not fail");
    (failure, begun.elapsed())
}
