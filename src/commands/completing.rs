//! Shell completions: the names of backends, channels and other lanes complete as well as commands.
//!
//! The shell runs this program with [`VARIABLE`] for each Tab. The names come from the folders of
//! the configuration, so that they are right although no gateway runs.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use clap::builder::Resettable;
use clap::{Arg, Command, CommandFactory as _};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};

use super::Cli;
use crate::cli::Common;
use crate::startup::settings::{self, WithoutSettings};
use aetheel_model::event::Lane;
use aetheel_settings::Config;
use aetheel_store::workspace::known_lanes;

/// The variable that asks for completions. `COMPLETE`, the usual one, could be set for another
/// program.
const VARIABLE: &str = "AETHEEL_COMPLETE";

/// Prints completions if the environment asks for them. Returns whether it does.
///
/// # Errors
/// The request is invalid, or stdout is closed.
pub fn complete() -> Result<bool, clap::Error> {
    let here = std::env::current_dir().ok();
    let complete = CompleteEnv::with_factory(|| with_names(described())).var(VARIABLE);
    complete.try_complete(std::env::args_os(), here.as_deref())
}

/// Writes the code with which a shell asks this program for completions.
pub(super) fn write_registration(shell: Shell, out: &mut dyn io::Write) -> io::Result<()> {
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string());
    let completer = completer.ok_or_else(|| io::Error::other(format!("{shell} is unknown")))?;
    completer.write_registration(VARIABLE, "aetheel", "aetheel", "aetheel", out)
}

/// Adds names to the arguments whose values are names.
fn with_names(command: Command) -> Command {
    command.mut_args(with_candidates).mut_subcommands(with_names)
}

fn with_candidates(argument: Arg) -> Arg {
    let value = argument.get_value_names().and_then(<[_]>::first).map(|name| name.to_string());
    match value.as_deref() {
        Some("BACKEND") => argument.add(ArgValueCandidates::new(backends)),
        Some("CHANNEL") if argument.get_long().is_some() => {
            argument.add(ArgValueCandidates::new(channels))
        }
        Some("LANE" | "CHANNEL" | "TURN|RECORDING|CHANNEL" | "RECORDING|TURN|CHANNEL") => {
            argument.add(ArgValueCandidates::new(lanes))
        }
        _ => argument,
    }
}

fn backends() -> Vec<CompletionCandidate> {
    let files = fs::read_dir(configuration().backends_dir).into_iter().flatten().flatten();
    let names: BTreeSet<String> = files
        .filter_map(|file| file.file_name().to_str()?.strip_suffix(".wasm").map(str::to_owned))
        .collect();
    names.into_iter().map(CompletionCandidate::new).collect()
}

fn lanes() -> Vec<CompletionCandidate> {
    let mut lanes = saved_lanes();
    lanes.insert(Lane::Console);
    lanes.iter().map(|lane| CompletionCandidate::new(lane.to_string())).collect()
}

fn channels() -> Vec<CompletionCandidate> {
    let id = |lane| match lane {
        Lane::Channel(id) => Some(CompletionCandidate::new(id.to_string())),
        _ => None,
    };
    saved_lanes().into_iter().filter_map(id).collect()
}

fn saved_lanes() -> BTreeSet<Lane> {
    known_lanes(&configuration().config_dir)
}

/// Reads the configuration. Its faults are left to other commands.
fn configuration() -> Config {
    settings::read(&Common::default(), None, WithoutSettings::Console, false).config
}

/// Returns the command line without hidden commands.
pub(super) fn described() -> Command {
    shown(&Cli::command()).version(env!("CARGO_PKG_VERSION"))
}

/// Returns a command without hidden subcommands and arguments, which shells would otherwise
/// complete.
fn shown(command: &Command) -> Command {
    // `CliCommand::new` needs a static name. The leak is harmless, because the program ends soon.
    let name: &'static str = command.get_name().to_owned().leak();
    Command::new(name)
        .about(Resettable::from(command.get_about().cloned()))
        .long_about(Resettable::from(command.get_long_about().cloned()))
        .after_help(Resettable::from(command.get_after_help().cloned()))
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().filter(|one| !one.is_hide_set()).map(shown))
        .subcommand_required(command.is_subcommand_required_set())
}
