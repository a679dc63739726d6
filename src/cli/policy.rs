//! Arguments of `aetheel policy …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::civil::Date;

use super::Common;

/// The commands of `aetheel policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Create a new policy in Rust that builds and passes its check
    New {
        /// Name of the policy: lower-case letters, digits and `-`
        name: String,
        /// Folder to create, which must not exist; by default the name
        #[arg(long, value_name = "FOLDER")]
        into: Option<PathBuf>,
    },
    /// Check that a policy can be used: admission, and decisions about hostile requests
    Check {
        /// File of the policy
        #[arg(value_name = "FILE")]
        component: PathBuf,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Compare a policy's decisions about recorded requests with the answers of people. Exit code 1
    /// if it would have allowed a request that people denied
    #[command(after_help = "Examples:
  aetheel policy replay backends/policies/guard.wasm
  aetheel policy replay guard.wasm --since 2026-11-20
  aetheel policy replay guard.wasm --json | jq '.\"allowed-but-denied\"'")]
    Replay(PolicyReplayArgs),
}

/// Arguments of `aetheel policy replay`.
#[derive(Debug, Args)]
pub struct PolicyReplayArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    pub common: Common,
    /// File of the policy
    #[arg(value_name = "FILE")]
    pub component: PathBuf,
    /// Recordings to read; by default all of the gateway (RECORDINGS_DIR)
    pub recordings: Vec<PathBuf>,
    /// Leave out the recordings of earlier days
    #[arg(long, value_name = "DATE")]
    pub since: Option<Date>,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}
