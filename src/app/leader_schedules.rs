//! Runs the schedules on the leader of a cluster. Without a cluster, this machine is the leader.

use std::future::pending;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::cluster::LeaderFile;
use crate::sources::RunningSchedules;
use aetheel_runtime::supervisor;

/// Runs the schedules while this node is the leader.
pub(super) struct LeaderOnly {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl LeaderOnly {
    /// Calls `begin` each time this node becomes the leader, and stops the schedules when it is not
    /// the leader any more. `file` is `Some` in a cluster.
    pub(super) fn run<F>(
        mut leadership: watch::Receiver<bool>,
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
                    () = wait_for_leadership(true, &mut leadership) => {}
                }
                if let Some(file) = &file {
                    file.take_over().await;
                }
                let running = begin().await;
                let mirror = file
                    .clone()
                    .map(|file| supervisor::spawn_finite("schedules.md", file.mirror()));
                let ends = tokio::select! {
                    _ = &mut stopped => true,
                    () = wait_for_leadership(false, &mut leadership) => false,
                };
                running.stop().await;
                if let Some(mirror) = mirror {
                    mirror.abort();
                }
                if ends {
                    return;
                }
            }
        });
        Self { stop, task }
    }

    /// Stops the schedules. No event is submitted after this returns.
    pub(super) async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

/// Waits until this node is the leader, or with `wanted: false`, until it is not. Never
/// returns if the sender is dropped before.
async fn wait_for_leadership(wanted: bool, leadership: &mut watch::Receiver<bool>) {
    if leadership.wait_for(|has| *has == wanted).await.is_err() {
        pending::<()>().await;
    }
}
