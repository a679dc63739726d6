//! Stands for `tasks` in a build without clusters.

use super::ClusterCommand;
use crate::startup::OptionalPart;
use crate::startup::settings::OperatorSettings;

/// Refuses the commands about a cluster. Returns the exit code.
pub(super) async fn run(_settings: OperatorSettings, _command: &ClusterCommand) -> u8 {
    OptionalPart::Cluster.refuse_command()
}
