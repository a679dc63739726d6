//! The command line: its commands and arguments, and the exit codes.

mod backend;
mod init;
mod migrate;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use self::backend::{BackendCommand, Kind, Language};
pub use self::init::{Init, Then};
pub use self::migrate::{Migrate, Neighbour};

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
    /// Set it up by answering questions; every question is a flag too
    Init(Init),
    /// Take over personality, memory, schedules and channels of OpenClaw, cc-connect, Kimaki or
    /// Hermes Agent; shows first what would be written
    Migrate(Migrate),
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
    /// Say whether the gateway is alive: exit code 0, or 1 and why. For health checks of containers
    Health(Common),
    /// The machines of the cluster: what each does
    Nodes(Common),
    /// Have a machine of the cluster give its channels to the others; return when it has none
    Drain {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Its name, as `aetheel nodes` shows it
        node: String,
        /// Have it work again
        #[arg(long)]
        undo: bool,
        /// Do not wait until it has none
        #[arg(long, conflicts_with = "undo")]
        no_wait: bool,
    },
    /// Move between one machine and several
    #[command(subcommand)]
    Cluster(ClusterCommand),
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
    /// Show what turns cost: by day, lane, person, backend and model, as far as agents told
    Costs {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The last days, today included
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=3660))]
        days: u16,
        /// As comma-separated values: a row for each day, lane, person and backend
        #[arg(long)]
        csv: bool,
    },
    /// Keep agents while the gateway is away: `aetheel run` starts them through this process, and
    /// finds them again after a restart. It starts one by itself where none runs
    Hold(Hold),
    /// Rehearse a start beside the running gateway: settings, journal and state files are read, and
    /// the last recordings are read again; change nothing. Exit code 0 it fits, 1 it does not
    Rehearse {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// How many recordings are read again, the newest first
        #[arg(long, value_name = "N", default_value_t = 50)]
        recordings: usize,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Replace the program, if it passes its rehearsal, and have the running gateway hand over to it
    /// while agents go on
    Upgrade {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The new program; without, this one
        #[arg(long, value_name = "PATH")]
        binary: Option<PathBuf>,
    },
    /// Write the man pages and the completions of shells below this folder, for packages
    #[command(hide = true)]
    Pages {
        /// Laid out as `share` is.
        share: PathBuf,
    },
    /// Play the scripted agent behind the backend `demo`
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    DemoAgent {
        /// Its own arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// What `aetheel cluster` does.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Bring what this machine has left to do into the database of its cluster; `run` does so, too
    Import(Common),
    /// Take what the cluster has left to do back to this machine, its last one, to serve alone
    Export(Common),
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

/// How agents are held.
#[derive(Debug, Args)]
pub struct Hold {
    /// State folder of the gateway, instead of CONFIG_DIR/state
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
    /// End all agents when no gateway came for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub claim_within: u64,
    /// Leave when there is neither a gateway nor an agent, as one does that `aetheel run` started
    #[arg(long)]
    pub leave_when_empty: bool,
    /// Leave session, descriptors and cgroup of whoever starts it.
    #[arg(long, hide = true)]
    pub detach: bool,
}

/// Exit codes, after sysexits.h.
pub mod exit {
    /// The command did all it was to do.
    pub const OK: u8 = 0;
    /// It was not done: a prompt of a scripted console was not answered, a rehearsal showed
    /// differences, an upgrade was not made.
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
