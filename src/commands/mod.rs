//! The commands of the program: one file per command, with its arguments and its work.

mod audit;
mod backend;
mod check;
mod cluster;
mod command_line;
mod completing;
mod config;
mod console;
pub mod context;
mod costs;
mod doctor;
mod extension_row;
mod gateway;
mod health;
mod init;
pub mod kit;
mod listing;
mod listing_rows;
mod pages;
mod recover;
mod serving;
mod upgrade;

use std::path::PathBuf;

use aetheel_hold::HoldArgs;
use clap::Subcommand;
use clap_complete::Shell;

use self::audit::AuditCommand;
pub use self::backend::BackendCommand;
use self::cluster::ClusterCommand;
pub use self::command_line::{Cli, main};
pub use self::completing::complete;
use self::config::ConfigArgs;
use self::console::ConsoleArgs;
use self::context::{block_on, with_repaired_files};
use self::costs::CostsArgs;
use self::doctor::DoctorArgs;
use self::gateway::GatewayCommand;
use self::init::InitArgs;
use self::recover::RecoverArgs;
use self::upgrade::UpgradeArgs;
use crate::cli::{
    Common, JsonArgs, ObserverCommand, PolicyCommand, ReportArgs, ReproduceArgs, SimulateCrashArgs,
};
use crate::{app, demo, kit_program, terminal};

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Set Aetheel up by answering questions; every question is a flag too
    #[command(after_help = "Examples:
  aetheel init
  aetheel init --yes --token-file token.txt --backend NAME --users 123456789012345678
  aetheel init --yes --then install-unit")]
    Init(InitArgs),
    /// A command about the running gateway.
    #[command(flatten)]
    Gateway(GatewayCommand),
    /// Answer in Discord until stopped
    #[command(after_help = "Examples:
  aetheel run
  aetheel run --env-file /etc/aetheel/settings.env")]
    Run(Common),
    /// Talk to an agent at the terminal, or line by line on stdin
    #[command(after_help = "Examples:
  aetheel console --backend demo
  echo 'What is in this folder?' | aetheel console")]
    Console(ConsoleArgs),
    /// Check configuration, folders, state, backends and agent without starting anything
    #[command(after_help = "Examples:
  aetheel check
  aetheel check --env-file .env && aetheel run --env-file .env
  aetheel check --json | jq '.lines[] | select(.level == \"fault\")'")]
    Check(JsonArgs),
    /// Print the settings, caps and limits in force, each with the line that says so
    #[command(after_help = "Examples:
  aetheel config
  aetheel config 1099511627776123456
  aetheel config console")]
    Config(ConfigArgs),
    /// Check everything that `check` does, and Discord, agents, limits and disks; change nothing.
    /// Exit codes: 0 no problems, 1 warnings, 2 faults
    #[command(after_help = "Examples:
  aetheel doctor
  aetheel doctor --offline --json | jq '.lines[] | select(.level == \"fault\")'")]
    Doctor(DoctorArgs),
    /// Report whether the gateway is healthy: exit code 0, or 1 with the reason. For health checks
    /// of containers
    Health(JsonArgs),
    /// A command about the machines of a cluster.
    #[command(flatten)]
    Cluster(ClusterCommand),
    /// List, create, check, install and replace backends
    #[command(subcommand)]
    Backend(BackendCommand),
    /// Create and check policies, and try them on recorded requests
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Create and check observers
    #[command(subcommand)]
    Observer(ObserverCommand),
    /// Read again the replies that no backend could read so far, and deliver those that can be read
    /// now
    #[command(after_help = "Examples:
  aetheel recover --dry-run
  aetheel recover")]
    Recover(RecoverArgs),
    /// Show what turns cost: by day, channel, person, backend and model, as far as agents report it
    #[command(after_help = "Examples:
  aetheel costs
  aetheel costs --days 7 --csv > costs.csv
  aetheel costs --json | jq '.all.\"cost-usd\"'
  aetheel costs --what-if '$5 a day for each person'")]
    Costs(CostsArgs),
    /// Check and show the audit log of prompts, approvals, changes and turns
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Keep agents running while the gateway restarts: `aetheel run` starts agents through this
    /// process, and finds them again after a restart. It starts a holder itself if none runs
    Hold(HoldArgs),
    /// Check whether a restarted gateway could continue with an agent: cut a recording at many
    /// points and rebuild its link from each; change nothing. Exit code 0 if it can always, else 1
    #[command(after_help = "Examples:
  aetheel simulate-crash 7c1f7e52
  aetheel simulate-crash channel:123456789012345678 --points 0
  aetheel simulate-crash recordings/2026-11-22/7c1f7e52.jsonl --json | jq '.failed'")]
    SimulateCrash(SimulateCrashArgs),
    /// Write a small file with which anybody can reproduce what went wrong in a turn: the lines of
    /// its recording that still show the fault, without words of people and secrets. Exit code 1 if
    /// the backend shows no fault
    #[command(after_help = "Examples:
  aetheel report 7c1f7e52
  aetheel report 7c1f7e52 --fault drift -o drift.jsonl
  aetheel report 7c1f7e52 --expect 'The tests pass'
  aetheel report recording.jsonl --backend new.wasm")]
    Report(ReportArgs),
    /// Show the fault of a report that `aetheel report` wrote. Exit code 0 if it shows, 1 if not
    #[command(after_help = "Examples:
  aetheel reproduce 7c1f7e52.report.jsonl
  aetheel reproduce 7c1f7e52.report.jsonl --backend fixed.wasm")]
    Reproduce(ReproduceArgs),
    /// Replace the program, if the new one passes its checks, and restart the running gateway with
    /// it while agents continue. Without a service manager, start it in the background
    #[command(after_help = "Examples:
  aetheel upgrade --binary /path/to/new/aetheel
  aetheel upgrade --binary /path/to/new/aetheel --ignore-recordings")]
    Upgrade(UpgradeArgs),
    /// Print the completions of a shell
    #[command(after_help = "Examples:
  aetheel completions bash > ~/.local/share/bash-completion/completions/aetheel
  aetheel completions zsh > ~/.zfunc/_aetheel
  aetheel completions fish > ~/.config/fish/completions/aetheel.fish")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the man pages and the completions of shells below this folder, for packages
    #[command(hide = true)]
    Pages {
        /// Folder with the layout of `/usr/share`.
        share: PathBuf,
    },
    /// Play the scripted agent behind the backend `demo`
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    DemoAgent {
        /// Arguments of the scripted agent.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// Runs a command and returns the exit code.
pub fn run(cli: Cli) -> u8 {
    if matches!(cli.command, CliCommand::Run(_) | CliCommand::Hold(_)) {
        terminal::log_faults();
    }
    if let Err(code) = context::protect(&cli) {
        return code;
    }
    match cli.command {
        CliCommand::Init(args) => args.run(),
        CliCommand::Gateway(command) => command.run(),
        CliCommand::Run(common) => {
            with_repaired_files(&common, |settings| block_on(app::serve(settings)))
        }
        CliCommand::Console(args) => args.run(),
        CliCommand::Check(args) => check::run(&args),
        CliCommand::Config(args) => args.run(),
        CliCommand::Doctor(args) => args.run(),
        CliCommand::Health(args) => health::run(&args),
        CliCommand::Cluster(command) => command.run(),
        CliCommand::Backend(command) => command.run(),
        CliCommand::Recover(args) => args.run(),
        CliCommand::Costs(args) => args.run(),
        CliCommand::Audit(command) => command.run(),
        CliCommand::Hold(args) => aetheel_hold::run(args),
        CliCommand::Policy(_)
        | CliCommand::Observer(_)
        | CliCommand::SimulateCrash(_)
        | CliCommand::Report(_)
        | CliCommand::Reproduce(_) => kit_program::run(),
        CliCommand::Upgrade(args) => args.run(),
        CliCommand::Completions { shell } => pages::completions(shell),
        CliCommand::Pages { share } => pages::run(&share),
        CliCommand::DemoAgent { arguments } => {
            demo::run(arguments, std::io::stdin(), std::io::stdout(), std::io::stderr())
        }
    }
}
