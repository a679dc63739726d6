//! The command line: its commands and arguments, and the exit codes.

mod audit;
mod author;
mod backend;
mod gateway;
mod init;
mod observer;
mod policy;
mod report;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use aetheel_hold::HoldArgs;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;

pub use self::audit::{AuditCommand, AuditFilter};
pub use self::author::{
    AgentRunKind, AuthorCommand, BenchArgs, BindingsArgs, CheckArgs, CompareArgs, ComponentizeArgs,
    DevArgs, InspectArgs, Language, MendArgs, NewArgs, ProfileArgs, RecordArgs, ReplayArgs,
    TestArgs,
};
pub use self::backend::BackendCommand;
pub use self::gateway::GatewayCommand;
pub use self::init::{InitArgs, Then};
pub use self::observer::ObserverCommand;
pub use self::policy::{PolicyCommand, PolicyReplayArgs};
pub use self::report::{ReportArgs, ReproduceArgs, SimulateCrashArgs};
use crate::terminal::Verbosity;
use aetheel_model::budget::{BudgetCap, CapError};
use aetheel_model::choice::LogFormat;
pub use aetheel_model::exit;
use aetheel_model::suggest::nearest;
use aetheel_runtime::log;

/// Coding agents in Discord, through backends that are replaced while it runs.
#[derive(Debug, Parser)]
#[command(
    name = "aetheel",
    version,
    about,
    help_template = "{about}\n\n{usage-heading} {usage}\n\n{after-help}\n\nOptions:\n{options}"
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: CliCommand,
}

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
    Console {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Backend to talk to, instead of AGENT_BACKEND
        #[arg(long, value_name = "BACKEND")]
        backend: Option<String>,
    },
    /// Check configuration, folders, state, backends and agent without starting anything
    #[command(after_help = "Examples:
  aetheel check
  aetheel check --env-file .env && aetheel run --env-file .env
  aetheel check --json | jq '.lines[] | select(.level == \"fault\")'")]
    Check {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Print the settings, caps and limits in force, each with the line that says so
    #[command(after_help = "Examples:
  aetheel config
  aetheel config 1099511627776123456
  aetheel config console")]
    Config {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Id of a channel, or another lane, whose settings are printed too
        channel: Option<String>,
    },
    /// Check everything that `check` does, and Discord, agents, limits and disks; change nothing.
    /// Exit codes: 0 no problems, 1 warnings, 2 faults
    #[command(after_help = "Examples:
  aetheel doctor
  aetheel doctor --offline --json | jq '.lines[] | select(.level == \"fault\")'")]
    Doctor {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
        /// Make no network requests
        #[arg(long)]
        offline: bool,
    },
    /// Report whether the gateway is healthy: exit code 0, or 1 with the reason. For health checks
    /// of containers
    Health {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// List the machines of the cluster with their state
    Nodes {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Move all channels of a machine to the others; return when that is done
    Drain {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Name of the machine, as `aetheel nodes` shows it
        node: String,
        /// Let the machine have channels again
        #[arg(long)]
        undo: bool,
        /// Do not wait until all channels are moved
        #[arg(long, conflicts_with = "undo")]
        no_wait: bool,
    },
    /// Move between one machine and several
    #[command(subcommand)]
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
    Recover {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Only show the replies that would be delivered
        #[arg(long)]
        dry_run: bool,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Show what turns cost: by day, channel, person, backend and model, as far as agents report it
    #[command(after_help = "Examples:
  aetheel costs
  aetheel costs --days 7 --csv > costs.csv
  aetheel costs --json | jq '.all.\"cost-usd\"'
  aetheel costs --what-if '$5 a day for each person'")]
    Costs {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Number of days, including today
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=3660))]
        days: u16,
        /// Print comma-separated values: a row for each day, lane, person and backend
        #[arg(long)]
        csv: bool,
        /// Print JSON, for programs
        #[arg(long, conflicts_with = "csv")]
        json: bool,
        /// Show which of these turns a cap would have stopped, such as `$5 a day for each person`
        #[arg(long, value_name = "CAP", conflicts_with_all = ["csv", "json"], value_parser = what_if_cap)]
        what_if: Option<BudgetCap>,
    },
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
    Upgrade {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// The new program; by default this one
        #[arg(long, value_name = "PATH")]
        binary: Option<PathBuf>,
        /// Do not compare recordings, which fails if the new version reads other answers from them
        #[arg(long)]
        ignore_recordings: bool,
    },
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

/// Commands that an earlier version had, each with a hint at what replaces it.
const REMOVED: [(&str, &str); 4] = [
    ("migrate", "`aetheel-migrate` imports from OpenClaw (docs/migrating.md)"),
    ("mirror", "`oras cp` copies backends between registries and folders (docs/backends.md)"),
    ("publish", "`oras push` stores a backend in a registry (docs/kit.md)"),
    (
        "rehearse",
        "to upgrade from an older version, run `PATH/TO/NEW/aetheel upgrade`; its two checks are `aetheel check` and `aetheel backend compare`",
    ),
];

/// The groups of commands in the help.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Set up", &["init", "check", "config", "doctor", "completions"]),
    ("Run", &["run", "console", "stop", "restart", "hold", "upgrade"]),
    (
        "Look",
        &[
            "status",
            "logs",
            "health",
            "costs",
            "audit",
            "recover",
            "report",
            "reproduce",
            "simulate-crash",
        ],
    ),
    ("Backends", &["backend", "policy", "observer"]),
    ("Several machines", &["nodes", "drain", "cluster"]),
];

/// Returns whether a command writes a log to stderr while it runs.
#[must_use]
pub fn has_log(command: &str) -> bool {
    matches!(command, "run" | "hold")
}

fn what_if_cap(text: &str) -> Result<BudgetCap, CapError> {
    BudgetCap::parse("what-if", text)
}

/// Builds the clap command. Its help shows the commands in groups.
#[must_use]
pub fn command() -> clap::Command {
    let command = Cli::command();
    let about = |name: &str| {
        let found = command.find_subcommand(name).and_then(clap::Command::get_about);
        let about = found.map(ToString::to_string).unwrap_or_default();
        // The first clause is enough for an overview.
        let clause = about.split(['.', ':', ';']).next().unwrap_or_default();
        clause.split(", and ").next().unwrap_or_default().to_owned()
    };
    let groups = GROUPS.map(|(title, names)| {
        let lines = names.iter().map(|name| format!("  {name:<14} {}", about(name)));
        format!("{title}:\n{}", lines.collect::<Vec<_>>().join("\n"))
    });
    let hint = "`aetheel COMMAND --help` has examples. Settings are environment variables: docs/configuration.md.";
    let help = format!("{}\n\n{hint}", groups.join("\n\n"));
    command.after_help(help)
}

/// Parses the command line of this process.
///
/// # Errors
/// Returns an error with the text to print if the command line is wrong or asks for help.
pub fn parse() -> Result<Cli, clap::Error> {
    let mut command = command();
    let names: Vec<String> =
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    matches.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|mut error| {
        let invalid = match error.get(ContextKind::InvalidSubcommand) {
            Some(ContextValue::String(name)) => Some(name.clone()),
            _ => None,
        };
        let removed = REMOVED
            .iter()
            .find(|(name, _)| invalid.as_deref() == Some(*name))
            .map(|(_, hint)| hint);
        if let Some(hint) = removed {
            error.remove(ContextKind::SuggestedSubcommand);
            let hint = ContextValue::StyledStrs(vec![hint.to_string().into()]);
            error.insert(ContextKind::Suggested, hint);
        } else if let Some(invalid) = invalid
            && error.get(ContextKind::SuggestedSubcommand).is_none()
            && let Some(meant) = nearest(&invalid, names.iter().map(String::as_str))
        {
            let meant = ContextValue::Strings(vec![meant.to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, meant);
        }
        error
    })
}

/// Parses the command line of this process, runs the command, and returns its exit code. Prints
/// what is wrong with the command line, or the help.
pub fn main(run: impl FnOnce(Cli) -> u8) -> ExitCode {
    match parse() {
        Ok(cli) => ExitCode::from(run(cli)),
        Err(error) => {
            let wrong = error.use_stderr();
            if wrong && is_json() {
                let line = log::fault_line(LogFormat::Json, error.render().to_string().trim_end());
                let _ = std::io::stderr().write_all(line.as_bytes());
            } else {
                // A failure cannot be reported without a terminal.
                let _ = error.print();
            }
            ExitCode::from(if wrong { exit::USAGE } else { exit::OK })
        }
    }
}

/// Returns whether a wrong command line is reported as JSON: if `LOG_FORMAT` is `json`, or if the
/// log of the command would be JSON.
fn is_json() -> bool {
    let logs = std::env::args().nth(1).is_some_and(|command| has_log(&command));
    match log::format_from_environment() {
        LogFormat::Auto => logs && log::is_json(LogFormat::Auto),
        format => format == LogFormat::Json,
    }
}

/// The commands of `aetheel cluster`.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Import the journal of this machine into the database of its cluster; `run` does this too
    Import(Common),
    /// Export the journal of the cluster to this machine, its last one, which then runs alone
    Export(Common),
}

/// A task of the commands about a cluster.
#[derive(Debug)]
pub enum ClusterTask {
    /// `aetheel nodes`.
    Nodes {
        /// Whether to print JSON.
        json: bool,
    },
    /// `aetheel drain`.
    Drain {
        /// The name of the node.
        node: String,
        /// Whether the node is to accept channels again.
        undo: bool,
        /// Whether to return without waiting for the node to hand over its channels.
        no_wait: bool,
    },
    /// `aetheel cluster import`.
    Import,
    /// `aetheel cluster export`.
    Export,
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_is_in_one_group_of_the_help() {
        let command = command();
        let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut visible: Vec<&str> = visible.map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, visible);
        let help = command.clone().render_help().to_string();
        assert!(help.contains("Set up:\n  init           Set Aetheel up"), "{help}");
        assert_eq!(help.matches("Answer in Discord until stopped").count(), 1, "{help}");
    }
}
