//! Selects the link that serves a turn, keeps idle links for later turns, and closes them.
//!
//! `begin` begins a turn, and `slot` is its position on the link. `kept` has the links that are kept
//! for later turns. `query` asks questions outside turns. `revive` restores links that outlived the
//! gateway, and `renew` moves links to a newer generation. `tests/links/` tests this module.

mod begin;
mod continued;
mod finished_slot;
mod kept;
mod key;
mod query;
mod renew;
mod revive;
mod slot;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

pub(super) use self::begin::NewTurn;
pub use self::continued::{ContinuedTurn, ContinuedTurns};
pub use self::finished_slot::FinishedTurnSlot;
use self::kept::KeptLinks;
pub use self::query::QueryError;
use self::renew::OpenLinks;
pub(super) use self::slot::TurnSlot;
use super::link::{Link, LinkDeps, OnUnknown, UnsolicitedTurn};
use super::tools::ToolRates;
use super::{Host, Launcher, ToolEndpoints};
use aetheel_model::event::Lane;
use aetheel_recording::{Backend, FORMAT, Header, Recorder};

/// Maximum wait for a link to close before its session is opened on another one. Longer than all
/// steps of closing together.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens links and keeps long-lived ones. Cheap to clone.
#[derive(Clone)]
pub struct Links(Arc<LinksInner>);

struct LinksInner {
    host: Arc<Host>,
    launcher: Arc<dyn Launcher>,
    recorder: Recorder,
    unsolicited: mpsc::UnboundedSender<UnsolicitedTurn>,
    on_unknown: OnUnknown,
    kept: KeptLinks,
    open: OpenLinks,
    continued: ContinuedTurns,
    tool_endpoints: ToolEndpoints,
    tool_rates: ToolRates,
    tasks: TaskTracker,
    /// The next turn key. Keys are unique over all links.
    turns: AtomicU32,
}

impl Links {
    /// Creates a value without links. Turns that agents begin by themselves are sent to `unasked`,
    /// and `on_unknown` is called for output that backends do not know.
    #[must_use]
    pub fn new(
        host: Arc<Host>,
        launcher: Arc<dyn Launcher>,
        recorder: Recorder,
        unasked: mpsc::UnboundedSender<UnsolicitedTurn>,
        on_unknown: OnUnknown,
    ) -> Self {
        let turns = AtomicU32::new(1);
        let tool_endpoints = ToolEndpoints::default();
        tool_endpoints.set_restoring(launcher.holds());
        Self(Arc::new(LinksInner {
            host,
            launcher,
            recorder,
            unsolicited: unasked,
            on_unknown,
            kept: KeptLinks::default(),
            open: OpenLinks::default(),
            continued: ContinuedTurns::default(),
            tool_endpoints,
            tool_rates: ToolRates::default(),
            tasks: TaskTracker::new(),
            turns,
        }))
    }

    /// Returns the settings for running agents.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// Returns the turns that continue after a restart of the gateway.
    #[must_use]
    pub fn continued(&self) -> &ContinuedTurns {
        &self.0.continued
    }

    /// Returns the links whose agents call tools through the MCP server.
    #[must_use]
    pub fn tool_endpoints(&self) -> &ToolEndpoints {
        &self.0.tool_endpoints
    }

    /// Returns whether a backend has an open link on which a lane has a session.
    #[must_use]
    pub fn is_open(&self, backend: &str, lane: &Lane) -> bool {
        self.0.kept.has_session(backend, lane)
    }

    fn open(&self, id: &str, backend: &Arc<dyn Backend>, cwd: PathBuf) -> Link {
        let (descriptor, generation) = (backend.descriptor(), backend.generation());
        let header = Header {
            aetheel_recording: FORMAT,
            link: id.to_owned(),
            backend: descriptor.name.clone(),
            backend_version: descriptor.version.clone(),
            generation: generation.number,
            digest: generation.digest.clone(),
            agent_version: self.0.host.agent_version(&descriptor.name),
            started: jiff::Timestamp::now().to_string(),
        };
        let parts = self.parts(id, backend, cwd);
        let recording = if self.0.launcher.holds() {
            self.0.recorder.begin_ahead(&header)
        } else {
            self.0.recorder.begin(&header)
        };
        let (link, life) = Link::open(parts, recording);
        self.0.open.add(&descriptor.name, &link);
        self.0.tasks.spawn(life);
        link
    }

    fn parts(&self, id: &str, backend: &Arc<dyn Backend>, cwd: PathBuf) -> LinkDeps {
        LinkDeps {
            backend: Arc::clone(backend),
            host: Arc::clone(&self.0.host),
            launcher: Arc::clone(&self.0.launcher),
            unsolicited: self.0.unsolicited.clone(),
            on_unknown: Arc::clone(&self.0.on_unknown),
            cwd,
            id: id.to_owned(),
            tool_rates: self.0.tool_rates.clone(),
            tool_endpoints: self.0.tool_endpoints.clone(),
            tool_secret: super::link::new_secret(),
        }
    }

    /// Closes a lane's sessions, which will not be continued.
    pub fn forget(&self, lane: &Lane) {
        self.0.kept.forget(lane);
    }

    /// Closes all sessions of the lanes for which `lanes` returns true.
    pub fn forget_all(&self, lanes: impl Fn(&Lane) -> bool) {
        self.0.kept.lanes().iter().filter(|lane| lanes(lane)).for_each(|lane| self.forget(lane));
    }

    /// Returns the number of open links, for display.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.tasks.len()
    }

    /// Closes all links and waits until they have ended, at most 30 s.
    pub async fn close(&self) {
        self.0.kept.retire_all();
        self.0.tasks.close();
        if timeout(LEAVE_TIMEOUT, self.0.tasks.wait()).await.is_err() {
            tracing::warn!(
                links = self.0.tasks.len(),
                "agents do not exit; they are killed with the gateway"
            );
        }
    }

    /// Closes the links that have been idle for longest, beyond the number that is kept.
    fn retire_idle(&self) {
        self.0.kept.retire_idle(self.0.host.limits.links_warm);
    }
}
