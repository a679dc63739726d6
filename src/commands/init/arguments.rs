//! Arguments of `aetheel init`: each of its questions is a flag.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Answers that are given on the command line.
#[derive(Debug, Default, Args)]
pub struct InitArgs {
    /// Folder of the markdown files, instead of the default one
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// File of settings to write or change, instead of settings.env in that folder
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
    /// File with the bot's token, or `-` for stdin; by default DISCORD_BOT_TOKEN is used
    #[arg(long, value_name = "PATH")]
    pub token_file: Option<PathBuf>,
    /// Default backend
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    #[command(flatten)]
    pub access: AccessArgs,
    /// The permissions of agents: ask (before every change), edit (files, and ask before commands),
    /// plan, read or everything
    #[arg(long, value_name = "WHAT")]
    pub safety: Option<String>,
    /// Folder of the backends (`*.wasm`), instead of the default one
    #[arg(long, value_name = "FOLDER")]
    pub backends: Option<PathBuf>,
    /// Working directory of the agent
    #[arg(long, value_name = "FOLDER")]
    pub workspace: Option<PathBuf>,
    #[command(flatten)]
    pub optional: OptionalArgs,
    /// Do not check the token with Discord
    #[arg(long)]
    pub offline: bool,
    /// Ask no questions: use the flags and the settings in the file
    #[arg(long, short)]
    pub yes: bool,
    /// Next step after the files are written
    #[arg(long, value_enum, value_name = "WHAT")]
    pub then: Option<Then>,
}

/// The lists of people and places that may use the bot.
#[derive(Debug, Default, Args)]
pub struct AccessArgs {
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
    /// Let everybody in the bot's servers use it: removes all lists
    #[arg(long, conflicts_with_all = ["users", "roles", "channels", "servers"])]
    pub allow_everybody: bool,
}

/// Settings that a setup can leave out.
#[derive(Debug, Default, Args)]
pub struct OptionalArgs {
    /// Discord id of the channel for warnings and answers of schedules
    #[arg(long, value_name = "ID")]
    pub output_channel: Option<String>,
    /// Address that the dashboard listens at, such as 127.0.0.1:8788
    #[arg(long, value_name = "ADDRESS")]
    pub dashboard: Option<String>,
    /// Address under which people open the dashboard, such as `https://agents.example.com`
    #[arg(long, value_name = "URL")]
    pub dashboard_url: Option<String>,
}

/// Next step after the setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Then {
    /// Print how to start the gateway.
    Nothing,
    /// Start the gateway now.
    Start,
    /// Print the units for systemd.
    PrintUnit,
    /// Install the units for this user's systemd.
    InstallUnit,
}
