//! Leadership: the leader of a cluster is logged in to Discord and runs the schedules.

use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::mail::patiently;
use crate::sources::RunningSchedules;
use aetheel_cluster::{Cluster, Peers};
use aetheel_model::plain::with_causes;
use aetheel_runtime::ordinary::read_ordinary;
use aetheel_runtime::supervisor;
use aetheel_store::disk::replace;

/// The state file that moves to each new leader: the time up to which schedules were handled.
const SCHEDULES_FILE: &str = "schedules.md";
/// Time between two checks of that file.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Largest size of that file, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Becomes the leader whenever the cluster has no leader and this node is not being drained.
/// Another node may become the leader while this one cannot reach the database.
pub(super) async fn lead_when_possible(cluster: Cluster, seat: Arc<watch::Sender<bool>>) {
    let mut peers = cluster.peers();
    loop {
        let wanted = peers.wait_for(|peers| !peers.drain_requested).await.map(drop);
        if wanted.is_err() || patiently!(cluster.become_leader()).is_none() {
            return;
        }
        tracing::info!(node = cluster.name(), "this node is the one that is logged in to discord");
        seat.send_replace(true);
        let Some(end) = leadership_end(&cluster, &mut peers).await else { return };
        seat.send_replace(false);
        match end {
            LeadershipEnd::Drained => {
                tracing::info!(node = cluster.name(), "drained: another node logs in to discord");
                patiently!(cluster.resign_leader());
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
        if is_anothers && patiently!(cluster.is_leader()) == Some(false) {
            return Some(LeadershipEnd::Taken);
        }
        peers.changed().await.ok()?;
    }
}

/// The state file of the leader, kept in the database too.
#[derive(Clone)]
pub(in crate::app) struct LeaderFile {
    cluster: Cluster,
    path: PathBuf,
}

impl LeaderFile {
    pub(super) fn new(cluster: Cluster, config: &Path) -> Self {
        Self { cluster, path: config.join("state").join(SCHEDULES_FILE) }
    }

    /// Replaces the local file with the one that the previous leader saved in the database.
    pub(in crate::app) async fn take_over(&self) {
        let kept = patiently!(self.cluster.leader_file(SCHEDULES_FILE)).flatten();
        let Some(body) = kept else { return };
        let path = self.path.clone();
        let replaced = tokio::task::spawn_blocking(move || replace(&path, body.as_bytes())).await;
        if let Err(error) = replaced.map_err(io::Error::other).flatten() {
            tracing::error!(error = %with_causes(&error), "cannot save the time up to which schedules were handled; one may run twice");
        }
    }

    /// Copies the file to the database whenever it changes. Never returns; the caller aborts it.
    pub(in crate::app) async fn mirror(self) {
        let mut known = None;
        loop {
            let path = self.path.clone();
            let read =
                tokio::task::spawn_blocking(move || read_ordinary(&path, MAX_FILE_BYTES)).await;
            let body = read.ok().and_then(Result::ok);
            if let Some(body) = body.filter(|body| known.as_ref() != Some(body)) {
                let text = String::from_utf8_lossy(&body).into_owned();
                patiently!(self.cluster.write_leader_file(SCHEDULES_FILE, &text));
                known = Some(body);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Runs the schedules while this node is the leader.
pub(in crate::app) struct LeaderOnly {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl LeaderOnly {
    /// Calls `begin` each time this node becomes the leader, and stops the schedules when it is not
    /// the leader any more. `file` is `Some` in a cluster.
    pub(in crate::app) fn run<F>(
        mut seat: watch::Receiver<bool>,
        file: Option<LeaderFile>,
        begin: impl Fn() -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = RunningSchedules> + Send,
    {
        let (stop, mut stopped) = oneshot::channel();
        let task = supervisor::spawn_finite("leader schedules", async move {
            loop {
                tokio::select! {
                    _ = &mut stopped => return,
                    () = wait_for_leadership(true, &mut seat) => {}
                }
                if let Some(file) = &file {
                    file.take_over().await;
                }
                let running = begin().await;
                let kept = file
                    .clone()
                    .map(|file| supervisor::spawn_finite("schedules.md", file.mirror()));
                let ends = tokio::select! {
                    _ = &mut stopped => true,
                    () = wait_for_leadership(false, &mut seat) => false,
                };
                running.stop().await;
                if let Some(kept) = kept {
                    kept.abort();
                }
                if ends {
                    return;
                }
            }
        });
        Self { stop, task }
    }

    /// Stops the schedules. No event is submitted after this returns.
    pub(in crate::app) async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

/// Waits until `seat`, which says whether this node is the leader, has the value `wanted`. Never
/// returns if the sender is dropped before.
async fn wait_for_leadership(wanted: bool, seat: &mut watch::Receiver<bool>) {
    if seat.wait_for(|has| *has == wanted).await.is_err() {
        pending::<()>().await;
    }
}
