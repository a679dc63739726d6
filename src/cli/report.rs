//! Arguments of `aetheel report`, `reproduce` and `simulate-crash`.

use std::path::PathBuf;

use clap::Args;

use super::Common;
use aetheel_kit::report::FaultKind;

/// Arguments of `aetheel report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    pub common: Common,
    /// The id of a turn, a recording, or a channel for its last turn
    #[arg(value_name = "TURN|RECORDING|CHANNEL")]
    pub turn: PathBuf,
    /// Use this backend, a file or a name, instead of the component that made the recording
    #[arg(long, value_name = "BACKEND")]
    pub backend: Option<PathBuf>,
    /// Kind of fault, if there are several: trap, limit, refused, action, unended, unread, protocol,
    /// missing or drift; by default the first of these
    #[arg(long, value_name = "KIND")]
    pub fault: Option<FaultKind>,
    /// A text that the agent printed and that is missing from its answer
    #[arg(long, value_name = "TEXT")]
    pub expect: Option<String>,
    /// File to write; by default named after the turn, in this folder
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep words that the fault needs, even if they may come from people
    #[arg(long)]
    pub keep_text: bool,
    /// Maximum number of replays
    #[arg(long, value_name = "NUMBER", default_value_t = 4_000)]
    pub replays: usize,
    /// Maximum time in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub seconds: u64,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `aetheel simulate-crash`.
#[derive(Debug, Args)]
pub struct SimulateCrashArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    pub common: Common,
    /// A recording, the id of a turn, or a channel for its last turn
    #[arg(value_name = "RECORDING|TURN|CHANNEL")]
    pub recording: PathBuf,
    /// Number of points at equal distances; 0 for every input and action
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub points: usize,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `aetheel reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    pub common: Common,
    /// The report
    pub file: PathBuf,
    /// Use this backend, a file or a name, instead of the component that the report names
    #[arg(long, value_name = "BACKEND")]
    pub backend: Option<PathBuf>,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}
