//! The kit: commands to write, test and replace a backend, at the command line and in a
//! contributor's CI.
//!
//! This module owns the output of the commands and their exit codes (0: success, 1: the trial
//! failed, 64: the trial could not be run). A command needs a configuration only if it uses the
//! folder of backends, or if it names a backend or recording instead of a file. The trials
//! are in [`aetheel_kit`].

pub(super) mod approve;
#[cfg_attr(not(feature = "registry"), path = "artifacts_absent.rs")]
mod artifacts;
mod bench;
mod bindings;
mod changes;
mod check;
pub(super) mod compare;
mod componentize;
mod consent;
mod contract;
pub(super) mod dev;
mod fetched;
mod guest_output;
mod inspect;
pub(super) mod install;
mod locked;
pub(super) mod mend;
pub(super) mod new;
pub(super) mod open;
mod profile;
mod record;
pub(super) mod replay;
pub(super) mod report;
pub(super) mod reproduce;
mod resolve;
pub(super) mod rollback;
pub(super) mod rollout;
mod serving;
pub(super) mod simulate_crash;
mod templates;
mod test;

use crate::cli::BackendCommand;

use super::block_on;

/// Runs a command that needs no configuration.
pub(super) fn run(command: BackendCommand) -> u8 {
    match command {
        BackendCommand::Inspect { component, json } => block_on(inspect::run(component, json)),
        BackendCommand::Check { component, recordings, json } => {
            block_on(check::run(component, recordings, json))
        }
        BackendCommand::Test { component, cases, update, json } => {
            block_on(test::run(component, cases, update, json))
        }
        BackendCommand::Record {
            output,
            prompt,
            agent_version,
            safety,
            mode,
            live,
            until,
            command,
        } => block_on(record::run(
            output,
            record::RecordOptions { prompt, agent_version, safety, mode, live, until },
            command,
        )),
        BackendCommand::Bench { component, recording, json } => {
            block_on(bench::run(component, recording, json))
        }
        BackendCommand::Profile { component, recording, output, rounds, any_backend, json } => {
            let options = profile::ProfileOptions { output, rounds, any_backend, json };
            block_on(profile::run(component, recording, options))
        }
        BackendCommand::New { name, lang, kind, into } => new::run(name, lang, kind, into),
        BackendCommand::Bindings { lang, out } => bindings::run(lang, out),
        BackendCommand::Componentize { module, output } => componentize::run(module, output),
        // The caller runs these commands, because they need a configuration.
        BackendCommand::List { .. }
        | BackendCommand::Ping { .. }
        | BackendCommand::Replay { .. }
        | BackendCommand::Compare { .. }
        | BackendCommand::Dev { .. }
        | BackendCommand::Mend { .. }
        | BackendCommand::Install { .. }
        | BackendCommand::Approve { .. }
        | BackendCommand::Rollback { .. }
        | BackendCommand::Rollout { .. }
        | BackendCommand::History { .. }
        | BackendCommand::Promote { .. }
        | BackendCommand::Withdraw { .. } => crate::cli::exit::SOFTWARE,
    }
}
