//! Begins a turn on a link that is kept for the lane, or on a new one.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::key::LinkKey;
use super::{LEAVE_TIMEOUT, Links, TurnSlot};
use crate::Blob;
use crate::link::{Begin, Link, LinkRequest};
use aetheel_model::agent::descriptor::LinkSharing;
use aetheel_model::agent::{StartTurn, TurnRef};
use aetheel_model::event::Lane;
use aetheel_recording::Backend;

/// A turn that needs a link.
pub(crate) struct NewTurn<'a> {
    pub(crate) id: &'a str,
    pub(crate) event: u64,
    pub(crate) lane: &'a Lane,
    pub(crate) backend: &'a Arc<dyn Backend>,
    pub(crate) blobs: &'a [Blob],
}

impl Links {
    /// Begins a turn on an existing link or a new one.
    pub(crate) async fn begin(&self, wanted: &NewTurn<'_>, mut start: StartTurn) -> TurnSlot {
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
                self.0.kept.close_sessions_elsewhere(&key, lane);
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
        let open = || self.open(id, backend, PathBuf::from(&start.cwd));
        let (link, session) = self.0.kept.session_for(&key, lane, start, open);
        start.session = session;
        (link, Some(key))
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
        let Some((link, fits)) = self.0.kept.find(key, lane, start) else { return };
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
        self.0.kept.remove(key);
        // A session must never be open in two agents, so wait for a link of one session. On a link
        // of many sessions, the lane has no turn at this moment.
        if key.lane.is_some() && timeout(LEAVE_TIMEOUT, link.closed()).await.is_err() {
            tracing::warn!(backend = key.backend, %lane, "an agent that is no longer needed does not exit; continuing with a new one");
        }
    }
}
