//! Tests of long-lived links: kept open, shared, reopened, moved and ended. Whatever happens on
//! them, every turn has one end.

mod asking;
mod http;
mod living;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aetheel_model::agent::{Ask, AskDecision, AskKey, Safety, StartTurn};
use aetheel_model::event::Lane;
use aetheel_model::fold::Transcript;
use aetheel_model::id::ChannelId;
use aetheel_model::redact::Redactor;
use aetheel_recording::{Recorder, RecordingLimits};
use aetheel_turn::{
    Answerer, AskCloseReason, Audience, Backends as _, Host, Launcher, Links, NewsKind, Steering,
    StopReason, TurnNews, TurnRequest, TurnResult, UnsolicitedTurn, run,
};
use tokio::sync::{mpsc, watch};

use crate::support::lasting::{LastingBackend, Replaceable};
use crate::support::scripted::{Agent, ScriptedLauncher, host};

/// Links of one backend.
struct Bench {
    links: Links,
    backends: Arc<Replaceable>,
    launcher: Arc<ScriptedLauncher>,
    /// Sessions that agents opened, as `native session`.
    opened: Arc<Mutex<Vec<String>>>,
    /// Output of agents outside of turns.
    said: mpsc::UnboundedReceiver<UnsolicitedTurn>,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new<F: Future<Output = ()> + Send + 'static>(
        sharing: &str,
        change: impl FnOnce(&mut Host),
        behaviour: impl Fn(Agent, Arc<Mutex<Vec<String>>>) -> F + Send + Sync + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut host = host(folder.path());
        change(&mut host);
        let opened: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = Arc::clone(&opened);
        let launcher = ScriptedLauncher::new(move |agent| behaviour(agent, Arc::clone(&told)));
        let recorder = Recorder::new(
            folder.path().join("recordings"),
            RecordingLimits::UNLIMITED,
            Redactor::default(),
        );
        let (unasked, said) = mpsc::unbounded_channel();
        let links = Links::new(
            Arc::new(host),
            launcher.clone() as Arc<dyn Launcher>,
            recorder,
            unasked,
            Arc::new(|_| {}),
        );
        Self {
            links,
            backends: Replaceable::new(LastingBackend::new(sharing, 1)),
            launcher,
            opened,
            said,
            _folder: folder,
        }
    }

    /// Begins a turn.
    fn begin(&self, channel: u64, native: Option<&str>, prompt: &str) -> Turn {
        let (stop, stopped) = watch::channel(None);
        let (steer, steers) = mpsc::unbounded_channel();
        let (told, seen) = mpsc::unbounded_channel();
        let start = StartTurn {
            native_id: native.map(str::to_owned),
            ..StartTurn::plain(prompt, Safety::Edit)
        };
        let request = TurnRequest {
            id: format!("{prompt}-{channel}"),
            event: 1,
            lane: Lane::Channel(ChannelId::discord(channel)),
            backend: self.backends.get("lasting").unwrap(),
            start,
            blobs: vec![],
            stop: stopped,
            steers,
            continued: None,
        };
        let links = self.links.clone();
        let running = tokio::spawn(async move { run(request, &links, &mut Follower(told)).await });
        Turn { running, stop, steer, seen }
    }

    async fn turn(&self, channel: u64, native: Option<&str>, prompt: &str) -> TurnResult {
        self.begin(channel, native, prompt).end().await
    }

    fn launches(&self) -> usize {
        self.launcher.launches.lock().unwrap().len()
    }

    fn opened(&self) -> Vec<String> {
        self.opened.lock().unwrap().clone()
    }
}

/// A running turn.
struct Turn {
    running: tokio::task::JoinHandle<TurnResult>,
    stop: watch::Sender<Option<StopReason>>,
    steer: mpsc::UnboundedSender<Steering>,
    seen: mpsc::UnboundedReceiver<Seen>,
}

impl Turn {
    async fn end(self) -> TurnResult {
        let ended = tokio::time::timeout(LIMIT, self.running).await;
        let mut result = ended.expect("the turn ends").unwrap();
        // The answer counts as saved at once.
        drop(std::mem::take(&mut result.slot));
        result
    }

    async fn sees(&mut self) -> Seen {
        tokio::time::timeout(LIMIT, self.seen.recv())
            .await
            .expect("something happens")
            .expect("the turn continues")
    }
}

/// A call that an audience received.
#[derive(Debug)]
enum Seen {
    Event,
    Ask(Box<Ask>, Answerer),
    Settled(AskKey, AskCloseReason),
}

struct Follower(mpsc::UnboundedSender<Seen>);

impl Audience for Follower {
    fn on(&mut self, news: &TurnNews, _: &Transcript) {
        match &news.kind {
            NewsKind::Event(_) => drop(self.0.send(Seen::Event)),
            NewsKind::Settled(ask, how) => drop(self.0.send(Seen::Settled(*ask, *how))),
            _ => {}
        }
    }

    fn ask(&mut self, ask: &Ask, _: u32, answer: Answerer) {
        let _ = self.0.send(Seen::Ask(Box::new(ask.clone()), answer));
    }
}

/// Returns the agent's id of a turn's session.
fn native(result: &TurnResult) -> &str {
    &result.session.as_ref().expect("it reported its session").native_id
}

/// Waits for a condition.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + LIMIT;
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

const LIMIT: Duration = Duration::from_secs(30);
const ALLOW: AskDecision = AskDecision::AllowOnce;
