use async_trait::async_trait;

use super::*;
use crate::{Generation, GuestFailure};
use aetheel_model::agent::{
    AgentEvent, AgentEventKind, AgentLine, Descriptor, Pipe, TextEvent, TimedInput,
};

/// A backend whose guests number the lines of their agent and repeat them as text.
struct Counting {
    descriptor: Descriptor,
    generation: Generation,
    /// Whether guests load the state of a checkpoint.
    loads: bool,
}

impl Counting {
    fn new(loads: bool) -> Self {
        let json =
            r#"{"name":"lines","version":"1","sharing":"session","programs":[{"name":"x"}]}"#;
        let generation = Generation { number: 1, digest: "0".repeat(64) };
        Self { descriptor: Descriptor::parse(json).unwrap(), generation, loads }
    }
}

#[async_trait]
impl Backend for Counting {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn generation(&self) -> &Generation {
        &self.generation
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        Ok(Box::new(CountingGuest { lines: 0, loads: self.loads }))
    }
}

struct CountingGuest {
    lines: u32,
    loads: bool,
}

#[async_trait]
impl Guest for CountingGuest {
    async fn handle(&mut self, inputs: Vec<TimedInput>) -> Result<Vec<Action>, GuestFailure> {
        let mut actions = Vec::new();
        for timed in inputs {
            if let Input::Line(line) = timed.input {
                self.lines += 1;
                actions.push(text(&format!("{} {}", self.lines, line.text)));
            }
        }
        Ok(actions)
    }

    async fn save(&mut self) -> Result<Option<String>, GuestFailure> {
        Ok(Some(self.lines.to_string()))
    }

    async fn load(&mut self, state: &str, _: &str) -> Result<(), GuestFailure> {
        if !self.loads {
            return Err(GuestFailure::Refused("another format".to_owned()));
        }
        self.lines = state.parse().unwrap();
        Ok(())
    }
}

fn text(text: &str) -> Action {
    let text = TextEvent { part: 0, text: text.to_owned(), replace: false, parent: None };
    Action::Event(AgentEvent { session: 1, turn: 1, kind: AgentEventKind::Text(text) })
}

fn entry(kind: EntryKind) -> RecordingEntry {
    RecordingEntry { t: 1.0, kind }
}

fn line(number: u32) -> [RecordingEntry; 2] {
    let input = AgentLine { proc: 1, pipe: Pipe::Stdout, text: "x".to_owned(), truncated: false };
    [entry(EntryKind::In(Input::Line(input))), entry(EntryKind::Out(text(&format!("{number} x"))))]
}

fn checkpoint(lines: u32) -> RecordingEntry {
    let checkpoint = Checkpoint::with_state(lines.to_string());
    entry(EntryKind::Checkpoint(Box::new(checkpoint.sealed())))
}

/// Four lines with a checkpoint after the first and the third.
fn entries() -> Vec<RecordingEntry> {
    let mut entries = line(1).to_vec();
    entries.push(checkpoint(1));
    entries.extend(line(2).into_iter().chain(line(3)));
    entries.push(checkpoint(3));
    entries.extend(line(4));
    entries
}

async fn crashes(backend: &Counting, entries: &[RecordingEntry]) -> Vec<SimulatedCrash> {
    let mut crashes = Vec::new();
    for at in crash_points(entries, None) {
        crashes.push(simulate_crash(backend, entries, at).await);
    }
    crashes
}

#[tokio::test]
async fn a_guest_is_rebuilt_from_the_newest_checkpoint_at_every_point() {
    let found = crashes(&Counting::new(true), &entries()).await;
    let failures: Vec<_> = found.iter().filter_map(|crash| crash.failure.as_ref()).collect();
    assert!(failures.is_empty(), "{failures:?}");
    let from: Vec<_> = found.iter().map(|crash| (crash.checkpoint, crash.replayed)).collect();
    let (first, second) = (Some(2), Some(7));
    assert_eq!(
        from,
        [
            (None, 1),
            (None, 1),
            (first, 1),
            (first, 1),
            (first, 2),
            (first, 2),
            (second, 1),
            (second, 1)
        ]
    );
}

#[tokio::test]
async fn a_link_that_moved_is_rebuilt_only_from_a_checkpoint_after_the_move() {
    let moved = EntryKind::Moved {
        generation: 2,
        digest: String::new(),
        saved_by: "1".to_owned(),
        state: "1".to_owned(),
    };
    let mut entries = entries();
    entries.insert(2, entry(moved));
    let found = crashes(&Counting::new(true), &entries).await;
    assert!(found.iter().all(|crash| crash.failure.is_none()), "{found:?}");
    entries.remove(3);
    let found = crashes(&Counting::new(true), &entries).await;
    let failed: Vec<usize> =
        found.iter().filter(|crash| crash.failure.is_some()).map(|crash| crash.at).collect();
    // Before the move, and after the second checkpoint, it can be rebuilt.
    assert_eq!(failed, [4, 5, 6, 7]);
}

#[tokio::test]
async fn a_refused_state_or_a_wrong_digest_leads_to_the_whole_recording() {
    let found = crashes(&Counting::new(false), &entries()).await;
    assert!(found.iter().all(|crash| crash.failure.is_none() && crash.checkpoint.is_none()));
    let mut changed = entries();
    if let EntryKind::Checkpoint(checkpoint) = &mut changed[7].kind {
        checkpoint.guest.state = "77".to_owned();
    }
    let found = crashes(&Counting::new(true), &changed).await;
    let last = found.last().unwrap();
    assert_eq!((last.checkpoint, last.failure.is_none()), (Some(2), true));
}

#[tokio::test]
async fn a_guest_that_continues_differently_is_reported() {
    let mut changed = entries();
    changed[4] = entry(EntryKind::Out(text("2 y")));
    let found = crashes(&Counting::new(true), &changed).await;
    let differ = |crash: &SimulatedCrash| matches!(crash.failure, Some(RebuildError::Differs));
    let failed: Vec<usize> =
        found.iter().filter(|crash| differ(crash)).map(|crash| crash.at).collect();
    assert_eq!(failed, [1, 2, 4, 5, 6, 7], "after the second checkpoint, the line is not replayed");
}

#[test]
fn points_are_at_equal_distances_and_before_the_exit() {
    let mut entries = entries();
    assert_eq!(crash_points(&entries, None), [1, 2, 4, 5, 6, 7, 9, 10]);
    assert_eq!(crash_points(&entries, Some(3)), [1, 5, 10]);
    assert_eq!(crash_points(&entries, Some(1)), [10]);
    entries.insert(5, entry(EntryKind::In(Input::Command(HostCommand::Shutdown))));
    assert_eq!(crash_points(&entries, None), [1, 2, 4, 5]);
}
