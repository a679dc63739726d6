//! This node's place in its cluster, while it serves.

use std::path::Path;

use tokio::task::JoinHandle;

use crate::cli::exit;
use crate::cluster::Cluster;
use crate::lease::Lease;
use crate::process::holder::HeldLauncher;
use crate::startup::{Refused, StateFiles};
use crate::vigil;

/// The place of a node that serves.
pub(super) struct Place {
    cluster: Cluster,
    /// Ends the program when the place is lost.
    fence: JoinHandle<()>,
}

impl Place {
    /// Keeps the place: tells the holder how long agents may run, and ends the program once the
    /// place is lost. Another node may serve then, so nothing is said to anybody and nothing is
    /// finished: the holder ends the agents by its own clock.
    ///
    /// # Errors
    /// [`Refused`]: there is no holder that can do that.
    pub(super) fn keep(cluster: Cluster, held: Option<&HeldLauncher>) -> Result<Self, Refused> {
        let Some(held) = held.filter(|held| held.fences()).cloned() else {
            let why = "CLUSTER_URL needs a holder of this version, which ends the agents of a node that lost its place; start one (AGENT_HOLDER=require says why there is none), or restart the one that runs";
            return Err(Refused::because(exit::UNAVAILABLE, why.to_owned()));
        };
        let lease = cluster.lease();
        let mut until = lease.watch();
        // Before any agent begins.
        held.until(*until.borrow_and_update());
        vigil::errand("agents' time", async move {
            while until.changed().await.is_ok() {
                held.until(*until.borrow_and_update());
            }
        });
        Ok(Self { fence: vigil::task("fence", leave_when_over(lease)), cluster })
    }

    /// Until when this node may act.
    pub(super) fn lease(&self) -> Lease {
        self.cluster.lease()
    }

    /// Gives the place to whoever follows, with the state files of this folder.
    pub(super) async fn leave(self, config: &Path) {
        StateFiles::of(&self.cluster, config).hand_on().await;
        self.fence.abort();
        self.cluster.leave().await;
        tracing::info!(node = self.cluster.name(), "this node has left its place to others");
    }
}

#[expect(clippy::disallowed_methods, reason = "whatever is dropped would speak to people")]
async fn leave_when_over(lease: Lease) {
    lease.over().await;
    tracing::error!(
        "this node does not serve any more; it leaves at once, and stands by when it is started again"
    );
    std::process::exit(exit::TEMPORARY.into())
}
