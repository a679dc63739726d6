//! The long-lived links that are kept for later turns, and the sessions of lanes on them.

use std::collections::HashMap;
use std::path::Path;

use parking_lot::Mutex;

use super::key::LinkKey;
use crate::link::{Link, LinkRequest, LinkSession};
use aetheel_model::agent::{SessionKey, StartTurn};
use aetheel_model::event::Lane;

/// The long-lived links by their keys.
#[derive(Default)]
pub(super) struct KeptLinks(Mutex<HashMap<LinkKey, KeptLink>>);

struct KeptLink {
    link: Link,
    sessions: HashMap<Lane, LaneSession>,
    next_session: SessionKey,
}

/// The session of a lane on a link.
struct LaneSession {
    key: SessionKey,
    cwd: String,
    /// The agent's id of the session, once it is known.
    native: Option<String>,
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

/// A session that a lane has open.
pub(super) struct FoundSession {
    pub(super) key: LinkKey,
    pub(super) link: Link,
    pub(super) session: SessionKey,
}

impl KeptLinks {
    /// Returns whether a backend has an open link on which a lane has a session.
    pub(super) fn has_session(&self, backend: &str, lane: &Lane) -> bool {
        self.0.lock().iter().any(|(key, kept)| {
            key.backend == backend && kept.sessions.contains_key(lane) && kept.link.is_open()
        })
    }

    /// Returns an open link of a backend.
    pub(super) fn any_open(&self, backend: &str) -> Option<Link> {
        let kept = self.0.lock();
        let mut open =
            kept.iter().filter(|(key, kept)| key.backend == backend && kept.link.is_open());
        open.next().map(|(_, kept)| kept.link.clone())
    }

    /// Returns the open link under a key, and whether it can serve the turn: a link that serves only
    /// one session must have the right one.
    pub(super) fn find(
        &self,
        key: &LinkKey,
        lane: &Lane,
        start: &StartTurn,
    ) -> Option<(Link, bool)> {
        let kept = self.0.lock();
        let kept = kept.get(key).filter(|kept| kept.link.is_open())?;
        let fits = key.lane.is_none()
            || kept.sessions.get(lane).is_some_and(|session| session.continues(start));
        Some((kept.link.clone(), fits))
    }

    /// Returns the open session of a lane with this id of the agent.
    pub(super) fn find_session(
        &self,
        backend: &str,
        lane: &Lane,
        native: &str,
    ) -> Option<FoundSession> {
        let kept = self.0.lock();
        let mut open =
            kept.iter().filter(|(key, kept)| key.backend == backend && kept.link.is_open());
        open.find_map(|(key, kept)| {
            let session = kept.sessions.get(lane)?;
            (session.native.as_deref() == Some(native)).then(|| FoundSession {
                key: key.clone(),
                link: kept.link.clone(),
                session: session.key,
            })
        })
    }

    /// Returns the link under a key, and the session of the lane that the turn uses on it. `open`
    /// opens the link if it is missing.
    pub(super) fn session_for(
        &self,
        key: &LinkKey,
        lane: &Lane,
        start: &StartTurn,
        open: impl FnOnce() -> Link,
    ) -> (Link, SessionKey) {
        let mut kept = self.0.lock();
        if !kept.get(key).is_some_and(|kept| kept.link.is_open()) {
            let new = KeptLink { link: open(), sessions: HashMap::new(), next_session: 1 };
            kept.insert(key.clone(), new);
        }
        let kept = kept.get_mut(key).expect("inserted above if it was missing");
        let known = kept.sessions.get(lane).filter(|session| session.continues(start));
        let known = known.map(|session| session.key);
        let session = known.unwrap_or_else(|| {
            let key = kept.next_session;
            kept.next_session += 1;
            let session =
                LaneSession { key, cwd: start.cwd.clone(), native: start.native_id.clone() };
            if let Some(before) = kept.sessions.insert(lane.clone(), session) {
                kept.link.send(LinkRequest::CloseSession(before.key));
            }
            key
        });
        (kept.link.clone(), session)
    }

    /// Keeps a link that was restored with its sessions. If another link already has the key, the
    /// restored one closes after its turns.
    pub(super) fn keep_restored(
        &self,
        key: &LinkKey,
        link: &Link,
        sessions: Vec<(SessionKey, LinkSession)>,
    ) {
        let mut kept = self.0.lock();
        if kept.contains_key(key) {
            return link.send(LinkRequest::Retire);
        }
        let next_session = sessions.last().map_or(1, |(key, _)| key + 1);
        let session =
            |(key, LinkSession { lane, cwd, native, .. })| (lane, LaneSession { key, cwd, native });
        let sessions = sessions.into_iter().map(session).collect();
        kept.insert(key.clone(), KeptLink { link: link.clone(), sessions, next_session });
    }

    /// Stores the agent's id of a lane's session.
    pub(super) fn set_native(&self, key: &LinkKey, lane: &Lane, session: SessionKey, native: &str) {
        let mut kept = self.0.lock();
        let open = kept.get_mut(key).and_then(|kept| kept.sessions.get_mut(lane));
        if let Some(open) = open.filter(|open| open.key == session) {
            open.native = Some(native.to_owned());
        }
    }

    pub(super) fn remove(&self, key: &LinkKey) {
        self.0.lock().remove(key);
    }

    /// Closes the lane's sessions on links of other directories: a lane has one session per
    /// backend.
    pub(super) fn close_sessions_elsewhere(&self, key: &LinkKey, lane: &Lane) {
        let is_other =
            |other: &LinkKey| other.backend == key.backend && other.lane.is_none() && other != key;
        for (_, kept) in self.0.lock().iter_mut().filter(|(other, _)| is_other(other)) {
            if let Some(session) = kept.sessions.remove(lane) {
                kept.link.send(LinkRequest::CloseSession(session.key));
            }
        }
    }

    /// Closes a lane's sessions, which will not be continued.
    pub(super) fn forget(&self, lane: &Lane) {
        self.0.lock().retain(|key, kept| {
            if let Some(session) = kept.sessions.remove(lane) {
                kept.link.send(if key.lane.is_some() {
                    LinkRequest::Retire
                } else {
                    LinkRequest::CloseSession(session.key)
                });
            }
            key.lane.as_ref() != Some(lane)
        });
    }

    /// Returns all lanes that have a link or a session.
    pub(super) fn lanes(&self) -> Vec<Lane> {
        let kept = self.0.lock();
        kept.iter()
            .flat_map(|(key, kept)| key.lane.iter().chain(kept.sessions.keys()).cloned())
            .collect()
    }

    /// Closes all links.
    pub(super) fn retire_all(&self) {
        for (_, kept) in self.0.lock().drain() {
            kept.link.send(LinkRequest::Retire);
        }
    }

    /// Closes the links that have been idle for longest, beyond `most`.
    pub(super) fn retire_idle(&self, most: usize) {
        let mut kept = self.0.lock();
        kept.retain(|_, kept| kept.link.is_open());
        let mut idle: Vec<(u32, LinkKey)> = kept
            .iter()
            .filter(|(_, kept)| kept.link.turns() == 0)
            .map(|(key, kept)| (kept.link.idle_for_ms(), key.clone()))
            .collect();
        idle.sort_unstable_by_key(|(idle, _)| *idle);
        for (_, key) in idle.into_iter().skip(most) {
            if let Some(kept) = kept.remove(&key) {
                kept.link.send(LinkRequest::Retire);
            }
        }
    }
}
