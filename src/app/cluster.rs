//! Makes this program a node of its cluster.

use crate::cli::exit;
use crate::startup::StartRefusal;
use crate::startup::cluster::Cluster;
pub(super) use aetheel_cluster::{ClusterNode, LeaderFile, NodeParts};
use aetheel_process::holder::HeldLauncher;

/// Starts the tasks that end the agents and the program when the node's leases end.
///
/// # Errors
/// Returns [`StartRefusal`] if no holder can end agents at a given time.
pub(super) fn start_node(
    cluster: Cluster,
    held: Option<&HeldLauncher>,
) -> Result<ClusterNode, StartRefusal> {
    let Some(held) = held.filter(|held| held.fences()).cloned() else {
        let why = "CLUSTER_URL needs a holder of this version, which ends the agents of a node that lost its place; start one (AGENT_HOLDER=require reports why it cannot start), or restart the one that runs";
        return Err(StartRefusal::because(exit::UNAVAILABLE, why.to_owned()));
    };
    Ok(ClusterNode::start(cluster, move |until_ms| held.set_deadline(until_ms), exit_at_once))
}

#[expect(clippy::disallowed_methods, reason = "dropping tasks would write to Discord")]
fn exit_at_once() {
    tracing::error!(
        "this node has lost its place in the cluster; the program exits at once, to be started again"
    );
    std::process::exit(exit::TEMPORARY.into())
}
