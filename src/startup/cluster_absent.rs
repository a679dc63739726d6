//! Stands for `cluster` in a build without it.

use super::{OptionalPart, StartRefusal};
use aetheel_model::finding::Finding;
use aetheel_settings::Config;
use aetheel_store::workspace::{Journal, Workspace};

/// The membership of a node, which does not exist in this build.
pub enum Cluster {}

/// Refuses the settings of a cluster.
#[must_use]
pub fn findings(config: &Config) -> Vec<Finding> {
    let set = config.cluster_url.iter();
    set.map(|_| OptionalPart::Cluster.refuse_setting("CLUSTER_URL")).collect()
}

/// Returns `None`: the whole URL is redacted, and no part of this build reads it.
pub(super) fn password_of_url(_url: &str) -> Option<String> {
    None
}

/// Returns `None`, because `findings` refuses the start of a node.
pub(super) async fn join(
    _config: &Config,
    _workspace: &Workspace,
    _waits: impl FnOnce(),
) -> Result<Option<(Journal, Cluster)>, StartRefusal> {
    Ok(None)
}
