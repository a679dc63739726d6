//! Tests that prompts for a paused backend wait, in order, and are answered when a component works
//! again.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aetheel::startup::turn_parts;
use aetheel_dispatch::Dispatcher;
use aetheel_model::agent::{Descriptor, Exit};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::event::Lane;
use aetheel_model::id::{ChannelId, MessageId};
use aetheel_model::queue::QueueLimits;
use aetheel_recording::{Backend, Generation, Guest, GuestFailure};
use aetheel_turn::Backends;
use async_trait::async_trait;

use crate::support::scripted::{
    Agent, Collected, ScriptedBackend, ScriptedLauncher, message, parts, plain,
};

/// A backend that can be paused.
struct Pausable {
    inner: ScriptedBackend,
    paused: AtomicBool,
    /// How many more times no link can be opened although the backend is not reported as paused.
    shut: AtomicU32,
}

impl Pausable {
    fn new(number: u32, paused: bool) -> Arc<Self> {
        let inner = ScriptedBackend::new(plain()).of_generation(number, &number.to_string());
        let inner = Arc::into_inner(inner).unwrap();
        Arc::new(Self { inner, paused: paused.into(), shut: AtomicU32::new(0) })
    }
}

#[async_trait]
impl Backend for Pausable {
    fn descriptor(&self) -> &Descriptor {
        self.inner.descriptor()
    }

    fn generation(&self) -> &Generation {
        self.inner.generation()
    }

    fn paused(&self) -> Option<Duration> {
        self.paused.load(Ordering::SeqCst).then_some(Duration::from_secs(60))
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        let less = |shut: u32| shut.checked_sub(1);
        let shut = self.shut.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
        if shut || self.paused().is_some() {
            return Err(GuestFailure::Paused("it failed 5 times".to_owned()));
        }
        self.inner.open().await
    }
}

struct Only(Mutex<Arc<Pausable>>);

impl Backends for Only {
    fn get(&self, _: &str) -> Option<Arc<dyn Backend>> {
        Some(self.0.lock().unwrap().clone())
    }

    fn names(&self) -> Vec<String> {
        vec!["scripted".to_owned()]
    }
}

struct Place {
    dispatcher: Dispatcher,
    collected: Arc<Collected>,
    backends: Arc<Only>,
    launcher: Arc<ScriptedLauncher>,
    _folder: tempfile::TempDir,
}

impl Place {
    /// Starts a desk with one slot and a backend that answers with the prompt.
    async fn with(backend: Arc<Pausable>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let launcher = ScriptedLauncher::new(|agent: Agent| async move {
            let answer = format!("text {}", agent.prompt);
            agent.say(&[&answer, "done"]).await;
            agent.exit(Exit::Code(0), "").await;
        });
        let (backends, collected) =
            (Arc::new(Only(Mutex::new(backend))), Arc::new(Collected::default()));
        let limits =
            QueueLimits { max_concurrent: 1, max_depth: 10, busy_policy: BusyPolicy::Queue };
        let parts = parts(
            folder.path(),
            "scripted",
            backends.clone(),
            launcher.clone(),
            &collected,
            limits,
        )
        .await;
        let dispatcher = Dispatcher::new(parts, turn_parts());
        Self { dispatcher, collected, backends, launcher, _folder: folder }
    }

    fn ask(&self, channel: u64, prompt: &str) {
        self.dispatcher.intake.submit(message(channel, prompt)).unwrap();
    }

    /// Ends the pause of a backend, as a person does who loads it again.
    fn resume(&self, backend: &Pausable) {
        backend.paused.store(false, Ordering::SeqCst);
        self.dispatcher.waits.check_again();
    }

    async fn texts(&self, count: usize) -> Vec<String> {
        let answers = self.collected.answers(count).await;
        answers.into_iter().map(|(_, answer)| answer.failure.unwrap_or(answer.text)).collect()
    }
}

#[tokio::test]
async fn prompts_for_a_paused_backend_wait_in_order_and_are_answered_once() {
    let backend = Pausable::new(1, true);
    let place = Place::with(backend.clone()).await;
    for prompt in ["one", "two", "three"] {
        place.ask(7, prompt);
    }
    place.ask(8, "elsewhere");
    // One notice for the first prompt of each lane, though there is only one slot.
    let notices = place.collected.notices(2).await;
    let mut about: Vec<_> = notices.iter().map(|notice| (notice.channel, notice.about)).collect();
    about.sort_by_key(|(channel, _)| channel.map(|id| id.to_string()));
    assert_eq!(about, [7, 8].map(|id| (Some(ChannelId::discord(id)), Some(MessageId::discord(1)))));
    assert!(notices[0].text.contains("Your message waits"), "{}", notices[0].text);
    assert!(place.launcher.prompts().is_empty());

    place.resume(&backend);
    let mut texts = place.texts(4).await;
    texts.retain(|text| text != "elsewhere");
    assert_eq!(texts, ["one", "two", "three"]);
    assert_eq!(place.collected.notices(2).await.len(), 2);
}

#[tokio::test]
async fn another_component_answers_the_waiting_prompts() {
    let place = Place::with(Pausable::new(1, true)).await;
    place.ask(7, "hello");
    place.collected.notices(1).await;
    *place.backends.0.lock().unwrap() = Pausable::new(2, false);
    place.dispatcher.waits.check_again();
    assert_eq!(place.texts(1).await, ["hello"]);
}

#[tokio::test]
async fn a_turn_that_finds_its_backend_paused_waits_too() {
    let backend = Pausable::new(1, false);
    backend.shut.store(2, Ordering::SeqCst);
    let place = Place::with(backend).await;
    place.ask(7, "hello");
    assert_eq!(place.texts(1).await, ["hello"]);
    place.dispatcher.turns.idle().await;
    assert_eq!(place.texts(1).await.len(), 1);
}

#[tokio::test]
async fn prompts_that_wait_for_a_paused_backend_can_be_stopped() {
    let backend = Pausable::new(1, true);
    let place = Place::with(backend.clone()).await;
    place.ask(7, "hello");
    place.collected.notices(1).await;
    assert!(place.dispatcher.turns.stop(&Lane::Channel(ChannelId::discord(7))));
    assert_eq!(place.texts(1).await, ["Stopped before it began."]);

    // The lane must not stay paused.
    place.ask(7, "again");
    place.collected.notices(2).await;
    place.resume(&backend);
    assert_eq!(place.texts(2).await[1], "again");
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_a_paused_backend() {
    let place = Place::with(Pausable::new(1, true)).await;
    place.ask(7, "hello");
    place.collected.notices(1).await;
    // The grace is longer than any test may take.
    place.dispatcher.shutdown(Duration::from_secs(3_600)).await;
    assert_eq!(place.texts(1).await.len(), 1, "it is refused, as it cannot be saved");
}
