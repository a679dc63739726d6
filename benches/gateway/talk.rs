//! Recorded turns had anew, over links as the gateway has them.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aetheel::agent::{Ask, AskKey, EventKind, Settings, StartTurn};
use aetheel::backend::ComponentBackend;
use aetheel::event::Lane;
use aetheel::fold::Transcript;
use aetheel::process::{Custody, Means};
use aetheel::redact::Redactor;
use aetheel::turn::recording::{self, Recorder};
use aetheel::turn::{Answerer, Audience, Ending, Host, Launcher, Links, Settled, TurnRequest, run};
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

/// Links without any history.
pub struct Room {
    links: Links,
    spoke: Arc<Mutex<Option<Instant>>>,
    ended: Arc<Mutex<Option<Instant>>>,
    _folder: TempDir,
}

/// How long things took.
pub struct Turn {
    /// The whole turn, from its start to its end.
    pub took: Duration,
    /// Until people would see the first text, and the last.
    pub to_first_text: Duration,
    pub to_last_text: Duration,
    /// From the agent's last word to the end of the turn, where the agent is in this process.
    pub end: Option<Duration>,
    /// From the agent's first text to the audience, where the agent is in this process.
    pub first_text: Option<Duration>,
    /// The agent's id of the session.
    pub native: Option<String>,
}

impl Talk {
    /// Loads both; compiled components are kept in a folder.
    pub async fn load(measured: &Measured, cache: &Path) -> Self {
        let backend = load_cached(measured.name, Some(cache)).await;
        let (script, mut start) = Script::load(measured, &backend).await;
        // A launch profile of the operator's, whose words only the descriptor made from it would
        // allow.
        start.settings.options = start.settings.options.replace(r#","arguments":["acp"]"#, "");
        Self { backend, script, start }
    }

    /// Agents in this process, which pause before and after their first text.
    pub fn within(&self, pause: Duration) -> Room {
        let spoke: Arc<Mutex<Option<Instant>>> = Arc::default();
        let ended: Arc<Mutex<Option<Instant>>> = Arc::default();
        let agents = self.agents(
            Pauses { before: pause, after: pause },
            Arc::clone(&spoke),
            Arc::clone(&ended),
        );
        Room {
            spoke,
            ended,
            ..Room::new(tempfile::tempdir().unwrap(), Arc::new(agents), Vec::new())
        }
    }

    /// Agents in this process, which say when they spoke first and last.
    pub fn agents(
        &self,
        pauses: Pauses,
        spoke: Arc<Mutex<Option<Instant>>>,
        ended: Arc<Mutex<Option<Instant>>>,
    ) -> Agents {
        Agents { script: Arc::clone(&self.script), pauses, spoke, ended }
    }

    /// Returns the settings the turn was recorded with.
    pub fn settings(&self) -> &Settings {
        &self.start.settings
    }

    /// Agents that are processes.
    pub fn processes(&self) -> Room {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, serde_json::to_vec(&*self.script).unwrap()).unwrap();
        let program = std::env::current_exe().unwrap();
        let wrapper = [program.to_str().unwrap(), "replay-agent", script.to_str().unwrap()]
            .map(str::to_owned);
        Room::new(folder, Arc::new(Custody::new(Means::Best).unwrap()), wrapper.into())
    }

    /// The turn as the first of a lane.
    pub async fn cold(&self, room: &Room, lane: u64) -> Turn {
        self.turn(room, lane, StartTurn { native_id: None, ..self.start.clone() }).await
    }

    /// The same turn as the next one.
    pub async fn warm(&self, room: &Room, lane: u64, cold: &Turn) -> Turn {
        self.turn(room, lane, StartTurn { native_id: cold.native.clone(), ..self.start.clone() })
            .await
    }

    async fn turn(&self, room: &Room, lane: u64, start: StartTurn) -> Turn {
        let (_stop, stop) = watch::channel(None);
        let request = TurnRequest {
            id: format!("bench{lane}"),
            event: 1,
            lane: Lane::Channel(lane),
            backend: Arc::clone(&self.backend) as _,
            start: StartTurn { cwd: room.links.host().cwd.to_str().unwrap().to_owned(), ..start },
            blobs: vec![],
            stop,
            steers: mpsc::unbounded_channel().1,
            continued: None,
        };
        let mut watcher = Watcher::default();
        let begun = Instant::now();
        let result = run(request, &room.links, &mut watcher).await;
        let over = Instant::now();
        assert_eq!(result.ending, Ending::Completed, "{:?}", result.transcript);
        let (shown, last) = watcher.shown.zip(watcher.last).expect("the agent says something");
        let spoke = room.spoke.lock().unwrap().take();
        let ended = room.ended.lock().unwrap().take();
        Turn {
            took: over - begun,
            to_first_text: shown - begun,
            to_last_text: last - begun,
            // What it says after the end is of no account.
            end: ended.map(|ended| over.saturating_duration_since(ended)),
            first_text: spoke.map(|spoke| shown - spoke),
            native: result.session.map(|session| session.native_id),
        }
    }
}

impl Room {
    fn new(folder: TempDir, launcher: Arc<dyn Launcher>, wrapper: Vec<String>) -> Self {
        let host = Host { wrapper, links_warm: 1000, ..host(folder.path()) };
        let recorder = Recorder::new(
            folder.path().join("recordings"),
            recording::RecordingLimits::ENDLESS,
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

    /// The number of open links.
    pub fn count(&self) -> usize {
        self.links.count()
    }

    /// Lets all agents leave.
    pub async fn close(self) {
        self.links.close().await;
    }
}

/// Looks at the clock when people would see the first text.
#[derive(Default)]
struct Watcher {
    shown: Option<Instant>,
    last: Option<Instant>,
}

impl Audience for Watcher {
    fn event(&mut self, event: &EventKind, _: &Transcript) {
        if matches!(event, EventKind::Text(_)) {
            let now = Instant::now();
            self.shown.get_or_insert(now);
            self.last = Some(now);
        }
    }

    fn ask(&mut self, ask: &Ask, _: Answerer) {
        panic!("the recording has no question: {ask:?}");
    }

    fn settled(&mut self, _: AskKey, _: Settled) {}
}
