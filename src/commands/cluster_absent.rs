//! Stands for `cluster` in a build without it.

use crate::cli::ClusterTask;
use crate::startup::OptionalPart;
use crate::startup::settings::OperatorSettings;

/// Refuses the commands about a cluster. Returns the exit code.
pub(super) async fn run(_settings: OperatorSettings, _task: ClusterTask) -> u8 {
    OptionalPart::Cluster.refuse_command()
}
