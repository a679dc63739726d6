//! Tests which turns are compared, and what follows from the results.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use aetheel::agent::{Descriptor, Exit, HostCommand, Input, TurnOutcome};
use aetheel::config::{BusyPolicy, Rollout};
use aetheel::dispatch::{Dispatcher, MAX_WAITING_COMPARISONS};
use aetheel::event::Lane;
use aetheel::id::ChannelId;
use aetheel::queue::QueueLimits;
use aetheel::turn::{Backend, Generation, Guest, GuestFailure};
use async_trait::async_trait;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::support::scripted::{
    Agent, Collected, Replaceable, ScriptedBackend, ScriptedLauncher, Understanding, done, event,
    message, parts, spawn, text_event,
};

const SEVEN: Lane = Lane::Channel(ChannelId::discord(7));
const SHADOW: Rollout = Rollout::Shadow(NonZeroU32::new(3).unwrap());

/// Understands `text X` and `done`. If it is `deaf`, it does not know the text `secret`.
fn reader(deaf: bool) -> Understanding {
    Arc::new(move |_, input| {
        Ok(match input {
            Input::Command(HostCommand::StartTurn(start)) => vec![spawn(start, &[])],
            Input::Line(line) => match line.text.split_once(' ').unwrap_or((&line.text, "")) {
                ("text", "secret") if deaf => vec![],
                ("text", text) => vec![event(text_event(text))],
                ("done", _) => vec![done(TurnOutcome::Completed)],
                _ => vec![],
            },
            _ => vec![],
        })
    })
}

fn version(deaf: bool, number: u32, digest: &str) -> Arc<ScriptedBackend> {
    ScriptedBackend::new(reader(deaf)).of_generation(number, digest)
}

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

/// A dispatcher whose agent prints the parts of the prompt between `;` as lines.
struct Scene {
    dispatcher: Dispatcher,
    collected: Arc<Collected>,
    backends: Arc<Replaceable>,
    asked: usize,
}

impl Scene {
    async fn new(folder: &Path, successor: Arc<dyn Backend>) -> Self {
        let launcher = ScriptedLauncher::new(|agent: Agent| async move {
            for line in agent.prompt.split(';') {
                agent.say(&[line]).await;
            }
            agent.exit(Exit::Code(0), "").await;
        });
        let backends = Arc::new(Replaceable::default());
        backends.load(version(false, 1, "a"));
        *backends.successor.lock().unwrap() = Some(successor);
        let collected = Arc::new(Collected::default());
        let limits =
            QueueLimits { max_concurrent: 5, max_depth: 100, busy_policy: BusyPolicy::Queue };
        let mut parts =
            parts(folder, "scripted", backends.clone(), launcher, &collected, limits).await;
        parts.rollout = SHADOW;
        Self { dispatcher: Dispatcher::new(parts), collected, backends, asked: 0 }
    }

    async fn answer(&mut self, prompt: &str) -> String {
        self.dispatcher.intake.submit(message(7, prompt)).unwrap();
        self.asked += 1;
        let answer = self.collected.answers(self.asked).await.pop().unwrap().1;
        self.dispatcher.turns.lane_idle(&SEVEN).await;
        answer.text
    }

    async fn notice(&self, count: usize) -> String {
        self.collected.notices(count).await.pop().unwrap().text
    }

    fn promoted(&self) -> Vec<String> {
        self.backends.promoted.borrow().clone()
    }

    /// Waits until this many turns were compared or skipped, and returns both numbers.
    async fn counts(folder: &Path, count: u64) -> (u64, u64) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            let notes = aetheel::workspace::RolloutNotes::read_folder(&folder.join("config"));
            let note = notes.unwrap().pop();
            let counts = note.map_or((0, 0), |note| (note.compared, note.skipped));
            if counts.0 + counts.1 >= count {
                return counts;
            }
            assert!(std::time::Instant::now() < deadline, "waited in vain for {count}: {counts:?}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_version_that_reads_the_same_is_promoted_after_the_chosen_number_of_turns() {
    let folder = TempDir::new().unwrap();
    let mut scene = Scene::new(folder.path(), version(false, 1, "b")).await;
    for turn in 1..=2 {
        assert_eq!(scene.answer("text Hello;done").await, "Hello");
        assert_eq!(Scene::counts(folder.path(), turn).await, (turn, 0));
    }
    assert_eq!(scene.promoted(), Vec::<String>::new());
    // The turns before a restart count.
    scene.dispatcher.shutdown(std::time::Duration::from_secs(30)).await;
    let mut scene = Scene::new(folder.path(), version(false, 1, "b")).await;
    scene.answer("text Hello;done").await;
    let told = scene.notice(1).await;
    assert!(told.contains("of **scripted** serves now: it read 3 turns"), "{told}");
    assert_eq!(scene.promoted(), ["b".repeat(64)]);
}

#[tokio::test]
async fn a_version_that_loses_an_answer_is_stopped_and_is_not_compared_again() {
    let folder = TempDir::new().unwrap();
    let mut scene = Scene::new(folder.path(), version(true, 1, "b")).await;
    scene.answer("text Hello;done").await;
    assert_eq!(scene.answer("text secret;done").await, "secret", "people see the serving version");
    let told = scene.notice(1).await;
    for part in ["(`bbbbbbbbbbbb`) of **scripted** does not serve", "answer is missing: secret"] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    let status = scene.dispatcher.backends.list().await;
    assert!(status[0].notes[0].contains("stopped after 2 turns"), "{:?}", status[0].notes);
    scene.dispatcher.shutdown(std::time::Duration::from_secs(30)).await;

    let written = std::fs::read_to_string(folder.path().join("config/state/rollouts.md")).unwrap();
    assert!(written.contains("stopped: 2 compared, 0 skipped, 1 different"), "{written}");
    let mut scene = Scene::new(folder.path(), version(true, 1, "b")).await;
    for _ in 0..4 {
        scene.answer("text Hello;done").await;
    }
    assert_eq!(scene.promoted(), Vec::<String>::new());
    // Another version begins anew.
    *scene.backends.successor.lock().unwrap() = Some(version(false, 1, "c"));
    for _ in 0..3 {
        scene.answer("text secret;done").await;
    }
    assert!(scene.notice(1).await.contains("serves now"));
    assert_eq!(scene.promoted(), ["c".repeat(64)]);
}

#[tokio::test]
async fn turns_beyond_the_backlog_are_skipped_and_counted() {
    let folder = TempDir::new().unwrap();
    let (go, may) = watch::channel(false);
    let opening = watch::Sender::new(false);
    let mut opened = opening.subscribe();
    let slow = Slow { inner: version(false, 1, "b"), opening, may };
    let mut scene = Scene::new(folder.path(), Arc::new(slow)).await;
    scene.answer("text Hello;done").await;
    opened.wait_for(|opening| *opening).await.unwrap();
    let more = MAX_WAITING_COMPARISONS + 3;
    for _ in 0..more {
        assert_eq!(scene.answer("text Hello;done").await, "Hello", "turns do not wait");
    }
    go.send(true).unwrap();
    let (compared, skipped) = Scene::counts(folder.path(), 4).await;
    assert!(skipped >= 3 && compared >= 1, "{compared} compared, {skipped} skipped");
    assert!(scene.notice(1).await.contains("serves now"));
}
