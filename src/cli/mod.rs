//! Arguments that several commands share, the arguments of the commands of backend authors, and the
//! exit codes. Each other command has its arguments in its file in `commands`.

mod author;
mod observer;
mod policy;
mod report;

use std::path::PathBuf;

use clap::Args;

pub use self::author::{
    AgentRunKind, AuthorCommand, BenchArgs, BindingsArgs, CheckArgs, CompareArgs, ComponentizeArgs,
    DevArgs, InspectArgs, Language, MendArgs, NewArgs, ProfileArgs, RecordArgs, ReplayArgs,
    TestArgs,
};
pub use self::observer::ObserverCommand;
pub use self::policy::{PolicyCommand, PolicyReplayArgs};
pub use self::report::{ReportArgs, ReproduceArgs, SimulateCrashArgs};
use crate::terminal::Verbosity;
pub use aetheel_model::exit;

/// Settings shared by all commands.
#[derive(Debug, Default, Args)]
pub struct Common {
    /// Read settings from this file too; the environment takes precedence
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
    /// Read settings from this open file descriptor too, in the format of an env file, and close
    /// it, so that no other process can read them
    #[arg(long, value_name = "N")]
    pub secrets_fd: Option<i32>,
    /// Log more: `debug`, or `trace` if given twice. Commands that usually log only errors log
    /// `info` first
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Log only warnings and errors, and print only problems
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
}

impl Common {
    /// Returns how much the command prints and logs.
    #[must_use]
    pub fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Usual,
            (false, 1) => Verbosity::More,
            (false, _) => Verbosity::All,
        }
    }
}

/// Arguments of a command whose only option is JSON.
#[derive(Debug, Args)]
pub struct JsonArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    pub common: Common,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}
