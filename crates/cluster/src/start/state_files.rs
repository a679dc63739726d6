//! Copies the state files of a node to the database.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Cluster, Mirror};
use aetheel_runtime::lease::Lease;
use aetheel_runtime::ordinary::read_ordinary;

/// The state files whose lines move with their lanes.
const LANE_FILES: [&str; 4] = ["sessions.md", "history.md", CHAT_FILE, "agent-schedules.md"];
pub(crate) const CHAT_FILE: &str = "discord.md";
/// Time between two checks for changed state files.
const MIRROR_INTERVAL: Duration = Duration::from_millis(500);
/// Largest size of a state file that is copied to the database, in bytes.
const MAX_STATE_FILE_BYTES: u64 = 16 << 20;

/// Copies the state files of a node to the database, for the node that takes over its lanes.
pub(crate) struct StateFiles {
    mirror: Mirror,
    lease: Lease,
    state: PathBuf,
}

impl StateFiles {
    /// Creates the copier for the state files below the folder `config`.
    pub(crate) fn of(cluster: &Cluster, config: &Path) -> Self {
        let (mirror, lease) = (cluster.mirror(), cluster.lease());
        Self { mirror, lease, state: config.join("state") }
    }

    /// Copies the files that changed since the last copy. Returns whether all were copied.
    pub(crate) async fn mirror_changes(&self) -> bool {
        let folder = self.state.clone();
        let read = async || {
            let files = tokio::task::spawn_blocking(move || read_lane_files(&folder)).await;
            files.unwrap_or_default()
        };
        let copied = self.mirror.write_changed(read()).await;
        if let Err(error) = &copied {
            tracing::debug!(%error, "cannot copy the state files to the database");
        }
        copied.is_ok()
    }

    /// Copies the files whenever they change, until the node's lease has ended for good. Never
    /// returns.
    pub(super) async fn mirror_until_lease_ends(self) {
        let mut late = false;
        while !self.lease.is_ended() {
            let done = self.mirror_changes().await;
            if !done && !late {
                tracing::warn!("cannot copy state files to the database; trying again");
            }
            late = !done;
            tokio::time::sleep(MIRROR_INTERVAL).await;
        }
        std::future::pending().await
    }
}

fn read_lane_files(state: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |name: &str| read_ordinary(&state.join(name), MAX_STATE_FILE_BYTES).ok();
    LANE_FILES.iter().filter_map(|name| Some(((*name).to_owned(), read(name)?))).collect()
}
