//! The workbench: commands to write, test and compare backends, policies and observers, at the
//! command line and in a contributor's CI.
//!
//! The program `aetheel` parses the command line, shows help and completes words in a shell. For a
//! command of this crate it starts `aetheel-kit` with the same arguments. So the gateway contains
//! neither generators of bindings nor the templates of projects.
//!
//! This crate owns the output of the commands and their exit codes (0: success, 1: the trial
//! failed, 64: the trial could not be run). A command needs a configuration only if it names a
//! backend or recording instead of a file, or works with an installation. The trials are in
//! [`aetheel_kit`].
//!
//! | module | content |
//! |---|---|
//! | [`new`], [`new_extension`], [`templates`] | new projects |
//! | [`contract`], [`bindings`], [`componentize`] | the contract for guests in other languages |
//! | [`dev`], [`record`] | building after every change, and recording an agent |
//! | [`check`], [`mod@test`], [`inspect`] | trials of a component, its cases, its properties |
//! | [`replay`], [`compare`], [`simulate_crash`] | recordings, read by a component |
//! | [`mod@bench`], [`profile`] | time and memory |
//! | [`report`], [`reproduce`], [`mend`] | faults of turns, and changes that correct them |
//! | [`policy`], [`observer`] | policies and observers |
//! | [`resolve`], [`open`], [`guest_output`] | files that arguments name, and output of guests |

mod bench;
mod bindings;
mod check;
mod compare;
mod componentize;
mod contract;
mod dev;
mod guest_output;
mod inspect;
mod mend;
mod new;
mod new_extension;
mod observer;
mod open;
mod policy;
mod profile;
mod record;
mod replay;
mod report;
mod reproduce;
mod resolve;
mod simulate_crash;
mod templates;
mod test;

use aetheel::cli::{AuthorCommand, ObserverCommand, PolicyCommand, exit};
use aetheel::commands::context::{
    block_on, if_sound_but_caps, protect, with_console_settings, with_settings, with_sound_settings,
};
use aetheel::commands::{BackendCommand, Cli, CliCommand};
use aetheel::demo;
use aetheel::terminal::fail;
use aetheel_model::extension::ExtensionKind;

/// Runs a command of `aetheel-kit` and returns the exit code.
#[must_use]
pub fn run(cli: Cli) -> u8 {
    if let Err(code) = protect(&cli) {
        return code;
    }
    match cli.command {
        CliCommand::Backend(BackendCommand::Author(command)) => run_backend(command),
        CliCommand::Policy(PolicyCommand::New { name, into }) => {
            new_extension::run(ExtensionKind::Policy, &name, into)
        }
        CliCommand::Policy(PolicyCommand::Check { component, json }) => {
            block_on(policy::check::run(component, json))
        }
        CliCommand::Policy(PolicyCommand::Replay(args)) => {
            with_settings(&args.common, None, |settings| {
                block_on(policy::replay::run(settings, &args))
            })
        }
        CliCommand::Observer(ObserverCommand::New { name, into }) => {
            new_extension::run(ExtensionKind::Observer, &name, into)
        }
        CliCommand::Observer(ObserverCommand::Check { component, json }) => {
            block_on(observer::check(component, json))
        }
        CliCommand::SimulateCrash(args) => with_sound_settings(&args.common, |settings| {
            block_on(simulate_crash::run(settings, &args))
        }),
        CliCommand::Report(args) => with_console_settings(&args.common, None, |settings| {
            block_on(report::run(settings, &args))
        }),
        CliCommand::Reproduce(args) => {
            with_settings(&args.common, None, |settings| block_on(reproduce::run(settings, &args)))
        }
        // The agent of `mend --with demo` is this program.
        CliCommand::DemoAgent { arguments } => {
            demo::run(arguments, std::io::stdin(), std::io::stdout(), std::io::stderr())
        }
        _ => refuse(),
    }
}

fn run_backend(command: AuthorCommand) -> u8 {
    match command {
        AuthorCommand::Inspect(args) => block_on(inspect::run(args)),
        AuthorCommand::Check(args) => block_on(check::run(args)),
        AuthorCommand::Test(args) => block_on(test::run(args)),
        AuthorCommand::Record(args) => block_on(record::run(args)),
        AuthorCommand::Replay(args) => with_settings(&args.common, None, |settings| {
            block_on(replay::run(settings.config, &args))
        }),
        AuthorCommand::Compare(args) => with_settings(&args.common, None, |settings| {
            if_sound_but_caps(settings, |settings| block_on(compare::run(settings, &args)))
        }),
        AuthorCommand::Dev(args) => {
            with_settings(&args.common, None, |settings| block_on(dev::run(settings.config, &args)))
        }
        AuthorCommand::Mend(args) => {
            with_sound_settings(&args.common, |settings| block_on(mend::run(settings, &args)))
        }
        AuthorCommand::Bench(args) => block_on(bench::run(args)),
        AuthorCommand::Profile(args) => block_on(profile::run(args)),
        AuthorCommand::New(args) => new::run(args),
        AuthorCommand::Bindings(args) => bindings::run(args),
        AuthorCommand::Componentize(args) => componentize::run(args),
    }
}

/// Refuses a command that belongs to the program `aetheel`.
fn refuse() -> u8 {
    fail(
        "`aetheel-kit` has only the commands of backend authors; run `aetheel` with the same arguments",
    );
    exit::USAGE
}
