//! The work of the commands about a cluster.

mod drain;
pub(in crate::commands) mod nodes;
mod transfer;

use crate::cli::exit;
use crate::commands::cluster::{ClusterCommand, TransferCommand};
use crate::startup::cluster::exit_code;
use crate::startup::settings::OperatorSettings;
use crate::terminal::print_stderr;
use aetheel_cluster::ClusterError;

/// Carries out a command. Returns the exit code.
pub(super) async fn run(settings: OperatorSettings, command: &ClusterCommand) -> Result<u8, u8> {
    match command {
        ClusterCommand::Nodes(args) => nodes::run(settings, args.json).await,
        ClusterCommand::Drain(args) if args.undo => drain::undo(settings, &args.node).await,
        ClusterCommand::Drain(args) => drain::run(settings, &args.node, args.no_wait).await,
        ClusterCommand::Cluster(TransferCommand::Import(_)) => transfer::import(settings).await,
        ClusterCommand::Cluster(TransferCommand::Export(_)) => transfer::export(settings).await,
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
