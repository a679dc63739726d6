//! Arguments of `aetheel audit …`.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use jiff::civil::Date;

use super::Common;
use aetheel_model::audit::AuditKind;

/// The commands of `aetheel audit`.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check that no entry was changed, removed, moved or cut off. Exit code 1 and the first bad
    /// line if one was
    #[command(after_help = "Examples:
  aetheel audit verify
  aetheel audit verify --head \"$(cat head-of-yesterday)\"")]
    Verify {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Entry that `aetheel audit head` printed earlier, which must still be part of the chain
        #[arg(long, value_name = "NUMBER:HASH")]
        head: Option<String>,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Print the newest entry as NUMBER:HASH, to store it on another machine
    Head {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
    },
    /// Show entries, the oldest first
    #[command(after_help = "Examples:
  aetheel audit show --kind request-decided --since 2026-11-20
  aetheel audit show --person 123456789012345678 --json | jq .fields.backend")]
    Show(AuditFilter),
}

/// The entries to show.
#[derive(Args, Debug)]
pub struct AuditFilter {
    /// Settings shared by all commands.
    #[command(flatten)]
    pub common: Common,
    /// Only entries of this person: an id, or a part of the name
    #[arg(long, value_name = "ID|NAME")]
    pub person: Option<String>,
    /// Only entries of this lane, such as `channel:123456789012345678`
    #[arg(long, value_name = "LANE")]
    pub lane: Option<String>,
    /// Only entries of this kind, such as `turn-ended`
    #[arg(long, value_name = "KIND", value_parser = kinds(), hide_possible_values = true)]
    pub kind: Option<String>,
    /// Only entries of this day (UTC) and later ones
    #[arg(long, value_name = "DATE")]
    pub since: Option<Date>,
    /// Only entries of this day (UTC) and earlier ones
    #[arg(long, value_name = "DATE")]
    pub until: Option<Date>,
    /// Print a line of JSON for each entry, for programs
    #[arg(long)]
    pub json: bool,
}

/// Accepts the words of the log's kinds.
fn kinds() -> PossibleValuesParser {
    AuditKind::ALL.map(AuditKind::word).into()
}
