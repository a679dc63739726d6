//! Tests of observer components: their lines, their replacement, and hostile ones.

use std::time::Duration;

use aetheel_model::agent::Usage;
use aetheel_model::limits::ResourceLimits;
use aetheel_model::observed::{ObservedEvent, ObservedKind, ObservedTurn};
use aetheel_turn::TurnObservers as _;
use aetheel_wasm::{Engine, LoadedObserver, ObserverSet, TrustGate};

use super::policies::until;
use crate::support::observers::WatObserver;

pub fn ended(turn: &str) -> ObservedEvent {
    let (lane, backend) = ("channel:7".to_owned(), "demo".to_owned());
    let kind = ObservedKind::TurnEnded {
        ending: "completed",
        failure: None,
        took_ms: 1_500,
        tools: 0,
        model: Some("m".into()),
        usage: Some(Usage { input: 3, output: 4, ..Usage::default() }),
    };
    let turn = ObservedTurn { turn: turn.to_owned(), lane, backend };
    ObservedEvent { turn, at_ms: 1_764_000_000_000, kind }
}

fn engine() -> Engine {
    let limits = ResourceLimits {
        guest_memory: 16 << 20,
        guest_call: Duration::from_millis(300),
        ..ResourceLimits::default()
    };
    Engine::new(&limits, None, aetheel_settings::NAMES).unwrap()
}

struct ObserverFolder(tempfile::TempDir);

impl ObserverFolder {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(folder.0.path().join("observers")).unwrap();
        files.iter().for_each(|(name, bytes)| folder.put(name, bytes));
        folder
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let observers = self.0.path().join("observers");
        std::fs::write(observers.join(".fresh"), bytes).unwrap();
        std::fs::rename(observers.join(".fresh"), observers.join(name)).unwrap();
    }

    async fn start(&self) -> ObserverSet {
        let output = self.0.path().join("state/observers");
        let started = ObserverSet::start(engine(), self.0.path(), output, TrustGate::open());
        let (set, refused) = started.await;
        assert!(refused.is_empty(), "{refused:?}");
        set
    }

    fn lines(&self, name: &str) -> String {
        let path = self.0.path().join("state/observers").join(name).join("lines.jsonl");
        std::fs::read_to_string(path).unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_become_lines_and_the_last_lines_come_at_the_end() {
    let folder = ObserverFolder::new(&[("a.wasm", &WatObserver::new("test", "1").build())]);
    let set = folder.start().await;
    for turn in ["1", "2", "3"] {
        set.notify(&ended(turn));
    }
    until("they are written", || folder.lines("test") == "1\n2\n3\n").await;
    folder.put("a.wasm", &WatObserver::new("test", "2").build());
    until("it is replaced", || set.list()[0].descriptor.version == "2").await;
    until("the old one ended", || folder.lines("test") == "1\n2\n3\nfinished\n").await;
    set.notify(&ended("4"));
    set.close().await;
    assert_eq!(folder.lines("test"), "1\n2\n3\nfinished\n4\nfinished\n");
    assert!(set.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_observer_loses_its_events_and_disturbs_nobody() {
    for letter in ["t", "l", "e", "m", "g"] {
        let (good, evil) = (WatObserver::new("good", "1"), WatObserver::new("evil", "1"));
        let folder = ObserverFolder::new(&[("a.wasm", &evil.build()), ("b.wasm", &good.build())]);
        let set = folder.start().await;
        set.notify(&ended("0"));
        until("both work", || folder.lines("evil") == "0\n" && folder.lines("good") == "0\n").await;
        folder.put("b.wasm", &good.build());
        let harmful = ended(letter);
        for observer in set.list() {
            assert_eq!(observer.descriptor.version, "1");
        }
        set.notify(&harmful);
        until("the call failed", || evil_failures(&folder, &set)).await;
        set.close().await;
        let lines = folder.lines("evil");
        assert!(!lines.contains(letter) || lines.ends_with("finished\n"), "{letter}: {lines}");
    }
}

/// Sends another event and returns whether the observer wrote it, with a new instance.
fn evil_failures(folder: &ObserverFolder, set: &ObserverSet) -> bool {
    set.notify(&ended("9"));
    folder.lines("evil").contains('9')
}

#[tokio::test]
async fn a_slow_observer_never_holds_up_its_sender() {
    let folder = ObserverFolder::new(&[("a.wasm", &WatObserver::new("test", "1").build())]);
    let set = folder.start().await;
    // On this thread nothing else runs meanwhile, so the queue fills, and the rest is dropped.
    for _ in 0..10_000 {
        set.notify(&ended("x"));
    }
    set.close().await;
    let lines = folder.lines("test");
    assert_eq!(lines.matches("x\n").count(), 4_096);
}

async fn refusal(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.wasm");
    std::fs::write(&path, bytes).unwrap();
    let Err(error) = LoadedObserver::open(&engine(), &path).await else { panic!("admitted") };
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_not_admitted_as_an_observer() {
    let policy = crate::support::policies::WatPolicy::new("test", "1").build();
    assert!(refusal(&policy).await.contains("it is not an observer"));
}
