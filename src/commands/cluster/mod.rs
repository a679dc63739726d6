//! Commands about the machines of a cluster.

#[cfg_attr(not(feature = "cluster"), path = "tasks_absent.rs")]
pub(super) mod tasks;

use clap::{Args, Subcommand};

use super::context::{block_on_command, with_sound_settings};
use crate::cli::{Common, JsonArgs};

/// The commands about the machines of a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// List the machines of the cluster with their state
    Nodes(JsonArgs),
    /// Move all channels of a machine to the others; return when that is done
    Drain(DrainArgs),
    /// Move between one machine and several
    #[command(subcommand)]
    Cluster(TransferCommand),
}

/// The commands of `aetheel cluster`.
#[derive(Debug, Subcommand)]
pub enum TransferCommand {
    /// Import the journal of this machine into the database of its cluster; `run` does this too
    Import(Common),
    /// Export the journal of the cluster to this machine, its last one, which then runs alone
    Export(Common),
}

/// Arguments of `aetheel drain`.
#[derive(Args, Debug)]
pub struct DrainArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    pub common: Common,
    /// Name of the machine, as `aetheel nodes` shows it
    pub node: String,
    /// Let the machine have channels again
    #[arg(long)]
    pub undo: bool,
    /// Do not wait until all channels are moved
    #[arg(long, conflicts_with = "undo")]
    pub no_wait: bool,
}

impl ClusterCommand {
    fn common(&self) -> &Common {
        match self {
            Self::Nodes(args) => &args.common,
            Self::Drain(args) => &args.common,
            Self::Cluster(TransferCommand::Import(common) | TransferCommand::Export(common)) => {
                common
            }
        }
    }

    pub(super) fn run(self) -> u8 {
        with_sound_settings(self.common(), |settings| block_on_command(tasks::run(settings, &self)))
    }
}
