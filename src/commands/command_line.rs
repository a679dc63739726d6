//! The command line: parses it, and shows the commands in groups.

use std::io::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use super::CliCommand;
use crate::cli::exit;
use aetheel_model::choice::LogFormat;
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
fn has_log(command: &str) -> bool {
    matches!(command, "run" | "hold")
}

/// Builds the clap command. Its help shows the commands in groups.
fn command() -> clap::Command {
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
fn parse() -> Result<Cli, clap::Error> {
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
