//! Stands for `tasks` in a build without clusters.

use super::ClusterCommand;
use crate::startup::OptionalPart;
use crate::startup::settings::OperatorSettings;

/// Refuses the commands about a cluster. Returns the exit code.
pub(super) async fn run(_settings: OperatorSettings, _command: &ClusterCommand) -> Result<u8, u8> {
    Err(OptionalPart::Cluster.refuse_command())
}
