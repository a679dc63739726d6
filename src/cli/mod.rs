//! The command line.

mod backend;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use self::backend::{BackendCommand, Kind, Language};

/// Coding agents in Discord, through backends that are replaced while it runs.
#[derive(Debug, Parser)]
#[command(
    name = "aetheel",
    version,
    about,
    after_help = "Settings are environment variables, see docs/configuration.md."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer in Discord until stopped
    Run(Common),
    /// Talk to an agent at the terminal, or line by line on stdin
    Console {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Backend to talk to, instead of AGENT_BACKEND
        #[arg(long, value_name = "NAME")]
        backend: Option<String>,
    },
    /// Check configuration, folders, backends and agent, and start nothing
    Check(Common),
    /// Examine the surroundings: Discord, agents, components, folders, limits; change nothing. Exit
    /// code 0 all is well, 1 warnings, 2 faults
    Doctor {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
        /// Ask nobody over the network
        #[arg(long)]
        offline: bool,
    },
    /// Backends: those there are, and everything to make, prove and replace one
    #[command(subcommand)]
    Backend(BackendCommand),
    /// Read the replies again that no parser could read so far, and have those delivered that can
    /// be read now
    Recover {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Show what would be delivered, deliver nothing
        #[arg(long)]
        dry_run: bool,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Play the scripted agent behind the backend `demo`
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    DemoAgent {
        /// Its own arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// Settings shared by all commands.
#[derive(Debug, Default, Args)]
pub struct Common {
    /// Read settings from this file too; the environment wins
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
    /// Read settings from this open descriptor too, in the form of an env file, and close it:
    /// nobody else can read them then
    #[arg(long, value_name = "N")]
    pub secrets_fd: Option<i32>,
}

/// Exit codes, after sysexits.h.
pub mod exit {
    /// All is well.
    pub const OK: u8 = 0;
    /// A prompt of a scripted console was not answered.
    pub const FAILED: u8 = 1;
    /// `aetheel doctor` found something to look at, but nothing that is broken.
    pub const WARNINGS: u8 = 1;
    /// `aetheel doctor` found something that is broken.
    pub const FAULTS: u8 = 2;
    /// The command line is wrong.
    pub const USAGE: u8 = 64;
    /// A backend or an agent is missing or not usable.
    pub const UNAVAILABLE: u8 = 69;
    /// A bug of ours.
    pub const SOFTWARE: u8 = 70;
    /// Another gateway serves the same CONFIG_DIR.
    pub const LOCKED: u8 = 73;
    /// Discord or an agent's service could not be reached for too long; starting again later may
    /// help.
    pub const TEMPORARY: u8 = 75;
    /// Discord refused the token.
    pub const NO_PERMISSION: u8 = 77;
    /// The configuration is wrong.
    pub const CONFIG: u8 = 78;
}
