//! Selects the link that serves a turn, keeps idle links for later turns, and closes them.
//!
//! `revive` restores links that outlived the gateway, and `renew` moves links to a newer
//! generation. `tests/links/` tests this module.

mod continued;
mod finished_slot;
mod key;
mod query;
mod renew;
mod revive;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

pub use self::continued::{ContinuedTurn, ContinuedTurns};
pub use self::finished_slot::FinishedTurnSlot;
use self::key::LinkKey;
pub use self::query::QueryError;
use super::link::{
    Begin, Link, LinkDeps, LinkReport, LinkRequest, OnUnknown, UnsolicitedTurn, WeakLink,
};
use super::tools::ToolRates;
use super::{Blob, Host, Launcher, ToolEndpoints};
use aetheel_model::agent::descriptor::LinkSharing;
use aetheel_model::agent::{QueryKind, QueryResult, SessionKey, StartTurn, TurnRef};
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
    kept: Mutex<HashMap<LinkKey, KeptLink>>,
    /// All open links, with the names of their backends.
    all: Mutex<Vec<(String, WeakLink)>>,
    continued: ContinuedTurns,
    tool_endpoints: ToolEndpoints,
    tool_rates: ToolRates,
    tasks: TaskTracker,
    /// The next turn key. Keys are unique over all links.
    turns: AtomicU32,
}

/// A long-lived link and the sessions of lanes on it.
struct KeptLink {
    link: Link,
    sessions: HashMap<Lane, LaneSession>,
    next_session: SessionKey,
}

struct LaneSession {
    key: SessionKey,
    cwd: String,
    /// The agent's id of the session, once it is known.
    native: Option<String>,
}

/// A turn's position on a link. Dropping it ends the turn.
pub(super) struct TurnSlot {
    links: Links,
    pub(super) link: Link,
    pub(super) turn: TurnRef,
    pub(super) reports: mpsc::UnboundedReceiver<LinkReport>,
    lane: Lane,
    key: Option<LinkKey>,
    /// The ending to write into the recording.
    pub(super) ending: String,
}

/// A turn that needs a link.
pub(super) struct NewTurn<'a> {
    pub(super) id: &'a str,
    pub(super) event: u64,
    pub(super) lane: &'a Lane,
    pub(super) backend: &'a Arc<dyn Backend>,
    pub(super) blobs: &'a [Blob],
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
            kept: Mutex::default(),
            all: Mutex::default(),
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
        self.kept().iter().any(|(key, kept)| {
            key.0 == backend && kept.sessions.contains_key(lane) && kept.link.is_open()
        })
    }

    /// Begins a turn on an existing link or a new one.
    pub(super) async fn begin(&self, wanted: &NewTurn<'_>, mut start: StartTurn) -> TurnSlot {
        let NewTurn { id, event, lane, backend, blobs } = *wanted;
        let descriptor = backend.descriptor();
        start.one_shot = descriptor.sharing == LinkSharing::Turn;
        let (link, key) = match descriptor.sharing {
            LinkSharing::Turn => (self.open(id, backend, PathBuf::from(&start.cwd)), None),
            LinkSharing::Session => {
                self.kept_link(id, LinkKey::single(backend, lane), lane, backend, &mut start).await
            }
            LinkSharing::Link => {
                let key = LinkKey::shared(backend, &start.cwd);
                self.close_sessions_elsewhere(&key, lane);
                self.kept_link(id, key, lane, backend, &mut start).await
            }
        };
        if !start.one_shot {
            start.turn = self.0.turns.fetch_add(1, Ordering::Relaxed) & 0x7fff_ffff;
        }
        let turn = TurnRef { session: start.session, turn: start.turn };
        let (reports, received) = mpsc::unbounded_channel();
        link.send(LinkRequest::Begin(Box::new(Begin {
            id: id.to_owned(),
            event,
            lane: lane.clone(),
            start,
            blobs: blobs.to_vec(),
            reports,
        })));
        TurnSlot {
            links: self.clone(),
            link,
            turn,
            reports: received,
            lane: lane.clone(),
            key,
            ending: "abandoned".to_owned(),
        }
    }

    /// Finds or opens the long-lived link for a lane, and the lane's session on it.
    async fn kept_link(
        &self,
        id: &str,
        key: LinkKey,
        lane: &Lane,
        backend: &Arc<dyn Backend>,
        start: &mut StartTurn,
    ) -> (Link, Option<LinkKey>) {
        self.retire_unsuitable(&key, lane, backend, start).await;
        let mut kept = self.kept();
        let open = kept.get(&key).is_some_and(|kept| kept.link.is_open());
        if !open {
            kept.insert(
                key.clone(),
                KeptLink {
                    link: self.open(id, backend, PathBuf::from(&start.cwd)),
                    sessions: HashMap::new(),
                    next_session: 1,
                },
            );
        }
        let kept = kept.get_mut(&key).expect("inserted above if it was missing");
        let session = kept
            .sessions
            .get(lane)
            .filter(|session| session.continues(start))
            .map(|session| session.key);
        start.session = session.unwrap_or_else(|| {
            let key = kept.next_session;
            kept.next_session += 1;
            let session =
                LaneSession { key, cwd: start.cwd.clone(), native: start.native_id.clone() };
            if let Some(before) = kept.sessions.insert(lane.clone(), session) {
                kept.link.send(LinkRequest::CloseSession(before.key));
            }
            key
        });
        (kept.link.clone(), Some(key))
    }

    /// Closes the link kept under a key, unless it can serve the turn: it must have the right
    /// generation (or move to it) and, if it serves only one session, the right session.
    async fn retire_unsuitable(
        &self,
        key: &LinkKey,
        lane: &Lane,
        backend: &Arc<dyn Backend>,
        start: &StartTurn,
    ) {
        let Some((link, fits)) =
            self.kept().get(key).filter(|kept| kept.link.is_open()).map(|kept| {
                let fits = key.1.is_none()
                    || kept.sessions.get(lane).is_some_and(|session| session.continues(start));
                (kept.link.clone(), fits)
            })
        else {
            return;
        };
        if fits && link.generation() == *backend.generation() {
            return;
        }
        if fits {
            let (reply_tx, renewed) = oneshot::channel();
            link.send(LinkRequest::Renew(Arc::clone(backend), reply_tx));
            // Another lane may have moved the link already.
            if renewed.await.unwrap_or(false) || link.generation() == *backend.generation() {
                return;
            }
        }
        link.send(LinkRequest::Retire);
        self.kept().remove(key);
        // A session must never be open in two agents, so wait for a link of one session. On a link
        // of many sessions, the lane has no turn at this moment.
        if key.1.is_some() && timeout(LEAVE_TIMEOUT, link.closed()).await.is_err() {
            tracing::warn!(backend = key.0, %lane, "an agent that is no longer needed does not exit; continuing with a new one");
        }
    }

    /// Closes the lane's sessions on links of other directories: a lane has one session per
    /// backend.
    fn close_sessions_elsewhere(&self, key: &LinkKey, lane: &Lane) {
        for (_, kept) in self
            .kept()
            .iter_mut()
            .filter(|(other, _)| other.0 == key.0 && other.1.is_none() && *other != key)
        {
            if let Some(session) = kept.sessions.remove(lane) {
                kept.link.send(LinkRequest::CloseSession(session.key));
            }
        }
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
        self.register(&descriptor.name, &link);
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

    /// Asks a backend a question outside a turn, over an open link or one opened for the question.
    ///
    /// # Errors
    /// [`QueryError`] if the backend starts its agent for each turn, or if no answer arrived in
    /// time.
    pub async fn query(
        &self,
        backend: &Arc<dyn Backend>,
        kind: QueryKind,
        query_timeout: Duration,
    ) -> Result<QueryResult, QueryError> {
        let descriptor = backend.descriptor();
        if descriptor.sharing == LinkSharing::Turn {
            return Err(QueryError::NoAgent(descriptor.name.clone()));
        }
        let open = self
            .kept()
            .iter()
            .find(|(key, kept)| key.0 == descriptor.name && kept.link.is_open())
            .map(|(_, kept)| kept.link.clone());
        let (link, temporary) = match open {
            Some(link) => (link, false),
            None => {
                let mut id = uuid::Uuid::new_v4().simple().to_string();
                id.truncate(8);
                (self.open(&id, backend, self.0.host.cwd.clone()), true)
            }
        };
        let reply = query::ask(&link, None, kind, query_timeout, descriptor).await;
        if temporary {
            link.send(LinkRequest::Retire);
        }
        reply.map(|reply| reply.result)
    }

    /// Sends a query about the session that a lane has open. Returns the answer and the agent's new
    /// id of the session if the id changed, or `None` if the session is not open. Opens no link.
    ///
    /// # Errors
    /// [`QueryError`] if no answer arrived in time.
    pub async fn query_session(
        &self,
        lane: &Lane,
        backend: &Arc<dyn Backend>,
        native: &str,
        kind: QueryKind,
        query_timeout: Duration,
    ) -> Result<Option<(QueryResult, Option<String>)>, QueryError> {
        let descriptor = backend.descriptor();
        let open = self
            .kept()
            .iter()
            .filter(|(key, kept)| key.0 == descriptor.name && kept.link.is_open())
            .find_map(|(key, kept)| {
                let session = kept
                    .sessions
                    .get(lane)
                    .filter(|session| session.native.as_deref() == Some(native))?;
                Some((key.clone(), kept.link.clone(), session.key))
            });
        let Some((key, link, session)) = open else { return Ok(None) };
        let reply = query::ask(&link, Some(session), kind, query_timeout, descriptor).await?;
        if let Some(native) = &reply.native
            && let Some(session) = self
                .kept()
                .get_mut(&key)
                .and_then(|kept| kept.sessions.get_mut(lane))
                .filter(|open| open.key == session)
        {
            session.native = Some(native.clone());
        }
        Ok(Some((reply.result, reply.native)))
    }

    /// Closes a lane's sessions, which will not be continued.
    pub fn forget(&self, lane: &Lane) {
        self.kept().retain(|key, kept| {
            if let Some(session) = kept.sessions.remove(lane) {
                kept.link.send(if key.1.is_some() {
                    LinkRequest::Retire
                } else {
                    LinkRequest::CloseSession(session.key)
                });
            }
            key.1.as_ref() != Some(lane)
        });
    }

    /// Closes all sessions of the lanes for which `lanes` returns true.
    pub fn forget_all(&self, lanes: impl Fn(&Lane) -> bool) {
        let open: Vec<Lane> = self
            .kept()
            .iter()
            .flat_map(|(key, kept)| key.1.iter().chain(kept.sessions.keys()).cloned())
            .filter(|lane| lanes(lane))
            .collect();
        open.iter().for_each(|lane| self.forget(lane));
    }

    /// Returns the number of open links, for display.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.tasks.len()
    }

    /// Closes all links and waits until they have ended, at most 30 s.
    pub async fn close(&self) {
        for (_, kept) in self.kept().drain() {
            kept.link.send(LinkRequest::Retire);
        }
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
        let mut kept = self.kept();
        kept.retain(|_, kept| kept.link.is_open());
        let mut idle: Vec<(u32, LinkKey)> = kept
            .iter()
            .filter(|(_, kept)| kept.link.turns() == 0)
            .map(|(key, kept)| (kept.link.idle_for_ms(), key.clone()))
            .collect();
        idle.sort_unstable_by_key(|(idle, _)| *idle);
        for (_, key) in idle.into_iter().skip(self.0.host.limits.links_warm) {
            if let Some(kept) = kept.remove(&key) {
                kept.link.send(LinkRequest::Retire);
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<LinkKey, KeptLink>> {
        self.0.kept.lock()
    }
}

impl LaneSession {
    /// Returns whether a turn continues this session.
    fn continues(&self, start: &StartTurn) -> bool {
        start.native_id.is_some()
            && self.native == start.native_id
            && Path::new(&self.cwd) == Path::new(&start.cwd)
            && !start.fork
    }
}

impl TurnSlot {
    /// Stores the agent's id of the session.
    pub(super) fn set_native_id(&self, native: &str) {
        let Some(key) = &self.key else { return };
        let mut kept = self.links.kept();
        let session = kept.get_mut(key).and_then(|kept| kept.sessions.get_mut(&self.lane));
        if let Some(session) = session.filter(|session| session.key == self.turn.session) {
            session.native = Some(native.to_owned());
        }
    }
}

impl Drop for TurnSlot {
    fn drop(&mut self) {
        self.link.send(LinkRequest::End(self.turn, std::mem::take(&mut self.ending)));
        if self.key.is_some() {
            self.links.retire_idle();
        }
    }
}
