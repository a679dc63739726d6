//! Stands for `cluster` in a build without it.

use super::ClusterTask;
use crate::startup::OptionalPart;
use crate::startup::settings::OperatorSettings;

/// Refuses the commands about a cluster. Returns the exit code.
#[expect(clippy::unused_async, reason = "a build with a cluster asks the database")]
pub(super) async fn run(_settings: OperatorSettings, _task: ClusterTask) -> u8 {
    OptionalPart::Cluster.refuse_command()
}
