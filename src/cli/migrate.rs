//! Arguments of `aetheel migrate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Common;

/// The source of a migration, and its options.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Program to migrate from
    #[arg(value_enum, value_name = "PROGRAM")]
    pub source: SourceApp,
    /// Settings shared by all commands.
    #[command(flatten)]
    pub common: Common,
    /// Folder of that program, instead of the one it uses by default
    #[arg(long, value_name = "FOLDER")]
    pub from: Option<PathBuf>,
    /// Write without a question
    #[arg(long, short, conflicts_with = "preview")]
    pub yes: bool,
    /// Only show the changes
    #[arg(long, visible_alias = "dry-run")]
    pub preview: bool,
}

/// A program whose files can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SourceApp {
    /// `OpenClaw`, in `~/.openclaw`.
    Openclaw,
    /// cc-connect, in `~/.cc-connect`.
    CcConnect,
    /// Kimaki, in `~/.kimaki`.
    Kimaki,
    /// Hermes Agent, in `~/.hermes`.
    Hermes,
}
