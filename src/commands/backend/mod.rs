//! Commands that install and replace backends. `crates/authoring` has the ones for their authors.

mod approve;
#[cfg_attr(not(feature = "registry"), path = "artifacts_absent.rs")]
mod artifacts;
mod changes;
mod consent;
mod fetched;
mod install;
mod list;
mod locked;
mod ping;
mod rollback;
mod rollout;
mod serving;

use clap::{Args, Subcommand};

use self::approve::ApproveArgs;
use self::install::InstallArgs;
use self::list::ListArgs;
use self::ping::PingArgs;
use self::rollout::{HistoryArgs, RolloutAction};
use crate::cli::{AuthorCommand, Common};
use crate::kit_program;

/// The commands of `aetheel backend`.
#[derive(Debug, Subcommand)]
pub enum BackendCommand {
    /// List the backends: features, how each runs, and why some cannot work here
    List(ListArgs),
    /// Check whether a backend's agent can work; may start the agent
    Ping(PingArgs),
    /// A command of backend authors, which `aetheel-kit` runs.
    #[command(flatten)]
    Author(AuthorCommand),
    /// Check and install a version of a backend; a running gateway loads it at once
    Install(InstallArgs),
    /// Show the capabilities of a backend that were not accepted yet, and accept them; a running
    /// gateway then loads it
    Approve(ApproveArgs),
    /// Restore the version that served before
    Rollback(BackendArgs),
    /// Show how a new version on rollout reads turns, compared with the serving one
    Rollout(BackendArgs),
    /// Show the rollouts that have ended, with the differences that were found
    History(HistoryArgs),
    /// Let a new version on rollout serve now
    Promote(BackendArgs),
    /// Drop a new version on rollout; its file is renamed
    Withdraw(BackendArgs),
}

/// Arguments of a command about one backend.
#[derive(Args, Debug)]
pub struct BackendArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    common: Common,
    /// The backend
    #[arg(value_name = "BACKEND")]
    name: String,
}

impl BackendCommand {
    pub(super) fn run(self) -> u8 {
        match self {
            Self::List(args) => args.run(),
            Self::Ping(args) => args.run(),
            Self::Author(_) => kit_program::run(),
            Self::Install(args) => args.run(),
            Self::Approve(args) => args.run(),
            Self::Rollback(args) => rollback::run(&args),
            Self::Rollout(args) => rollout::run(&args, RolloutAction::Show),
            Self::History(args) => args.run(),
            Self::Promote(args) => rollout::run(&args, RolloutAction::Promote),
            Self::Withdraw(args) => rollout::run(&args, RolloutAction::Withdraw),
        }
    }
}
