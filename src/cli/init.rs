//! `aetheel init`: its questions as flags.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The answers that are given beforehand.
#[derive(Debug, Default, Args)]
pub struct Init {
    /// Folder of the markdown files, instead of the one that is found
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// File of settings to write or change, instead of settings.env in that folder
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
    /// File with the bot's token, or `-` for stdin; without, DISCORD_BOT_TOKEN counts
    #[arg(long, value_name = "PATH")]
    pub token_file: Option<PathBuf>,
    /// Backend that answers where nothing else is chosen
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    /// Discord ids of people who may use the bot, separated by commas
    #[arg(long, value_name = "IDS")]
    pub users: Option<String>,
    /// Discord ids of roles that may use the bot
    #[arg(long, value_name = "IDS")]
    pub roles: Option<String>,
    /// Discord ids of the channels it answers in
    #[arg(long, value_name = "IDS")]
    pub channels: Option<String>,
    /// Discord ids of the servers it answers in
    #[arg(long, value_name = "IDS")]
    pub servers: Option<String>,
    /// Everybody in its servers may use the bot: takes all lists out
    #[arg(long, conflicts_with_all = ["users", "roles", "channels", "servers"])]
    pub allow_everybody: bool,
    /// What the agent may do without asking: default, plan, acceptEdits or bypassPermissions
    #[arg(long, value_name = "MODE")]
    pub safety: Option<String>,
    /// Folder of the backends (`*.wasm`), instead of the one that is found
    #[arg(long, value_name = "FOLDER")]
    pub backends: Option<PathBuf>,
    /// Working directory of the agent
    #[arg(long, value_name = "FOLDER")]
    pub workspace: Option<PathBuf>,
    /// Do not ask Discord whether it knows the token
    #[arg(long)]
    pub offline: bool,
    /// Ask nothing: flags and what stands in the file are all there is
    #[arg(long, short)]
    pub yes: bool,
    /// What to do when the files are written
    #[arg(long, value_enum, value_name = "WHAT")]
    pub then: Option<Then>,
}

/// What follows the set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Then {
    /// Say how it is started.
    Nothing,
    /// Start the gateway now.
    Start,
    /// Print the units for systemd.
    PrintUnit,
    /// Install the units for this user's systemd.
    InstallUnit,
}
