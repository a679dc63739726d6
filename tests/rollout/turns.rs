//! Tests which turns are compared, and what follows from the results.

use std::num::NonZeroU32;
use std::sync::Arc;

use aetheel_dispatch::MAX_WAITING_COMPARISONS;
use aetheel_model::agent::Descriptor;
use aetheel_model::rollout::Rollout;
use aetheel_recording::{Backend, Generation, Guest, GuestFailure};
use async_trait::async_trait;
use tempfile::TempDir;
use tokio::sync::watch;

use super::scene::{Scene, version};
use crate::support::scripted::ScriptedBackend;

const SHADOW: Rollout = Rollout::Shadow(NonZeroU32::new(3).unwrap());

/// A backend whose guests open only once `may` is set.
struct Slow {
    inner: Arc<ScriptedBackend>,
    opening: watch::Sender<bool>,
    may: watch::Receiver<bool>,
}

#[async_trait]
impl Backend for Slow {
    fn descriptor(&self) -> &Descriptor {
        self.inner.descriptor()
    }

    fn generation(&self) -> &Generation {
        self.inner.generation()
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        self.opening.send_replace(true);
        let _ = self.may.clone().wait_for(|may| *may).await;
        self.inner.open().await
    }
}

#[tokio::test]
async fn a_version_that_reads_the_same_is_promoted_after_the_chosen_number_of_turns() {
    let folder = TempDir::new().unwrap();
    let mut scene = Scene::new(folder.path(), SHADOW, version(false, 1, "b")).await;
    for turn in 1..=2 {
        assert_eq!(scene.answer("text Hello;done").await, "Hello");
        assert_eq!(Scene::counts(folder.path(), turn).await, (turn, 0));
    }
    assert_eq!(scene.promoted(), Vec::<String>::new());
    // The turns before a restart count.
    scene.end().await;
    let mut scene = Scene::new(folder.path(), SHADOW, version(false, 1, "b")).await;
    scene.answer("text Hello;done").await;
    let told = scene.notice(1).await.text;
    assert!(told.contains("of **scripted** serves now: it read 3 turns"), "{told}");
    assert_eq!(scene.promoted(), ["b".repeat(64)]);
}

#[tokio::test]
async fn a_version_that_loses_an_answer_is_stopped_and_is_not_compared_again() {
    let folder = TempDir::new().unwrap();
    let mut scene = Scene::new(folder.path(), SHADOW, version(true, 1, "b")).await;
    scene.answer("text Hello;done").await;
    assert_eq!(scene.answer("text secret;done").await, "secret", "people see the serving version");
    let told = scene.notice(1).await.text;
    for part in ["(`bbbbbbbbbbbb`) of **scripted** does not serve", "answer is missing: secret"] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    let status = scene.dispatcher.backends.list().await;
    assert!(status[0].notes[0].contains("stopped after 2 turns"), "{:?}", status[0].notes);
    scene.end().await;

    let written = std::fs::read_to_string(folder.path().join("config/state/rollouts.md")).unwrap();
    assert!(written.contains("stopped: 2 compared, 0 skipped, 1 different, 0 served"), "{written}");
    let mut scene = Scene::new(folder.path(), SHADOW, version(true, 1, "b")).await;
    for _ in 0..4 {
        scene.answer("text Hello;done").await;
    }
    assert_eq!(scene.promoted(), Vec::<String>::new());
    // Another version begins anew.
    *scene.backends.successor.lock().unwrap() = Some(version(false, 1, "c"));
    for _ in 0..3 {
        scene.answer("text secret;done").await;
    }
    assert!(scene.notice(1).await.text.contains("serves now"));
    assert_eq!(scene.promoted(), ["c".repeat(64)]);
}

#[tokio::test]
async fn turns_beyond_the_backlog_are_skipped_and_counted() {
    let folder = TempDir::new().unwrap();
    let (go, may) = watch::channel(false);
    let opening = watch::Sender::new(false);
    let mut opened = opening.subscribe();
    let slow = Slow { inner: version(false, 1, "b"), opening, may };
    let mut scene = Scene::new(folder.path(), SHADOW, Arc::new(slow)).await;
    scene.answer("text Hello;done").await;
    opened.wait_for(|opening| *opening).await.unwrap();
    let more = MAX_WAITING_COMPARISONS + 3;
    for _ in 0..more {
        assert_eq!(scene.answer("text Hello;done").await, "Hello", "turns do not wait");
    }
    go.send(true).unwrap();
    let (compared, skipped) = Scene::counts(folder.path(), 4).await;
    assert!(skipped >= 3 && compared >= 1, "{compared} compared, {skipped} skipped");
    assert!(scene.notice(1).await.text.contains("serves now"));
}
