//! Commands about the machines of a cluster.

mod drain;
pub(super) mod nodes;
mod transfer;

use crate::cli::{ClusterTask, exit};
use crate::startup::cluster::exit_code;
use crate::startup::settings::OperatorSettings;
use crate::terminal::print_stderr;
use aetheel_cluster::ClusterError;

/// Carries out a task. Returns the exit code.
pub(super) async fn run(settings: OperatorSettings, task: ClusterTask) -> u8 {
    match task {
        ClusterTask::Nodes { json } => nodes::run(settings, json).await,
        ClusterTask::Drain { node, undo: true, .. } => drain::undo(settings, &node).await,
        ClusterTask::Drain { node, no_wait, .. } => drain::run(settings, &node, no_wait).await,
        ClusterTask::Import => transfer::import(settings).await,
        ClusterTask::Export => transfer::export(settings).await,
    }
}

/// Returns the address of the database, or the exit code if it is not set.
fn cluster_url(settings: &OperatorSettings) -> Result<&secrecy::SecretString, u8> {
    settings.config.cluster_url.as_ref().ok_or_else(|| {
        print_stderr(
            "CLUSTER_URL is not set: this machine is not part of a cluster (docs/cluster.md)",
        );
        exit::CONFIG
    })
}

fn report_error(settings: &OperatorSettings, error: &ClusterError) -> u8 {
    print_stderr(&settings.redactor.redact(error.to_string()));
    exit_code(error)
}
