//! The kit: everything to make, prove and replace a backend, at the command line and in a
//! contributor's CI.
//!
//! Owns the output of the commands and their exit codes (0: all is well, 1: what was tried failed,
//! 64: it could not be tried). None of them needs a configuration, but those that touch the folder
//! of backends, and `replay` where a backend or a recording is named rather than a file. The trials themselves are in [`crate::kit`].

mod all_nodes;
pub(super) mod approve;
mod assent;
mod bench;
mod bindings;
mod changes;
mod check;
mod componentize;
mod contract;
mod inspect;
pub(super) mod install;
mod named;
mod new;
mod open;
mod printed;
mod record;
pub(super) mod replay;
pub(super) mod rollback;
mod serving;
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
            record::Said { prompt, agent_version, safety, mode, live, until },
            command,
        )),
        BackendCommand::Bench { component, recording, json } => {
            block_on(bench::run(component, recording, json))
        }
        BackendCommand::New { name, lang, kind, into } => new::run(name, lang, kind, into),
        BackendCommand::Bindings { lang, out } => bindings::run(lang, out),
        BackendCommand::Componentize { module, output } => componentize::run(module, output),
        // Read with the configuration, by the caller.
        BackendCommand::List { .. }
        | BackendCommand::Ping { .. }
        | BackendCommand::Replay { .. }
        | BackendCommand::Install { .. }
        | BackendCommand::Approve { .. }
        | BackendCommand::Rollback { .. } => crate::cli::exit::SOFTWARE,
    }
}
