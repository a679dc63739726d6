//! The links there are: which one serves a turn, which are kept warm, and how they go.
//!
//! `revive` brings back those of an earlier life of the gateway, `renew` has those there are go over to
//! a newer generation. Pinned by `tests/links/`.

mod place;
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

pub use self::place::TurnPlace;
pub use self::revive::ContinuedTurn;
use super::link::{Begin, Link, LinkRequest, OnUnknown, Parts, Report, Unasked, WeakLink};
use super::recording::{FORMAT, Header, Recorder};
use super::{Backend, Blob, Host, Launcher};
use aetheel_model::agent::descriptor::Sharing;
use aetheel_model::agent::{QueryKind, QueryResult, SessionKey, StartTurn, TurnRef};
use aetheel_model::event::Lane;

/// Longest wait for a link that leaves before its session is opened on another: its whole way out
/// and some.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens links, and keeps the long-lived ones. Cheap to clone.
#[derive(Clone)]
pub struct Links(Arc<Inner>);

struct Inner {
    host: Arc<Host>,
    launcher: Arc<dyn Launcher>,
    recorder: Recorder,
    unasked: mpsc::UnboundedSender<Unasked>,
    on_unknown: OnUnknown,
    kept: Mutex<HashMap<Key, KeptLink>>,
    /// Every link that lives, with the name of its backend.
    all: Mutex<Vec<(String, WeakLink)>>,
    /// Turns of an earlier life that go on, by the sequence number of their event and their lane.
    continued: Mutex<HashMap<(u64, Lane), ContinuedTurn>>,
    tasks: TaskTracker,
    /// Turn keys; unique over all links, which harms nobody.
    turns: AtomicU32,
}

/// The key of a long-lived link: the backend, the lane where it serves only one session, and
/// the directory where it serves many: the agent's process works there, and is confined to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key(String, Option<Lane>, Option<PathBuf>);

/// A long-lived link and the sessions that lanes have on it.
struct KeptLink {
    link: Link,
    sessions: HashMap<Lane, LaneSession>,
    next_session: SessionKey,
}

/// A lane's session on a link.
struct LaneSession {
    key: SessionKey,
    cwd: String,
    /// The agent's id of it, once it is known.
    native: Option<String>,
}

/// A turn's place on a link. Dropping it ends the turn.
pub(super) struct Lease {
    links: Links,
    pub(super) link: Link,
    pub(super) turn: TurnRef,
    pub(super) reports: mpsc::UnboundedReceiver<Report>,
    lane: Lane,
    key: Option<Key>,
    /// The turn's end in the recording.
    pub(super) ending: String,
}

/// A turn looking for a link.
pub(super) struct Wanted<'a> {
    pub(super) id: &'a str,
    pub(super) event: u64,
    pub(super) lane: &'a Lane,
    pub(super) backend: &'a Arc<dyn Backend>,
    pub(super) blobs: &'a [Blob],
}

impl Links {
    /// Makes one without any links. Turns that agents make by themselves go to `unasked`, output
    /// that backends do not know to `on_unknown`.
    #[must_use]
    pub fn new(
        host: Arc<Host>,
        launcher: Arc<dyn Launcher>,
        recorder: Recorder,
        unasked: mpsc::UnboundedSender<Unasked>,
        on_unknown: OnUnknown,
    ) -> Self {
        let turns = AtomicU32::new(1);
        Self(Arc::new(Inner {
            host,
            launcher,
            recorder,
            unasked,
            on_unknown,
            kept: Mutex::default(),
            all: Mutex::default(),
            continued: Mutex::default(),
            tasks: TaskTracker::new(),
            turns,
        }))
    }

    /// How agents are run.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// Whether a backend has an open link on which a lane has a session.
    #[must_use]
    pub fn is_open(&self, backend: &str, lane: &Lane) -> bool {
        self.kept().iter().any(|(key, kept)| {
            key.0 == backend && kept.sessions.contains_key(lane) && kept.link.is_open()
        })
    }

    /// Begins a turn, on a link that is there or a fresh one.
    pub(super) async fn begin(&self, wanted: &Wanted<'_>, mut start: StartTurn) -> Lease {
        let Wanted { id, event, lane, backend, blobs } = *wanted;
        let descriptor = backend.descriptor();
        start.one_shot = descriptor.sharing == Sharing::Turn;
        let (link, key) = match descriptor.sharing {
            Sharing::Turn => (self.open(id, backend, PathBuf::from(&start.cwd)), None),
            Sharing::Session => {
                self.kept_link(
                    id,
                    Key(descriptor.name.clone(), Some(lane.clone()), None),
                    lane,
                    backend,
                    &mut start,
                )
                .await
            }
            Sharing::Link => {
                let key = Key(descriptor.name.clone(), None, Some(PathBuf::from(&start.cwd)));
                self.leave_other_directories(&key, lane);
                self.kept_link(id, key, lane, backend, &mut start).await
            }
        };
        if !start.one_shot {
            start.turn = self.0.turns.fetch_add(1, Ordering::Relaxed) & 0x7fff_ffff;
        }
        let turn = TurnRef { session: start.session, turn: start.turn };
        let (reports, received) = mpsc::unbounded_channel();
        link.ask(LinkRequest::Begin(Box::new(Begin {
            id: id.to_owned(),
            event,
            lane: lane.clone(),
            start,
            blobs: blobs.to_vec(),
            reports,
        })));
        Lease {
            links: self.clone(),
            link,
            turn,
            reports: received,
            lane: lane.clone(),
            key,
            ending: "abandoned".to_owned(),
        }
    }

    /// Finds the long-lived link for a lane and the lane's session on it.
    async fn kept_link(
        &self,
        id: &str,
        key: Key,
        lane: &Lane,
        backend: &Arc<dyn Backend>,
        start: &mut StartTurn,
    ) -> (Link, Option<Key>) {
        self.make_way(&key, lane, backend, start).await;
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
        let kept = kept.get_mut(&key).expect("it was put there");
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
                kept.link.ask(LinkRequest::CloseSession(before.key));
            }
            key
        });
        (kept.link.clone(), Some(key))
    }

    /// Sees to it that the link kept under a key, if any, can serve the turn: the right generation,
    /// and where it serves one session, the right one.
    async fn make_way(
        &self,
        key: &Key,
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
            link.ask(LinkRequest::Renew(Arc::clone(backend), reply_tx));
            // Another lane may have been quicker.
            if renewed.await.unwrap_or(false) || link.generation() == *backend.generation() {
                return;
            }
        }
        link.ask(LinkRequest::Retire);
        self.kept().remove(key);
        // One session is never open in two agents. Of a link of many, the lane's own has no turn
        // now.
        if key.1.is_some() && timeout(LEAVE_TIMEOUT, link.gone()).await.is_err() {
            tracing::warn!(backend = key.0, %lane, "an agent that is not needed any more does not leave; going on beside it");
        }
    }

    /// A lane has its session on one link of a backend: where it worked before it has none any
    /// more.
    fn leave_other_directories(&self, key: &Key, lane: &Lane) {
        for (_, kept) in self
            .kept()
            .iter_mut()
            .filter(|(other, _)| other.0 == key.0 && other.1.is_none() && *other != key)
        {
            if let Some(session) = kept.sessions.remove(lane) {
                kept.link.ask(LinkRequest::CloseSession(session.key));
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
        self.note(&descriptor.name, &link);
        self.0.tasks.spawn(life);
        link
    }

    fn parts(&self, id: &str, backend: &Arc<dyn Backend>, cwd: PathBuf) -> Parts {
        Parts {
            backend: Arc::clone(backend),
            host: Arc::clone(&self.0.host),
            launcher: Arc::clone(&self.0.launcher),
            unasked: self.0.unasked.clone(),
            on_unknown: Arc::clone(&self.0.on_unknown),
            cwd,
            id: id.to_owned(),
        }
    }

    /// Asks a backend something outside a turn, over the link it has or one opened for it.
    ///
    /// # Errors
    /// In words for the operator: the backend runs once a turn, or no answer came in time.
    pub async fn query(
        &self,
        backend: &Arc<dyn Backend>,
        kind: QueryKind,
        query_timeout: Duration,
    ) -> Result<QueryResult, String> {
        let descriptor = backend.descriptor();
        if descriptor.sharing == Sharing::Turn {
            return Err(format!(
                "backend `{}` runs its agent once a turn and answers no questions beside it",
                descriptor.name
            ));
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
            link.ask(LinkRequest::Retire);
        }
        reply.map(|reply| reply.result)
    }

    /// Asks for something to be done with the session that a lane has open; nothing is opened for
    /// it. Returns the answer, and the agent's id of the session where that became another one;
    /// none when the session is not open.
    ///
    /// # Errors
    /// In words for the operator: no answer came in time.
    pub async fn query_session(
        &self,
        lane: &Lane,
        backend: &Arc<dyn Backend>,
        native: &str,
        kind: QueryKind,
        query_timeout: Duration,
    ) -> Result<Option<(QueryResult, Option<String>)>, String> {
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

    /// Lets go of a lane's sessions that will not be gone on with.
    pub fn forget(&self, lane: &Lane) {
        self.kept().retain(|key, kept| {
            if let Some(session) = kept.sessions.remove(lane) {
                kept.link.ask(if key.1.is_some() {
                    LinkRequest::Retire
                } else {
                    LinkRequest::CloseSession(session.key)
                });
            }
            key.1.as_ref() != Some(lane)
        });
    }

    /// Lets go of all sessions of some lanes.
    pub fn forget_all(&self, lanes: impl Fn(&Lane) -> bool) {
        let open: Vec<Lane> = self
            .kept()
            .iter()
            .flat_map(|(key, kept)| key.1.iter().chain(kept.sessions.keys()).cloned())
            .filter(|lane| lanes(lane))
            .collect();
        open.iter().for_each(|lane| self.forget(lane));
    }

    /// Open links, for people who look.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.tasks.len()
    }

    /// Ends all links and returns when nothing of them is left.
    pub async fn close(&self) {
        for (_, kept) in self.kept().drain() {
            kept.link.ask(LinkRequest::Retire);
        }
        self.0.tasks.close();
        if timeout(LEAVE_TIMEOUT, self.0.tasks.wait()).await.is_err() {
            tracing::warn!(
                links = self.0.tasks.len(),
                "agents do not leave; they are killed with the gateway"
            );
        }
    }

    /// Lets go of the longest idle links beyond those that are kept warm.
    fn tidy(&self) {
        let mut kept = self.kept();
        kept.retain(|_, kept| kept.link.is_open());
        let mut idle: Vec<(u32, Key)> = kept
            .iter()
            .filter(|(_, kept)| kept.link.turns() == 0)
            .map(|(key, kept)| (kept.link.idle_for_ms(), key.clone()))
            .collect();
        idle.sort_unstable_by_key(|(idle, _)| *idle);
        for (_, key) in idle.into_iter().skip(self.0.host.links_warm) {
            if let Some(kept) = kept.remove(&key) {
                kept.link.ask(LinkRequest::Retire);
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Key, KeptLink>> {
        self.0.kept.lock()
    }
}

impl LaneSession {
    /// Whether a turn goes on with this session.
    fn continues(&self, start: &StartTurn) -> bool {
        start.native_id.is_some()
            && self.native == start.native_id
            && Path::new(&self.cwd) == Path::new(&start.cwd)
            && !start.fork
    }
}

impl Lease {
    /// The agent has given its id of the session.
    pub(super) fn learned(&self, native: &str) {
        let Some(key) = &self.key else { return };
        let mut kept = self.links.kept();
        let session = kept.get_mut(key).and_then(|kept| kept.sessions.get_mut(&self.lane));
        if let Some(session) = session.filter(|session| session.key == self.turn.session) {
            session.native = Some(native.to_owned());
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.link.ask(LinkRequest::End(self.turn, std::mem::take(&mut self.ending)));
        if self.key.is_some() {
            self.links.tidy();
        }
    }
}
