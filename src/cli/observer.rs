//! Arguments of `aetheel observer …`.

use std::path::PathBuf;

use clap::Subcommand;

/// The commands of `aetheel observer`.
#[derive(Debug, Subcommand)]
pub enum ObserverCommand {
    /// Create a new observer in Rust that builds and passes its check
    New {
        /// Name of the observer: lower-case letters, digits and `-`
        name: String,
        /// Folder to create, which must not exist; by default the name
        #[arg(long, value_name = "FOLDER")]
        into: Option<PathBuf>,
    },
    /// Check that an observer can be used: its imports, its contract, its options and a first event
    Check {
        /// File of the observer
        #[arg(value_name = "FILE")]
        component: PathBuf,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
}
