//! Leadership: the leader of a cluster is logged in to Discord and runs the schedules.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::retry::until_answered;
use crate::{Cluster, Peers};
use aetheel_model::plain::with_causes;
use aetheel_runtime::ordinary::read_ordinary;
use aetheel_store::disk::replace;

/// The state file that moves to each new leader: the time up to which schedules were handled.
const SCHEDULES_FILE: &str = "schedules.md";
/// Time between two checks of that file.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Becomes the leader whenever the cluster has no leader and this node is not being drained.
/// Another node may become the leader while this one cannot reach the database.
pub(super) async fn lead_when_possible(cluster: Cluster, leadership: Arc<watch::Sender<bool>>) {
    let mut peers = cluster.peers();
    loop {
        let wanted = peers.wait_for(|peers| !peers.drain_requested).await.map(drop);
        if wanted.is_err() || until_answered(|| cluster.become_leader()).await.is_none() {
            return;
        }
        tracing::info!(node = cluster.name(), "this node is the one that is logged in to discord");
        leadership.send_replace(true);
        let Some(end) = leadership_end(&cluster, &mut peers).await else { return };
        leadership.send_replace(false);
        match end {
            LeadershipEnd::Drained => {
                tracing::info!(node = cluster.name(), "drained: another node logs in to discord");
                until_answered(|| cluster.resign_leader()).await;
            }
            LeadershipEnd::Taken => tracing::info!(
                node = cluster.name(),
                "another node became the leader while this one could not reach the database"
            ),
        }
    }
}

/// Reason why a node is not the leader any more.
enum LeadershipEnd {
    Drained,
    Taken,
}

/// Waits until this node is to be drained or another one is the leader. Returns `None` if the
/// connection to the cluster was closed.
async fn leadership_end(
    cluster: &Cluster,
    peers: &mut watch::Receiver<Peers>,
) -> Option<LeadershipEnd> {
    loop {
        let (drain_wanted, is_anothers) = {
            let peers = peers.borrow_and_update();
            let is_anothers = peers.leader.as_ref().is_some_and(|node| node != cluster.name());
            (peers.drain_requested, is_anothers)
        };
        if drain_wanted {
            return Some(LeadershipEnd::Drained);
        }
        // The known state of the cluster may be older than this node's leadership.
        if is_anothers && until_answered(|| cluster.is_leader()).await == Some(false) {
            return Some(LeadershipEnd::Taken);
        }
        peers.changed().await.ok()?;
    }
}

/// The state file of the leader, kept in the database too.
#[derive(Clone)]
pub struct LeaderFile {
    cluster: Cluster,
    path: PathBuf,
}

impl LeaderFile {
    pub(super) fn new(cluster: Cluster, config: &Path) -> Self {
        Self { cluster, path: config.join("state").join(SCHEDULES_FILE) }
    }

    /// Replaces the local file with the one that the previous leader saved in the database.
    pub async fn take_over(&self) {
        let saved = until_answered(|| self.cluster.leader_file(SCHEDULES_FILE)).await.flatten();
        let Some(body) = saved else { return };
        let path = self.path.clone();
        let replaced = tokio::task::spawn_blocking(move || replace(&path, body.as_bytes())).await;
        if let Err(error) = replaced.map_err(io::Error::other).flatten() {
            tracing::error!(error = %with_causes(&error), "cannot save the time up to which schedules were handled; one may run twice");
        }
    }

    /// Copies the file to the database whenever it changes. Never returns; the caller aborts it.
    pub async fn mirror(self) {
        let mut known = None;
        loop {
            let path = self.path.clone();
            let read =
                tokio::task::spawn_blocking(move || read_ordinary(&path, MAX_FILE_BYTES)).await;
            let body = read.ok().and_then(Result::ok);
            if let Some(body) = body.filter(|body| known.as_ref() != Some(body)) {
                let text = String::from_utf8_lossy(&body).into_owned();
                until_answered(|| self.cluster.write_leader_file(SCHEDULES_FILE, &text)).await;
                known = Some(body);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
