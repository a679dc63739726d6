//! Recorded turns that are replayed over links, as the gateway has them.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aetheel_model::agent::{AgentEventKind, Ask, StartTurn, TurnSettings};
use aetheel_model::event::Lane;
use aetheel_model::fold::Transcript;
use aetheel_model::id::ChannelId;
use aetheel_model::redact::Redactor;
use aetheel_process::{Custody, Means};
use aetheel_recording::{Ending, Recorder};
use aetheel_turn::{
    Answerer, Audience, Host, Launcher, Links, NewsKind, TurnNews, TurnRequest, run,
};
use aetheel_wasm::ComponentBackend;
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};

use crate::agent::{Agents, Pauses};
use crate::backends::{Measured, load_cached};
use crate::host::host;
use crate::script::Script;

/// A backend and a turn of its agent.
pub struct Talk {
    pub backend: Arc<ComponentBackend>,
    pub script: Arc<Script>,
    start: StartTurn,
}

/// A pool of links without any history.
pub struct Pool {
    links: Links,
    spoke: Arc<Mutex<Option<Instant>>>,
    ended: Arc<Mutex<Option<Instant>>>,
    _folder: TempDir,
}

/// The times of a turn.
pub struct Turn {
    /// The whole turn, from its start to its end.
    pub took: Duration,
    /// From the start until people would see the first text, and the last.
    pub to_first_text: Duration,
    pub to_last_text: Duration,
    /// From the agent's last output to the end of the turn, if the agent is in this process.
    pub end: Option<Duration>,
    /// From the agent's first text to the audience, if the agent is in this process.
    pub first_text: Option<Duration>,
    /// The agent's id of the session.
    pub native: Option<String>,
}

impl Talk {
    /// Loads both, and caches the compiled component in a folder.
    pub async fn load(measured: &Measured, cache: &Path) -> Self {
        let backend = load_cached(measured.name, Some(cache)).await;
        let (script, mut start) = Script::load(measured, &backend).await;
        // A launch profile of the operator, whose arguments only a descriptor made from it would
        // allow.
        start.settings.options = start.settings.options.replace(r#","arguments":["acp"]"#, "");
        Self { backend, script, start }
    }

    /// Creates links to agents in this process, which pause before and after their first text.
    pub fn within(&self, pause: Duration) -> Pool {
        let spoke: Arc<Mutex<Option<Instant>>> = Arc::default();
        let ended: Arc<Mutex<Option<Instant>>> = Arc::default();
        let agents = self.agents(
            Pauses { before: pause, after: pause },
            Arc::clone(&spoke),
            Arc::clone(&ended),
        );
        Pool {
            spoke,
            ended,
            ..Pool::new(tempfile::tempdir().unwrap(), Arc::new(agents), Vec::new())
        }
    }

    /// Creates agents in this process, which record when their first and last text was sent.
    pub fn agents(
        &self,
        pauses: Pauses,
        spoke: Arc<Mutex<Option<Instant>>>,
        ended: Arc<Mutex<Option<Instant>>>,
    ) -> Agents {
        Agents { script: Arc::clone(&self.script), pauses, spoke, ended }
    }

    /// Returns the settings with which the turn was recorded.
    pub fn settings(&self) -> &TurnSettings {
        &self.start.settings
    }

    /// Creates links to agents that are processes.
    pub fn processes(&self) -> Pool {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, serde_json::to_vec(&*self.script).unwrap()).unwrap();
        let program = std::env::current_exe().unwrap();
        let wrapper = [program.to_str().unwrap(), "replay-agent", script.to_str().unwrap()]
            .map(str::to_owned);
        Pool::new(folder, Arc::new(Custody::new(Means::Best).unwrap()), wrapper.into())
    }

    /// Runs the turn as the first one of a lane.
    pub async fn cold(&self, pool: &Pool, lane: u64) -> Turn {
        self.turn(pool, lane, StartTurn { native_id: None, ..self.start.clone() }).await
    }

    /// Runs the same turn as the next one of the lane.
    pub async fn warm(&self, pool: &Pool, lane: u64, cold: &Turn) -> Turn {
        self.turn(pool, lane, StartTurn { native_id: cold.native.clone(), ..self.start.clone() })
            .await
    }

    async fn turn(&self, pool: &Pool, lane: u64, start: StartTurn) -> Turn {
        let (_stop, stop) = watch::channel(None);
        let request = TurnRequest {
            id: format!("bench{lane}"),
            event: 1,
            lane: Lane::Channel(ChannelId::discord(lane)),
            backend: Arc::clone(&self.backend) as _,
            start: StartTurn { cwd: pool.links.host().cwd.to_str().unwrap().to_owned(), ..start },
            blobs: vec![],
            stop,
            steers: mpsc::unbounded_channel().1,
            continued: None,
        };
        let mut watcher = Watcher::default();
        let begun = Instant::now();
        let result = run(request, &pool.links, &mut watcher).await;
        let over = Instant::now();
        assert_eq!(result.ending, Ending::Completed, "{:?}", result.transcript);
        let (shown, last) = watcher.shown.zip(watcher.last).expect("the agent says something");
        let spoke = pool.spoke.lock().unwrap().take();
        let ended = pool.ended.lock().unwrap().take();
        Turn {
            took: over - begun,
            to_first_text: shown - begun,
            to_last_text: last - begun,
            // Output after the end of the turn does not count.
            end: ended.map(|ended| over.saturating_duration_since(ended)),
            first_text: spoke.map(|spoke| shown - spoke),
            native: result.session.map(|session| session.native_id),
        }
    }
}

impl Pool {
    fn new(folder: TempDir, launcher: Arc<dyn Launcher>, wrapper: Vec<String>) -> Self {
        let mut host = Host { wrapper, ..host(folder.path()) };
        host.limits.links_warm = 1000;
        let recorder = Recorder::new(
            folder.path().join("recordings"),
            aetheel_recording::RecordingLimits::UNLIMITED,
            Redactor::default(),
        );
        let links = Links::new(
            Arc::new(host),
            launcher,
            recorder,
            mpsc::unbounded_channel().0,
            Arc::new(|_| {}),
        );
        Self { links, spoke: Arc::default(), ended: Arc::default(), _folder: folder }
    }

    /// Returns the number of open links.
    pub fn count(&self) -> usize {
        self.links.count()
    }

    /// Stops all agents.
    pub async fn close(self) {
        self.links.close().await;
    }
}

/// Records when people would see the first text.
#[derive(Default)]
struct Watcher {
    shown: Option<Instant>,
    last: Option<Instant>,
}

impl Audience for Watcher {
    fn on(&mut self, news: &TurnNews, _: &Transcript) {
        if matches!(news.kind, NewsKind::Event(AgentEventKind::Text(_))) {
            let now = Instant::now();
            self.shown.get_or_insert(now);
            self.last = Some(now);
        }
    }

    fn ask(&mut self, ask: &Ask, _: u32, _: Answerer) {
        panic!("the recording has no question: {ask:?}");
    }
}
