//! Arguments of `aetheel backend …`.

use std::path::PathBuf;

use clap::Subcommand;

use super::{AuthorCommand, Common};

/// The commands of `aetheel backend`.
#[derive(Debug, Subcommand)]
pub enum BackendCommand {
    /// List the backends: features, how each runs, and why some cannot work here
    List {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Print everything as JSON, for programs
        #[arg(long)]
        json: bool,
        /// Include agents that are not installed, each with the reason
        #[arg(long)]
        all: bool,
    },
    /// Check whether a backend's agent can work; may start the agent
    Ping {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Backend to check, instead of AGENT_BACKEND
        #[arg(value_name = "BACKEND")]
        name: Option<String>,
    },
    /// A command of backend authors, which `aetheel-kit` runs.
    #[command(flatten)]
    Author(AuthorCommand),
    /// Check and install a version of a backend; a running gateway loads it at once
    Install {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// File of the backend, or its reference in a registry (`oci://HOST/NAME:TAG`)
        #[arg(value_name = "FILE", required_unless_present = "locked")]
        component: Option<PathBuf>,
        /// Install exactly the versions that backends.lock.md names
        #[arg(long, conflicts_with = "component")]
        locked: bool,
        /// Read from a folder with the OCI image layout instead of a registry
        #[arg(long, value_name = "FOLDER")]
        from: Option<PathBuf>,
        /// Install what a tag names now, although backends.lock.md has another version of it
        #[arg(long, conflicts_with = "locked")]
        follow_tag: bool,
        /// Trust the file from now on: add its SHA-256 to backends.md
        #[arg(long)]
        pin: bool,
        /// Accept its capabilities without a question
        #[arg(long, short)]
        yes: bool,
    },
    /// Show the capabilities of a backend that were not accepted yet, and accept them; a running
    /// gateway then loads it
    Approve {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend
        #[arg(value_name = "BACKEND")]
        name: String,
        /// Accept them without a question
        #[arg(long, short)]
        yes: bool,
    },
    /// Restore the version that served before
    Rollback {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend
        #[arg(value_name = "BACKEND")]
        name: String,
    },
    /// Show how a new version on rollout reads turns, compared with the serving one
    Rollout {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend
        #[arg(value_name = "BACKEND")]
        name: String,
    },
    /// Show the rollouts that have ended, with the differences that were found
    History {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend; without it, all backends are shown
        #[arg(value_name = "BACKEND")]
        name: Option<String>,
    },
    /// Let a new version on rollout serve now
    Promote {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend
        #[arg(value_name = "BACKEND")]
        name: String,
    },
    /// Drop a new version on rollout; its file is renamed
    Withdraw {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The backend
        #[arg(value_name = "BACKEND")]
        name: String,
    },
}
